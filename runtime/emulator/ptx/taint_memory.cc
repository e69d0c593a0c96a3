// What loads, stores and copies do with taint.

#include <algorithm>
#include <bit>
#include <span>

#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/forms/async_tables.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/taint_tracker.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

constexpr TaintOperand k64Bits{.written = false, .bytes = 8};
constexpr TaintOperand k32Bits{.written = false, .bytes = 4};

bool HasFlag(const Instr& instr, uint8_t flag) {
  return (instr.flags & flag) != 0;
}

Space AccessSpaceOf(const Instr& instr) {
  return static_cast<Space>((instr.flags & AccessFlags::kSpace) >> AccessFlags::kSpaceShift);
}

TaintOperand AddressOperand(bool narrow) {
  return narrow ? k32Bits : k64Bits;
}

}  // namespace

int TaintTracker::ElementsOf() const {
  return 1 << (instr_->flags & AccessFlags::kElements);
}

Slot TaintTracker::ElementSlot(int element) const {
  return ElementsOf() == 1 ? instr_->d : warp_->More(*instr_, static_cast<uint32_t>(element));
}

TaintOperand TaintTracker::ElementRegister(bool written) const {
  return {.written = written, .bytes = static_cast<int>(instr_->target)};
}

bool TaintTracker::FindAccess(int64_t bytes, AccessKind kind, LaneWords& hosts) const {
  const bool narrow = HasFlag(*instr_, AccessFlags::kNarrow);
  for (size_t i = 0; i < kLanes; ++i)
    hosts[i] = instr_->immediate +
               (narrow ? warp_->From<uint32_t>(instr_->a)[i] : warp_->From<uint64_t>(instr_->a)[i]);
  return warp_->FindLanes(AccessSpaceOf(*instr_), warp_->mask(), bytes, kind, hosts);
}

bool TaintTracker::FollowLoad(const TaintRule& rule) {
  const int elements = ElementsOf();
  const TaintOperand to = ElementRegister(/*written=*/true);
  const TaintOperand base = AddressOperand(HasFlag(*instr_, AccessFlags::kNarrow));
  const size_t first = write_count_;
  for (int element = 0; element < elements; ++element)
    Writes(ElementSlot(element), to);
  LaneWords hosts;
  if (!FindAccess(int64_t{elements} * rule.element_bytes, AccessKind::kRead, hosts)) return false;
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<size_t>(lane);
    const JoinedTaint address = PlaceOf(base, lane);
    for (int element = 0; element < elements; ++element) {
      for (int part = 0; part < to.parts(); ++part) {
        // What extends a value has the sign of its last part.
        const int begin = std::min(2 * part, std::max(rule.element_bytes - 2, 0));
        const int end = std::min(begin + 2, rule.element_bytes);
        JoinedTaint joined = address;
        for (int byte = begin; byte < end; ++byte)
          joined.Add(taint_.plane.At(hosts[i] +
                                     static_cast<uint64_t>(element * rule.element_bytes + byte)));
        writes_[first + static_cast<size_t>(element)].parts[static_cast<size_t>(part)][i] =
            Finish(joined, lane);
      }
    }
  }
  return true;
}

JoinedTaint TaintTracker::PlaceOf(const TaintOperand& base, int lane) const {
  JoinedTaint place;
  Guard(lane, place);
  ReadAll(base, instr_->a, lane, place);
  return place;
}

bool TaintTracker::CheckPlace(const TaintOperand& base, Slot slot, int lane) {
  JoinedTaint address;
  ReadAll(base, slot, lane, address);
  if (!IsPadding(address.word)) return false;
  taint_.AddGap("stores at addresses that depend on padding");
  return true;
}

void TaintTracker::AddMemory(uint64_t host, int bytes, JoinedTaint& joined) const {
  for (int byte = 0; byte < bytes; ++byte)
    joined.Add(taint_.plane.At(host + static_cast<uint64_t>(byte)));
}

