// cp.async.bulk and cp.reduce.async.bulk: copies of rows of bytes, and of boxes of tensors that
// maps describe; and what orders them.
//
// Slots: d is the address in shared memory, a that of the map or of global memory, b the number of
// bytes of a row, c the ranks of blocks; from Instr::more on there are coordinates, and the address
// of the mbarrier and its offset. The immediate has two signed offsets of 32 bits: that of shared
// memory is the low one.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "runtime/emulator/ptx/async_work.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/async_tables.h"
#include "runtime/emulator/ptx/forms/bulk_reduce.h"
#include "runtime/emulator/ptx/forms/map_memory.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/swizzle.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

// Of flags: which addresses have 32 bits.
constexpr uint8_t kNarrowShared = 1;
constexpr uint8_t kNarrowGlobal = 2;
constexpr uint8_t kNarrowBarrier = 4;
constexpr uint8_t kMulticast = 8;  // c: the ranks of blocks.

struct Addresses {
  LaneAddresses shared;
  LaneAddresses global;

  Addresses(const Warp& warp, const Instr& instr)
      : shared(warp,
               instr.d,
               (instr.flags & kNarrowShared) != 0,
               static_cast<uint64_t>(static_cast<int32_t>(instr.immediate))),
        global(warp,
               instr.a,
               (instr.flags & kNarrowGlobal) != 0,
               static_cast<uint64_t>(static_cast<int32_t>(instr.immediate >> 32))) {}
};

// What an address of shared memory is, which is given as an offset or as one of the window.
struct SharedPlace {
  BlockState* block = nullptr;
  uint64_t offset = 0;
};

// False, which is noted: it is none of the cluster.
bool FindPlace(Warp& on, int lane, uint64_t address, SharedPlace& place) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const std::vector<BlockState*>& members = warp.block().cluster->members;
  const bool in_window = (address & kWindowMask) == kSharedWindow;
  const uint64_t at = in_window ? address & ~kWindowMask : address;
  const uint64_t rank = at >> kRankShift;
  if (rank > members.size() || (rank != 0 && !members[rank - 1]->running)) {
    warp.Fault(Finding::Kind::kIllegalAddress, lane,
               fmt::format("copies to or from {:#x}, which is not in the shared memory of a "
                           "running block of the cluster",
                           address),
               address);
    return false;
  }
  place = {rank == 0 ? &warp.block() : members[rank - 1], at & ((uint64_t{1} << kRankShift) - 1)};
  return true;
}

// Whether both are of one block; else that is noted.
bool AreOf(
    Warp& on, int lane, const BlockState* block, const SharedPlace& place, const char* what) {
  if (place.block == block) return true;
  static_cast<ResidentWarp&>(on).Fault(Finding::Kind::kIllegalAddress, lane, what);
  return false;
}

// To the block that an address names, or to those of a mask of ranks.
bool LoadTo(
    Warp& on, const Instr& instr, int lane, const BulkBox& box, uint64_t shared, uint64_t barrier) {
  SharedPlace to;
  SharedPlace counted;
  if (!FindPlace(on, lane, shared, to) || !FindPlace(on, lane, barrier, counted) ||
      !AreOf(on, lane, to.block, counted,
             "copies to one block, but signals an mbarrier of another block"))
    return false;
  const auto load = [&](BlockState& block) {
    if (!block.async->barriers.Has(counted.offset)) {
      static_cast<ResidentWarp&>(on).Fault(
          Finding::Kind::kIllegalInstruction, lane,
          fmt::format("signals an mbarrier at {:#x} that no thread has initialized; execute "
                      "mbarrier.init first",
                      barrier),
          barrier);
      return false;
    }
    return block.async->bulk.Load(on, lane, box, block, to.offset, counted.offset);
  };
  if ((instr.flags & kMulticast) == 0) return load(*to.block);
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const std::vector<BlockState*>& members = warp.block().cluster->members;
  const uint32_t ranks = warp.From<uint16_t>(instr.c)[lane];
  if (ranks >> members.size() != 0) {
    warp.Fault(Finding::Kind::kIllegalInstruction, lane,
               fmt::format("copies to the blocks in mask {:#x}, but the cluster size is {}", ranks,
                           members.size()));
    return false;
  }
  for (size_t rank = 0; rank < members.size(); ++rank)
    if ((ranks >> rank & 1) != 0 && members[rank]->running && !load(*members[rank])) return false;
  return true;
}

