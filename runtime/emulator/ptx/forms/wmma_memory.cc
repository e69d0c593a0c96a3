// wmma.load and wmma.store: fragments, between memory of any layout and registers.
//
// The PTX ISA leaves open where a fragment has which element. Here its registers are the tiles of
// mma: of A 8 rows of 4 words, of B 8 columns of 4 words, of C and D 8 rows of 8 columns.

#include <bit>
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

constexpr uint8_t kByColumns = kFormFlag;
constexpr uint8_t kStride = kFormFlag2;  // Slot b has it; else lines follow each other.

enum class Part : uint8_t { kA, kB, kSums };

// A fragment of one of the matrices, of elements of so many bytes.
template <Part part_, int rows_, int columns_, int bytes_>
struct MatrixFragment {
  static constexpr Part kPart = part_;
  static constexpr int kRows = rows_;
  static constexpr int kColumns = columns_;
  static constexpr int kBytes = bytes_;
  static constexpr int kPerWord = 4 / bytes_;
  static constexpr int kRegisters = rows_ * columns_ / (kLanes * kPerWord);

  struct Place {
    int row;
    int column;
  };

  // Of element i of a lane's word in a register; the next one is in the next column, of B the next
  // row.
  static Place At(int reg, int lane, int i) {
    const int line = lane / 4;
    const int within = lane % 4 * kPerWord + i;
    if constexpr (kPart == Part::kA) {
      constexpr int kTiles = rows_ / 8;
      return {8 * (reg % kTiles) + line, 4 * kPerWord * (reg / kTiles) + within};
    } else if constexpr (kPart == Part::kB) {
      constexpr int kTiles = rows_ / (4 * kPerWord);
      return {4 * kPerWord * (reg % kTiles) + within, 8 * (reg / kTiles) + line};
    } else {
      constexpr int kTiles = rows_ / 8;
      const int tile = reg * kPerWord / 2;  // One of two registers, or one.
      const int column = 2 * (lane % 4) + (kPerWord == 1 ? reg % 2 : i);
      return {8 * (tile % kTiles) + line, 8 * (tile / kTiles) + column};
    }
  }
};

// Calls `of(lane, word, memory, bytes)` for each piece of a lane's words that is in one place.
template <typename F, typename Of>
Step EachPiece(Warp& warp, const Instr& instr, AccessKind kind, const Of& of) {
  Step step = Step::kNext;
  if (!warp.Gather(kAllLanes, step)) return step;
  const LaneAddresses addresses(warp, instr);
  const bool by_columns = (instr.flags & kByColumns) != 0;
  const bool whole = F::kPart == Part::kB ? by_columns : !by_columns;
  const uint32_t* const strides =
      (instr.flags & kStride) != 0 ? warp.From<uint32_t>(instr.b) : nullptr;
  const uint32_t packed = by_columns ? F::kRows : F::kColumns;
  const int pieces = whole ? 1 : F::kPerWord;
  const int bytes = 4 / pieces;
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const uint64_t stride = strides == nullptr ? packed : strides[lane];
    for (int reg = 0; reg < F::kRegisters; ++reg) {
      for (int i = 0; i < pieces; ++i) {
        const auto place = F::At(reg, lane, i);
        const uint64_t line = by_columns ? place.column : place.row;
        const uint64_t within = by_columns ? place.row : place.column;
        const uint64_t address = addresses[lane] + (line * stride + within) * F::kBytes;
        std::byte* const memory = warp.At(SpaceOf(instr), address, bytes, kind, lane);
        if (memory == nullptr) return Step::kStop;
        uint32_t* const word = &warp.To<uint32_t>(warp.More(instr, reg))[lane];
        of(reinterpret_cast<std::byte*>(word) + i * bytes, memory, bytes);
      }
    }
  }
  return Step::kNext;
}

template <typename F>
Step LoadFragment(Warp& warp, const Instr& instr) {
  return EachPiece<F>(warp, instr, AccessKind::kRead,
                      [](std::byte* word, const std::byte* memory, int bytes) {
                        std::memcpy(word, memory, bytes);
                      });
}

