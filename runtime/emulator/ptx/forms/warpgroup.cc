// Where operands of wgmma lie, and what orders products.

#include "runtime/emulator/ptx/forms/warpgroup.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>

#include "fmt/format.h"

#include "runtime/emulator/ptx/async_work.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/swizzle.h"

namespace coppice::ptx {
namespace {

constexpr uint64_t kCoreRowBytes = 16;
constexpr int kRows = 8;  // Of a tile.
constexpr int kWarps = 4;

// Of Instr::immediate.
constexpr uint64_t kColumns = 0x1ff;
constexpr uint64_t kFragments = 1 << 9;  // A is in registers.
constexpr uint64_t kNegated = 1 << 10;
constexpr uint64_t kTransposedA = 1 << 11;
constexpr uint64_t kTransposedB = 1 << 12;
constexpr int kFragmentRegisters = 4;

// The descriptor of a matrix in shared memory, as the PTX ISA has it.
struct Descriptor {
  explicit Descriptor(uint64_t bits)
      : start((bits & 0x3fff) << 4),
        leading((bits >> 16 & 0x3fff) << 4),
        stride((bits >> 32 & 0x3fff) << 4),
        base_offset(static_cast<int>(bits >> 49 & 7)),
        swizzle(static_cast<int>((4 - (bits >> 62)) % 4)) {}

  uint64_t start;
  uint64_t leading;
  uint64_t stride;
  int base_offset;
  int swizzle;  // swizzle.h; the ISA numbers the modes the other way.
};

// Row `i` of the tile that has rows, or columns, from 8 * `group` on, and the first or second 16
// bytes of each. Transposed: that has them in 16 bytes, for the i-th of 8 in the first or second
// half of the depth.
uint64_t RowOf(
    const Descriptor& matrix, bool transposed, uint64_t group, uint64_t half, uint64_t i) {
  const int mode = matrix.swizzle;
  if (mode == 0)
    return matrix.start + group * matrix.stride + half * matrix.leading + i * kCoreRowBytes;
  const uint64_t wide = kCoreRowBytes << mode;
  if (!transposed)
    return Swizzled(matrix.start + group * matrix.stride + i * wide + half * kCoreRowBytes, mode);
  const uint64_t across = wide / kCoreRowBytes;  // Tiles in a row.
  return Swizzled(matrix.start + group / across * matrix.leading + group % across * kCoreRowBytes +
                      i * wide + half * matrix.stride,
                  mode);
}

void TransposeHalves(uint32_t* tile) {
  std::array<std::array<uint16_t, kRows>, kRows> from;
  std::array<std::array<uint16_t, kRows>, kRows> to;
  std::memcpy(&from, tile, sizeof(from));
  for (size_t row = 0; row < kRows; ++row)
    for (size_t column = 0; column < kRows; ++column)
      to[column][row] = from[row][column];
  std::memcpy(tile, &to, sizeof(to));
}

bool Refuse(Warp& on, const std::string& what, Step& step) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  warp.Fault(Finding::Kind::kIllegalInstruction, std::countr_zero(warp.mask()), what);
  step = Step::kStop;
  return false;
}

}  // namespace

// The host's bytes of `rows`, which become addresses there.
bool WarpgroupOperands::Gather(Warp& warp, std::span<uint64_t> rows, uint32_t* tiles) {
  for (size_t first = 0; first < rows.size(); first += kLanes) {
    LaneWords addresses;
    std::copy_n(&rows[first], kLanes, addresses.begin());
    if (!warp.FindLanes(Space::kShared, kAllLanes, kCoreRowBytes, AccessKind::kRead, addresses))
      return false;
    std::copy_n(addresses.begin(), kLanes, &rows[first]);
  }
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(tiles + i * (kCoreRowBytes / 4), reinterpret_cast<const std::byte*>(rows[i]),
                kCoreRowBytes);
  return true;
}