// The box that a lane names; false: there is none, which has been noted.
bool FindBox(Warp& warp, const Instr& instr, int lane, uint64_t address, int rank, BulkBox& box) {
  MapMemory memory;
  if (!memory.Find(warp, Space::kGeneric, address, AccessKind::kRead, lane)) return false;
  const TensorMap map = memory.Load();
  BoxCoordinates at = {};
  for (int i = 0; i < rank; ++i)
    at[static_cast<size_t>(i)] =
        warp.From<int32_t>(warp.More(instr, static_cast<uint32_t>(i)))[lane];
  std::string why;
  std::optional<BulkBox> found = BoxOf(map, rank, at, why);
  if (!found.has_value()) {
    static_cast<ResidentWarp&>(warp).Fault(
        Finding::Kind::kIllegalInstruction, lane,
        fmt::format("copies with the tensor map at {:#x}, which {}", address, why), address);
    return false;
  }
  box = *std::move(found);
  return true;
}

template <typename Of>
Step EachLaneOf(Warp& warp, const Of& of) {
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1)
    if (!of(std::countr_zero(lanes))) return Step::kStop;
  return Step::kNext;
}

// Slots `index` of the further ones are its address and an offset.
LaneAddresses BarrierOf(const Warp& warp, const Instr& instr, uint32_t index) {
  return {warp, warp.More(instr, index), (instr.flags & kNarrowBarrier) != 0,
          warp.From<uint64_t>(warp.More(instr, index + 1))[0]};
}

template <int rank>
Step LoadBox(Warp& warp, const Instr& instr) {
  const Addresses addresses(warp, instr);
  const LaneAddresses barriers = BarrierOf(warp, instr, rank);
  return EachLaneOf(warp, [&](int lane) {
    BulkBox box;
    return FindBox(warp, instr, lane, addresses.global[lane], rank, box) &&
           LoadTo(warp, instr, lane, box, addresses.shared[lane], barriers[lane]);
  });
}

bool StoreOf(Warp& warp, int lane, BulkBox box, uint64_t shared, decltype(BulkReduction::of) of) {
  BulkCopies::Reduce reduce = nullptr;
  if (of != nullptr && (reduce = of(box.type)) == nullptr) {
    static_cast<ResidentWarp&>(warp).Fault(
        Finding::Kind::kIllegalInstruction, lane,
        "reduces elements of a type that does not support this reduction");
    return false;
  }
  SharedPlace from;
  const BlockState* const own = &static_cast<ResidentWarp&>(warp).block();
  return FindPlace(warp, lane, shared, from) &&
         AreOf(warp, lane, own, from, "copies from the shared memory of another block") &&
         warp.async().bulk.Store(warp, lane, std::move(box), from.offset, reduce);
}

template <int rank, int reduction>
Step StoreBox(Warp& warp, const Instr& instr) {
  const Addresses addresses(warp, instr);
  return EachLaneOf(warp, [&](int lane) {
    BulkBox box;
    return FindBox(warp, instr, lane, addresses.global[lane], rank, box) &&
           StoreOf(warp, lane, std::move(box), addresses.shared[lane],
                   reduction < 0 ? nullptr : BulkReductions()[reduction].of);
  });
}

// What a lane copies in a row; false: what no device copies.
bool FindRow(Warp& warp, int lane, uint64_t global, uint32_t bytes, BulkBox& row) {
  if (bytes % kSwizzleUnit != 0 || global % kSwizzleUnit != 0) {
    static_cast<ResidentWarp&>(warp).Fault(
        Finding::Kind::kMisaligned, lane,
        fmt::format("copies {} bytes at {:#x}; the size and the address must be multiples of 16",
                    bytes, global),
        global);
    return false;
  }
  row = RowOf(global, bytes);
  return true;
}