void TaintTracker::StoreKeptOut(const TaintRule& rule, uint32_t lanes) {
  if (!rule.stores || std::ranges::none_of(guard_, IsPadding)) return;
  const bool stores = rule.kind == TaintRule::Kind::kStore;
  const Space space = stores ? AccessSpaceOf(*instr_) : SpaceOf(*instr_);
  const bool is_narrow = HasFlag(*instr_, stores ? AccessFlags::kNarrow : kNarrowAddress);
  const std::span<std::byte> shared = warp_->block().shared;
  const auto bytes = static_cast<uint64_t>((stores ? ElementsOf() : 1) * rule.element_bytes);
  const LaneAddresses addresses(*warp_, instr_->a, is_narrow, instr_->immediate);
  for (int lane = 0; lane < kLanes; ++lane) {
    const TaintWord guard = guard_[static_cast<size_t>(lane)];
    if ((lanes >> lane & 1) == 0 || !IsPadding(guard)) continue;
    if (CheckPlace(AddressOperand(is_narrow), instr_->a, lane)) continue;
    uint64_t host = addresses[lane];
    const uint64_t window = space == Space::kShared ? kSharedWindow : host & kWindowMask;
    const uint64_t offset = host & ~kWindowMask;
    const bool is_global = space != Space::kShared && window == 0;
    if (rule.kind == TaintRule::Kind::kStoreMatrices || rule.kind == TaintRule::Kind::kCopyAsync ||
        space == Space::kLocal || space == Space::kParam ||
        (!is_global && window != kSharedWindow) || (!is_global && offset >> kRankShift != 0)) {
      taint_.AddGap("stores kept out by a guard that depends on padding");
      return;
    }
    if (!is_global && offset + bytes > shared.size()) continue;  // No address, as it is not used.
    if (!is_global) host = reinterpret_cast<uint64_t>(shared.data() + offset);
    for (uint64_t byte = 0; byte < bytes; ++byte)
      taint_.plane.Fill(host + byte, 1,
                        Stored(JoinTaint(taint_.plane.At(host + byte), guard), lane));
  }
}

bool TaintTracker::FollowStore(const TaintRule& rule) {
  if (is_guarded_) StoreKeptOut(rule, warp_->active() & ~warp_->mask());
  const int elements = ElementsOf();
  const TaintOperand from = ElementRegister(/*written=*/false);
  const TaintOperand base = AddressOperand(HasFlag(*instr_, AccessFlags::kNarrow));
  LaneWords hosts;
  if (!FindAccess(int64_t{elements} * rule.element_bytes, AccessKind::kWrite, hosts)) return false;
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<size_t>(lane);
    const JoinedTaint address = PlaceOf(base, lane);
    CheckPlace(base, instr_->a, lane);
    for (int byte = 0; byte < elements * rule.element_bytes; ++byte) {
      JoinedTaint joined = address;
      joined.Add(
          Read(from, ElementSlot(byte / rule.element_bytes), byte % rule.element_bytes / 2, lane));
      taint_.plane.Fill(hosts[i] + static_cast<uint64_t>(byte), 1,
                        Stored(Finish(joined, lane), lane));
    }
  }
  return true;
}

bool TaintTracker::FollowAtomic(const TaintRule& rule) {
  if (is_guarded_) StoreKeptOut(rule, warp_->active() & ~warp_->mask());
  const TaintOperand value{.written = false, .bytes = rule.element_bytes};
  const bool reduces = (instr_->flags & kFormFlag) != 0;
  const LaneAddresses addresses(*warp_, *instr_);
  LaneWords hosts;
  for (int lane = 0; lane < kLanes; ++lane)
    hosts[static_cast<size_t>(lane)] = addresses[lane];
  if (!warp_->FindLanes(SpaceOf(*instr_), warp_->mask(), rule.element_bytes, AccessKind::kAtomic,
                        hosts))
    return false;
  Write* const write =
      reduces ? nullptr : &Writes(instr_->d, {.written = true, .bytes = rule.element_bytes});
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<size_t>(lane);
    const TaintOperand base = AddressOperand(HasFlag(*instr_, kNarrowAddress));
    JoinedTaint joined = PlaceOf(base, lane);
    CheckPlace(base, instr_->a, lane);
    AddMemory(hosts[i], rule.element_bytes, joined);
    if (write != nullptr)
      for (int part = 0; part < write->to.parts(); ++part)
        write->parts[static_cast<size_t>(part)][i] = Finish(joined, lane);
    ReadAll(value, instr_->b, lane, joined);
    if (rule.compares) ReadAll(value, instr_->c, lane, joined);
    taint_.plane.Fill(hosts[i], static_cast<uint64_t>(rule.element_bytes),
                      Stored(Finish(joined, lane), lane));
  }
  return true;
}