bool WarpgroupOperands::Read(Warp& on, const Instr& instr, Step& step) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  if (!on.Gather(kAllLanes, step)) return false;
  const auto warps = static_cast<int>(warp.special().nwarpid[0]);
  if (on.live() != kAllLanes)
    return Refuse(warp, "is in a warp that has fewer than 32 threads", step);
  if (warp.index() / kWarps * kWarps + kWarps > warps)
    return Refuse(warp, "is in a warpgroup that has fewer than 4 warps", step);
  columns_ = static_cast<int>(instr.immediate & kColumns);
  negated_ = (instr.immediate & kNegated) != 0;
  const bool fragments = (instr.immediate & kFragments) != 0;
  const size_t count = instr.immediate >> 16;
  for (size_t i = 0; i < count; ++i)
    accumulators_.push_back(warp.More(instr, static_cast<uint32_t>(i)));

  uint32_t adds = warp.Predicate(instr.c);
  if ((instr.flags & Instr::kNegated) != 0) adds = ~adds;
  if (adds != 0 && adds != kAllLanes)
    return Refuse(warp, "adds to the accumulators in some lanes of its warp, but not in others",
                  step);
  adds_ = adds != 0;

  const Descriptor b(warp.From<uint64_t>(instr.b)[0]);
  const Descriptor a(fragments ? 0 : warp.From<uint64_t>(instr.a)[0]);
  if (a.base_offset != 0 || b.base_offset != 0)
    return Refuse(
        warp, "uses a matrix descriptor with a base offset, which the emulator does not support",
        step);

  const bool transposed_b = (instr.immediate & kTransposedB) != 0;
  const bool transposed_a = (instr.immediate & kTransposedA) != 0;
  const uint64_t groups = static_cast<uint64_t>(columns_) / kRows;
  for (uint64_t group = 0; group < groups; ++group)
    for (uint64_t half = 0; half < 2; ++half)
      for (uint64_t i = 0; i < kRows; ++i)
        rows_.push_back(RowOf(b, transposed_b, group, half, i));
  while (rows_.size() % kLanes != 0)
    rows_.push_back(rows_.back());
  const size_t rows_of_b = rows_.size();
  if (fragments) {
    for (int i = 0; i < kFragmentRegisters; ++i) {
      fragments_.push_back(
          warp.More(instr, static_cast<uint32_t>(count) + static_cast<uint32_t>(i)));
      std::memcpy(&a_[static_cast<size_t>(i * kTileWords)], warp.From<uint32_t>(fragments_.back()),
                  kTileWords * sizeof(uint32_t));
    }
  } else {
    const uint64_t first = static_cast<uint64_t>(warp.index() % kWarps) * 2;
    for (uint64_t half = 0; half < 2; ++half)
      for (uint64_t group = first; group < first + 2; ++group)
        for (uint64_t i = 0; i < kRows; ++i)
          rows_.push_back(RowOf(a, transposed_a, group, half, i));
  }
  step = Step::kStop;
  const std::span<uint64_t> rows = rows_;
  if (!Gather(on, rows.first(rows_of_b), b_.data()) ||
      !Gather(on, rows.subspan(rows_of_b), a_.data()))
    return false;
  if (transposed_b)
    for (uint64_t tile = 0; tile < 2 * groups; ++tile)
      TransposeHalves(&b_[tile * kTileWords]);
  if (transposed_a && !fragments)
    for (uint64_t tile = 0; tile < 4; ++tile)
      TransposeHalves(&a_[tile * kTileWords]);
  return true;
}

void WarpgroupOperands::Start(Warp& warp) {
  warp.async().products.Start(warp, accumulators_, fragments_, std::move(rows_));
}

// {accumulators}, A, B, adds {, sign of A, sign of B {, A transposed}, B transposed}
template <int registers>
bool DecodeWarpgroupMultiply(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 4, 8);
  const std::string_view columns_text = from.opcode.substr(from.opcode.find(".m64n") + 5);
  uint64_t columns = 0;
  std::from_chars(columns_text.data(), columns_text.data() + columns_text.size(), columns);
  std::vector<Slot> slots;
  operands.WriteVector(columns / kRows * registers, 4, slots);
  const size_t count = slots.size();
  const bool fragments = operands.more() && operands.next().kind == Operand::Kind::kVector;
  if (fragments) {
    operands.ReadVector(kFragmentRegisters, 4, slots);
  } else {
    to.a = operands.Read(8);
  }
  to.b = operands.Read(8);
  bool negated = false;
  to.c = operands.ReadPredicate(negated);
  if (negated) to.flags |= Instr::kNegated;
  to.immediate = columns | (fragments ? kFragments : 0) | count << 16;
  bool negative = false;
  for (int i = 0; i < 2 && operands.more(); ++i) {
    const auto sign = static_cast<int64_t>(operands.Integer());
    if (sign != 1 && sign != -1) operands.Fail("the sign of an operand must be 1 or -1");
    negative ^= sign == -1;
  }
  if (negative) to.immediate |= kNegated;
  for (const uint64_t flag : {kTransposedA, kTransposedB}) {
    if ((flag == kTransposedA && fragments) || !operands.more()) continue;
    const uint64_t transposed = operands.Integer();
    if (transposed > 1) operands.Fail("the transpose flag of an operand must be 0 or 1");
    if (transposed == 1) to.immediate |= flag;
  }
  if (operands.more()) operands.Fail("the instruction has too many operands");
  to.more = decoder.Append(slots);
  return operands.ok();
}
template bool DecodeWarpgroupMultiply<2>(FunctionDecoder&, const Instruction&, Instr&);
template bool DecodeWarpgroupMultiply<4>(FunctionDecoder&, const Instruction&, Instr&);

Step RunWatched(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const Code& code = warp.code();
  const auto index = static_cast<uint32_t>(&instr - code.instrs.data());
  const auto watched = std::ranges::lower_bound(code.watched, index, {}, &Watched::instr);
  warp.async().products.Touch(warp, watched->registers, watched->moves);
  return watched->handler(on, instr);
}

namespace {

Step RunProductFence(Warp& warp, const Instr&) {
  Step step = Step::kNext;
  if (warp.Gather(kAllLanes, step)) warp.async().products.Fence(warp);
  return step;
}

Step CommitProducts(Warp& warp, const Instr&) {
  Step step = Step::kNext;
  if (warp.Gather(kAllLanes, step)) warp.async().products.Commit(warp);
  return step;
}

Step WaitForProducts(Warp& warp, const Instr& instr) {
  Step step = Step::kNext;
  if (warp.Gather(kAllLanes, step))
    warp.async().products.Wait(warp, static_cast<uint32_t>(instr.immediate));
  return step;
}

}  // namespace

void AddWarpgroupForms(FormTable& table) {
  table.Decoded("wgmma.fence.sync.aligned", DecodeNothing, RunProductFence);
  table.Decoded("wgmma.commit_group.sync.aligned", DecodeNothing, CommitProducts);
  table.Add("wgmma.wait_group.sync.aligned", "i", WaitForProducts);
}

}  // namespace coppice::ptx