Step LoadRow(Warp& warp, const Instr& instr) {
  const Addresses addresses(warp, instr);
  const LaneAddresses barriers = BarrierOf(warp, instr, 0);
  return EachLaneOf(warp, [&](int lane) {
    BulkBox row;
    return FindRow(warp, lane, addresses.global[lane], warp.From<uint32_t>(instr.b)[lane], row) &&
           LoadTo(warp, instr, lane, row, addresses.shared[lane], barriers[lane]);
  });
}

template <int reduction, TensorMap::Type type>
Step StoreRow(Warp& warp, const Instr& instr) {
  const Addresses addresses(warp, instr);
  return EachLaneOf(warp, [&](int lane) {
    BulkBox row;
    if (!FindRow(warp, lane, addresses.global[lane], warp.From<uint32_t>(instr.b)[lane], row))
      return false;
    row.type = type;
    return StoreOf(warp, lane, std::move(row), addresses.shared[lane],
                   reduction < 0 ? nullptr : BulkReductions()[reduction].of);
  });
}

// --- decoding

// Both addresses; an offset of more than 31 bits is an error.
bool TakeAddresses(FunctionDecoder& decoder,
                   const FunctionDecoder::Address& shared,
                   const FunctionDecoder::Address& global,
                   Instr& to) {
  if (!FitsOffset(shared.offset) || !FitsOffset(global.offset))
    return decoder.Fail("cp.async.bulk: an offset does not fit in a signed 32-bit integer");
  to.d = shared.base;
  to.a = global.base;
  to.immediate = global.offset << 32 | (shared.offset & 0xffffffff);
  to.flags |= (shared.narrow ? kNarrowShared : 0) | (global.narrow ? kNarrowGlobal : 0);
  return true;
}

// Appends the address of an mbarrier, and its offset.
void TakeBarrier(FunctionDecoder& decoder,
                 OperandReader& operands,
                 Instr& to,
                 std::vector<Slot>& slots) {
  const FunctionDecoder::Address barrier = operands.Address();
  if (!operands.ok()) return;
  if (barrier.narrow) to.flags |= kNarrowBarrier;
  slots.push_back(barrier.base);
  slots.push_back(*decoder.Read({.kind = Operand::Kind::kInteger, .bits = barrier.offset}, 8));
}

// The coordinates that an address has behind its map.
bool TakeCoordinates(FunctionDecoder& decoder,
                     const Operand& map,
                     int rank,
                     std::vector<Slot>& slots) {
  const std::span<const Operand> given =
      map.elements.size() == 1 && map.elements[0].kind == Operand::Kind::kVector
          ? std::span<const Operand>(map.elements[0].elements)
          : std::span<const Operand>(map.elements);
  if (given.size() != static_cast<size_t>(rank))
    return decoder.Fail(
        fmt::format("a {}-dimensional box needs one coordinate per dimension", rank));
  for (const Operand& coordinate : given) {
    const auto slot = decoder.Read(coordinate, 4);
    if (!slot.has_value()) return false;
    slots.push_back(*slot);
  }
  return true;
}

// The mask of blocks, if there is one.
void TakeBlocks(OperandReader& operands, const Instruction& from, Instr& to) {
  if (from.opcode.find(".multicast::cluster") == std::string_view::npos) return;
  to.c = operands.Read(2);
  to.flags |= kMulticast;
}

// How many operands hints at caches and other blocks are.
size_t HintsOf(std::string_view opcode) {
  return (opcode.find(".multicast::cluster") != std::string_view::npos ? 1u : 0u) +
         (opcode.find("cache_hint") != std::string_view::npos ? 1u : 0u);
}