// Lane 8 m + r has the address of row r of matrix m, of 16 bytes.
bool TaintTracker::FollowMatrices(const TaintRule& rule) {
  const TaintOperand base = AddressOperand(HasFlag(*instr_, kNarrowAddress));
  const bool loads = rule.kind == TaintRule::Kind::kLoadMatrices;
  const LaneAddresses addresses(*warp_, *instr_);
  LaneWords rows;
  for (int lane = 0; lane < kLanes; ++lane)
    rows[static_cast<size_t>(lane)] = addresses[lane];
  const uint32_t row_lanes = kAllLanes >> (kLanes - 8 * rule.matrices);
  if (!warp_->FindLanes(SpaceOf(*instr_), row_lanes, 16,
                        loads ? AccessKind::kRead : AccessKind::kWrite, rows))
    return false;
  for (int matrix = 0; matrix < rule.matrices; ++matrix) {
    const Slot slot = warp_->More(*instr_, static_cast<uint32_t>(matrix));
    Write* const write = loads ? &Writes(slot, {.written = true, .bytes = 4}) : nullptr;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (const int part : {0, 1}) {
        const int row = rule.transposed ? 2 * (lane % 4) + part : lane / 4;
        const int column = rule.transposed ? lane / 4 : 2 * (lane % 4) + part;
        const uint64_t host =
            rows[static_cast<size_t>(8 * matrix + row)] + static_cast<uint64_t>(2 * column);
        JoinedTaint joined;
        Guard(lane, joined);
        ReadAll(base, instr_->a, 8 * matrix + row, joined);
        if (!loads) CheckPlace(base, instr_->a, 8 * matrix + row);
        if (loads)
          AddMemory(host, 2, joined);
        else
          joined.Add(Read(k32Bits, slot, part, lane));
        const TaintWord word = Finish(joined, lane);
        if (loads)
          write->parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = word;
        else
          taint_.plane.Fill(host, 2, Stored(word, lane));
      }
    }
  }
  return true;
}

// As if it landed at once: nobody may look before it does.
bool TaintTracker::FollowCopy() {
  const AsyncCopies::Copy copy = AsyncCopyOf(*warp_, *instr_);
  LaneWords to = copy.to;
  if (!warp_->FindLanes(Space::kShared, warp_->mask(), copy.bytes, AccessKind::kWrite, to))
    return false;
  StoreKeptOut(TaintRuleOf(instr_->form), warp_->active() & ~warp_->mask());
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<size_t>(lane);
    CheckPlace(AddressOperand(HasFlag(*instr_, AsyncCopyFlags::kNarrowTarget)), instr_->d, lane);
    JoinedTaint chosen;
    Guard(lane, chosen);
    ReadAll(AddressOperand(HasFlag(*instr_, AsyncCopyFlags::kNarrowSource)), instr_->a, lane,
            chosen);
    if (HasFlag(*instr_, AsyncCopyFlags::kSourceBytes)) ReadAll(k32Bits, instr_->c, lane, chosen);
    if (HasFlag(*instr_, AsyncCopyFlags::kIgnoreSource))
      ReadAll({.written = false, .bytes = 0}, instr_->c, lane, chosen);
    for (uint64_t byte = 0; byte < static_cast<uint64_t>(copy.bytes); ++byte) {
      JoinedTaint joined = chosen;
      if (byte < copy.read[i]) joined.Add(taint_.plane.At(copy.from[i] + byte));
      taint_.plane.Fill(to[i] + byte, 1, Stored(Finish(joined, lane), lane));
    }
  }
  return true;
}

}  // namespace coppice::ptx