template <typename F>
Step StoreFragment(Warp& warp, const Instr& instr) {
  return EachPiece<F>(warp, instr, AccessKind::kWrite,
                      [](const std::byte* word, std::byte* memory, int bytes) {
                        std::memcpy(memory, word, bytes);
                      });
}

// {registers}, [address]{, stride}. There may be more registers than the fragment needs.
template <int registers>
bool DecodeLoadFragment(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 2, 3);
  std::vector<Slot> slots;
  operands.WriteVector(registers, 4, slots);
  operands.Address(to);
  if (operands.more()) {
    to.b = operands.Read(4);
    to.flags |= kStride;
  }
  to.more = decoder.Append(slots);
  return operands.ok();
}

// [address], {registers}{, stride}
template <int registers>
bool DecodeStoreFragment(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 2, 3);
  std::vector<Slot> slots;
  operands.Address(to);
  operands.ReadVector(registers, 4, slots);
  if (operands.more()) {
    to.b = operands.Read(4);
    to.flags |= kStride;
  }
  to.more = decoder.Append(slots);
  return operands.ok();
}

// Rows for every layout and space of what is between "wmma.load.a" and its type.
void AddLayouts(FormTable& table,
                const std::string& opcode,
                const std::string& shape,
                const char* type,
                DecodeHook decode,
                Handler handler) {
  struct {
    const char* name;
    Space space;
  } constexpr kSpaces[] = {
      {".global", Space::kGlobal}, {".shared", Space::kShared}, {"", Space::kGeneric}};
  for (const auto& in : kSpaces) {
    for (const bool by_columns : {false, true}) {
      const uint8_t flags = SpaceFlags(in.space) | (by_columns ? kByColumns : 0);
      table.Decoded(fmt::format("{}.sync.aligned.{}.{}{}.{}", opcode, by_columns ? "col" : "row",
                                shape, in.name, type),
                    decode, handler, flags);
    }
  }
}

template <int m, int n, int k, int bytes, int registers_a, int registers_b>
void AddFactors(FormTable& table, const char* type) {
  const std::string shape = fmt::format("m{}n{}k{}", m, n, k);
  AddLayouts(table, "wmma.load.a", shape, type, DecodeLoadFragment<registers_a>,
             LoadFragment<MatrixFragment<Part::kA, m, k, bytes>>);
  AddLayouts(table, "wmma.load.b", shape, type, DecodeLoadFragment<registers_b>,
             LoadFragment<MatrixFragment<Part::kB, k, n, bytes>>);
}

template <int m, int n, int k, int bytes>
void AddSums(FormTable& table, const char* type) {
  using F = MatrixFragment<Part::kSums, m, n, bytes>;
  const std::string shape = fmt::format("m{}n{}k{}", m, n, k);
  AddLayouts(table, "wmma.load.c", shape, type, DecodeLoadFragment<F::kRegisters>, LoadFragment<F>);
  AddLayouts(table, "wmma.store.d", shape, type, DecodeStoreFragment<F::kRegisters>,
             StoreFragment<F>);
}

template <int m, int n>
void AddShape(FormTable& table) {
  AddFactors<m, n, 16, 2, 8, 8>(table, "f16");
  AddFactors<m, n, 16, 2, m / 4, n / 4>(table, "bf16");
  for (const char* type : {"s8", "u8"})
    AddFactors<m, n, 16, 1, m / 8, n / 8>(table, type);
  AddSums<m, n, 16, 2>(table, "f16");
  for (const char* type : {"f32", "s32"})
    AddSums<m, n, 16, 4>(table, type);
}

}  // namespace

void AddWmmaMemoryForms(FormTable& table) {
  AddShape<16, 16>(table);
  AddShape<32, 8>(table);
  AddShape<8, 32>(table);
  AddFactors<16, 16, 8, 4, 4, 4>(table, "tf32");
  AddSums<16, 16, 8, 4>(table, "f32");
}

}  // namespace coppice::ptx