// [to], [map, {coordinates}], [mbarrier]{, blocks}{, policy}
template <int rank>
bool DecodeLoadBox(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  const size_t count = 3 + HintsOf(from.opcode);
  OperandReader operands(decoder, from, count, count);
  if (!operands.ok()) return false;
  const FunctionDecoder::Address shared = operands.Address();
  const Operand& map = operands.next();
  const FunctionDecoder::Address global = operands.Address();
  std::vector<Slot> slots;
  if (!operands.ok() || !TakeCoordinates(decoder, map, rank, slots)) return false;
  TakeBarrier(decoder, operands, to, slots);
  TakeBlocks(operands, from, to);
  to.more = decoder.Append(slots);
  return operands.ok() && TakeAddresses(decoder, shared, global, to);
}

// [map, {coordinates}], [from]{, policy}
template <int rank>
bool DecodeStoreBox(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  const size_t count = 2 + HintsOf(from.opcode);
  OperandReader operands(decoder, from, count, count);
  if (!operands.ok()) return false;
  const Operand& map = operands.next();
  const FunctionDecoder::Address global = operands.Address();
  const FunctionDecoder::Address shared = operands.Address();
  std::vector<Slot> slots;
  if (!operands.ok() || !TakeCoordinates(decoder, map, rank, slots)) return false;
  to.more = decoder.Append(slots);
  return TakeAddresses(decoder, shared, global, to);
}

// [to], [from], bytes, [mbarrier]{, blocks}{, policy}
bool DecodeLoadRow(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  const size_t count = 4 + HintsOf(from.opcode);
  OperandReader operands(decoder, from, count, count);
  if (!operands.ok()) return false;
  const FunctionDecoder::Address shared = operands.Address();
  const FunctionDecoder::Address global = operands.Address();
  to.b = operands.Read(4);
  std::vector<Slot> slots;
  TakeBarrier(decoder, operands, to, slots);
  TakeBlocks(operands, from, to);
  to.more = decoder.Append(slots);
  return operands.ok() && TakeAddresses(decoder, shared, global, to);
}

// [to], [from], bytes{, policy}
bool DecodeStoreRow(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  const size_t count = 3 + HintsOf(from.opcode);
  OperandReader operands(decoder, from, count, count);
  if (!operands.ok()) return false;
  const FunctionDecoder::Address global = operands.Address();
  const FunctionDecoder::Address shared = operands.Address();
  to.b = operands.Read(4);
  return operands.ok() && TakeAddresses(decoder, shared, global, to);
}

Step CommitBulkGroup(Warp& warp, const Instr&) {
  warp.async().bulk.Commit(warp);
  return Step::kNext;
}

template <bool reads>
Step WaitBulkGroup(Warp& warp, const Instr& instr) {
  const auto pending = static_cast<uint32_t>(instr.immediate);
  return warp.async().bulk.Wait(warp, pending, reads) ? Step::kNext : Step::kStop;
}

// --- rows

template <int rank, int... reductions>
void AddBoxForms(FormTable& rows, std::integer_sequence<int, reductions...>) {
  const auto spelled = [](std::string_view before, std::string_view after) {
    return std::array{fmt::format("{}{}", before, after), fmt::format("{}.tile{}", before, after)};
  };
  for (const char* const cast : {"", ".multicast::cluster"}) {
    for (const std::string& name :
         spelled(fmt::format("cp.async.bulk.tensor.{}d.shared.global", rank),
                 fmt::format(".mbarrier::complete_tx::bytes{}", cast)))
      rows.Decoded(name, DecodeLoadBox<rank>, LoadBox<rank>);
  }
  const std::string from = fmt::format("async.bulk.tensor.{}d.global.shared", rank);
  for (const std::string& name : spelled("cp." + from, ".bulk_group"))
    rows.Decoded(name, DecodeStoreBox<rank>, StoreBox<rank, -1>);
  const auto add = [&](int reduction, Handler handler) {
    for (const std::string& name : spelled(
             fmt::format("cp.reduce.{}.{}", from, BulkReductions()[reduction].name), ".bulk_group"))
      rows.Decoded(name, DecodeStoreBox<rank>, handler);
  };
  (add(reductions, StoreBox<rank, reductions>), ...);
  for (const std::string& name :
       spelled(fmt::format("cp.async.bulk.prefetch.tensor.{}d.L2.global", rank), ""))
    rows.Decoded(name, DecodeAnything, RunNothing);
}

