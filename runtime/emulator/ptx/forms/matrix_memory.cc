// ldmatrix, stmatrix and movmatrix: matrices of 8 rows of 8 elements of 16 bits, one per register.
// Lane 4 r + i has elements 2 i and 2 i + 1 of row r, so that a register is the matrix by rows.

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fmt/format.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/matrix_tables.h"
#include "runtime/emulator/ptx/forms/operands.h"

namespace coppice::ptx {
namespace {

constexpr int kRowBytes = 16;

using Matrix8x8 = std::array<std::array<uint16_t, 8>, 8>;
static_assert(sizeof(Matrix8x8) == sizeof(uint32_t) * kLanes);

Matrix8x8 Transposed(const Matrix8x8& matrix) {
  Matrix8x8 transposed;
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 8; ++column)
      transposed[column][row] = matrix[row][column];
  }
  return transposed;
}

// The address of row r of matrix m is that of lane 8 m + r.
template <int matrices>
constexpr uint32_t kRowLanes = kAllLanes >> (kLanes - 8 * matrices);

template <int matrices>
bool FindRows(Warp& warp, const Instr& instr, AccessKind kind, LaneWords& rows) {
  const LaneAddresses addresses(warp, instr);
  for (int lane = 0; lane < kLanes; ++lane)
    rows[static_cast<size_t>(lane)] = addresses[lane];
  return warp.FindLanes(SpaceOf(instr), kRowLanes<matrices>, kRowBytes, kind, rows);
}

// The registers are in `more`.
template <int matrices, bool transposes>
Step LoadMatrices(Warp& warp, const Instr& instr) {
  Step step = Step::kNext;
  if (!warp.Gather(kAllLanes, step)) return step;
  LaneWords rows;
  if (!FindRows<matrices>(warp, instr, AccessKind::kRead, rows)) return Step::kStop;
  warp.Tell(kRowLanes<matrices>, rows, kRowBytes, AccessKind::kRead);
  std::array<Matrix8x8, matrices> loaded;
  for (size_t lane = 0; lane < 8 * matrices; ++lane)
    std::memcpy(&loaded[lane / 8][lane % 8], reinterpret_cast<const std::byte*>(rows[lane]),
                kRowBytes);
  for (int i = 0; i < matrices; ++i) {
    const Matrix8x8 matrix = transposes ? Transposed(loaded[i]) : loaded[i];
    std::memcpy(warp.To<uint32_t>(warp.More(instr, i)), &matrix, sizeof(matrix));
  }
  return Step::kNext;
}

template <int matrices, bool transposes>
Step StoreMatrices(Warp& warp, const Instr& instr) {
  Step step = Step::kNext;
  if (!warp.Gather(kAllLanes, step)) return step;
  LaneWords rows;
  if (!FindRows<matrices>(warp, instr, AccessKind::kWrite, rows)) return Step::kStop;
  warp.Tell(kRowLanes<matrices>, rows, kRowBytes, AccessKind::kWrite);
  for (int i = 0; i < matrices; ++i) {
    Matrix8x8 matrix;
    std::memcpy(&matrix, warp.From<uint32_t>(warp.More(instr, i)), sizeof(matrix));
    if (transposes) matrix = Transposed(matrix);
    for (size_t row = 0; row < 8; ++row)
      std::memcpy(reinterpret_cast<std::byte*>(rows[static_cast<size_t>(8 * i) + row]),
                  &matrix[row], kRowBytes);
  }
  return Step::kNext;
}

Step TransposeMatrix(Warp& warp, const Instr& instr) {
  Step step = Step::kNext;
  if (!warp.Gather(kAllLanes, step)) return step;
  Matrix8x8 matrix;
  std::memcpy(&matrix, warp.From<uint32_t>(instr.a), sizeof(matrix));
  matrix = Transposed(matrix);
  std::memcpy(warp.To<uint32_t>(instr.d), &matrix, sizeof(matrix));
  return Step::kNext;
}

// {registers}, [address]
template <int matrices>
bool DecodeLoad(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 2, 2);
  std::vector<Slot> registers;
  operands.WriteVector(matrices, 4, registers);
  operands.Address(to);
  to.more = decoder.Append(registers);
  return operands.ok();
}

// [address], {registers}
template <int matrices>
bool DecodeStore(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 2, 2);
  std::vector<Slot> registers;
  operands.Address(to);
  operands.ReadVector(matrices, 4, registers);
  to.more = decoder.Append(registers);
  return operands.ok();
}

template <int matrices>
void AddMemoryForms(FormTable& table) {
  struct {
    const char* name;
    Space space;
  } constexpr kSpaces[] = {{".shared", Space::kShared}, {"", Space::kGeneric}};
  for (const auto& in : kSpaces) {
    const auto name = [&](const char* opcode, const char* transposes) {
      return fmt::format("{}.sync.aligned.m8n8.x{}{}{}.b16", opcode, matrices, transposes, in.name);
    };
    const uint8_t flags = SpaceFlags(in.space);
    table.Decoded(name("ldmatrix", ""), DecodeLoad<matrices>, LoadMatrices<matrices, false>, flags);
    table.Decoded(name("ldmatrix", ".trans"), DecodeLoad<matrices>, LoadMatrices<matrices, true>,
                  flags);
    table.Decoded(name("stmatrix", ""), DecodeStore<matrices>, StoreMatrices<matrices, false>,
                  flags);
    table.Decoded(name("stmatrix", ".trans"), DecodeStore<matrices>, StoreMatrices<matrices, true>,
                  flags);
  }
}

}  // namespace

std::span<const Form> MatrixForms() {
  static const FormTable table = [] {
    FormTable made;
    AddMemoryForms<1>(made);
    AddMemoryForms<2>(made);
    AddMemoryForms<4>(made);
    made.Add("movmatrix.sync.aligned.m8n8.trans.b16", "Ww", TransposeMatrix);
    AddWmmaMemoryForms(made);
    return made;
  }();
  return table.rows();
}

}  // namespace coppice::ptx