template <int reduction, TensorMap::Type type>
void AddReducedRow(FormTable& rows, const char* suffix) {
  rows.Decoded(fmt::format("cp.reduce.async.bulk.global.shared.bulk_group.{}.{}",
                           BulkReductions()[reduction].name, suffix),
               DecodeStoreRow, StoreRow<reduction, type>);
}

void AddRowForms(FormTable& rows) {
  using Type = TensorMap::Type;
  for (const char* const cast : {"", ".multicast::cluster"})
    rows.Decoded(fmt::format("cp.async.bulk.shared.global.mbarrier::complete_tx::bytes{}", cast),
                 DecodeLoadRow, LoadRow);
  rows.Decoded("cp.async.bulk.global.shared.bulk_group", DecodeStoreRow,
               StoreRow<-1, Type::kUint8>);
  rows.Decoded("cp.async.bulk.prefetch.L2.global", DecodeAnything, RunNothing);
  AddReducedRow<0, Type::kUint32>(rows, "u32");
  AddReducedRow<0, Type::kInt32>(rows, "s32");
  AddReducedRow<0, Type::kUint64>(rows, "u64");
  AddReducedRow<0, Type::kFloat32>(rows, "f32");
  AddReducedRow<0, Type::kFloat64>(rows, "f64");
  AddReducedRow<0, Type::kFloat16>(rows, "noftz.f16");
  AddReducedRow<0, Type::kBFloat16>(rows, "noftz.bf16");
  AddReducedRow<1, Type::kUint32>(rows, "u32");
  AddReducedRow<1, Type::kInt32>(rows, "s32");
  AddReducedRow<1, Type::kUint64>(rows, "u64");
  AddReducedRow<1, Type::kInt64>(rows, "s64");
  AddReducedRow<1, Type::kFloat16>(rows, "f16");
  AddReducedRow<1, Type::kBFloat16>(rows, "bf16");
  AddReducedRow<2, Type::kUint32>(rows, "u32");
  AddReducedRow<2, Type::kInt32>(rows, "s32");
  AddReducedRow<2, Type::kUint64>(rows, "u64");
  AddReducedRow<2, Type::kInt64>(rows, "s64");
  AddReducedRow<2, Type::kFloat16>(rows, "f16");
  AddReducedRow<2, Type::kBFloat16>(rows, "bf16");
  AddReducedRow<3, Type::kUint32>(rows, "u32");
  AddReducedRow<4, Type::kUint32>(rows, "u32");
  AddReducedRow<5, Type::kUint32>(rows, "b32");
  AddReducedRow<5, Type::kUint64>(rows, "b64");
  AddReducedRow<6, Type::kUint32>(rows, "b32");
  AddReducedRow<6, Type::kUint64>(rows, "b64");
  AddReducedRow<7, Type::kUint32>(rows, "b32");
  AddReducedRow<7, Type::kUint64>(rows, "b64");
}

}  // namespace

void AddBulkCopyForms(FormTable& rows) {
  constexpr std::make_integer_sequence<int, static_cast<int>(kBulkReductions)> kAll;
  AddBoxForms<1>(rows, kAll);
  AddBoxForms<2>(rows, kAll);
  AddBoxForms<3>(rows, kAll);
  AddBoxForms<4>(rows, kAll);
  AddBoxForms<5>(rows, kAll);
  AddRowForms(rows);
  rows.Decoded("cp.async.bulk.commit_group", DecodeNothing, CommitBulkGroup);
  rows.Add("cp.async.bulk.wait_group", "i", WaitBulkGroup<false>);
  rows.Add("cp.async.bulk.wait_group.read", "i", WaitBulkGroup<true>);
}

}  // namespace coppice::ptx
