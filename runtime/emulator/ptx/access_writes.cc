// Writes of lanes, compared with what was accessed before.
//
// Lanes of one instruction may write one place: which of them wins is open, and that is all. So all
// of them are compared with what was before the instruction, and then all are kept.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/emulator/ptx/accesses.h"
#include "runtime/emulator/ptx/actor.h"

namespace coppice::ptx {
namespace {

// Calls `visit(granule, changes)` for the granules of an access, of 1 << shift bytes each.
template <typename Change, typename Visit>
void ForEachGranule(const Change& change, int shift, size_t first, const Visit& visit) {
  const size_t bytes = static_cast<size_t>(change.access.bytes);
  const size_t end = ((change.access.address + bytes - 1) >> shift) + 1;
  const size_t count = end - static_cast<size_t>(change.access.address >> shift);
  const size_t granule = std::min(size_t{1} << shift, bytes);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * granule;
    visit(first + i,
          change.before == nullptr ||
              !std::equal(change.before + at, change.before + at + granule, change.after + at));
  }
}

// Of two that write: whether the second, of a float, changes no more than the last bits.
template <typename Change>
Finding::Kind KindOf(const Change& change) {
  constexpr int32_t kLastBits = 1 << 10;  // Units in the last place: sums cancel.
  float before;
  float after;
  if (change.before == nullptr || change.access.bytes != sizeof(before))
    return Finding::Kind::kRace;
  std::memcpy(&before, change.before, sizeof(before));
  std::memcpy(&after, change.after, sizeof(after));
  if (!std::isnormal(before) || std::signbit(before) != std::signbit(after))
    return Finding::Kind::kRace;
  const int32_t apart = std::abs(std::bit_cast<int32_t>(before) - std::bit_cast<int32_t>(after));
  return apart <= kLastBits ? Finding::Kind::kReplicas : Finding::Kind::kRace;
}

}  // namespace

Accesses::Change Accesses::ChangeOf(const Actor& actor,
                                    const std::byte* host,
                                    uint64_t bytes,
                                    const std::byte* before,
                                    const std::byte* after) const {
  const auto [space, address] = LocationOf(actor, host);
  return {{space, address, bytes}, before, after};
}

void Accesses::CheckChange(Actor& actor, const Change& change) {
  if (!races_) return;
  if (change.access.space == Space::kShared) CheckSharedChange(actor, change);
  if (change.access.space == Space::kGlobal) CheckGlobalChange(actor, change);
}

void Accesses::KeepChange(Actor& actor, const Change& change) {
  if (change.access.space == Space::kShared) KeepSharedChange(actor, change);
  if (change.access.space == Space::kGlobal) KeepGlobalChange(actor, change);
}

void Accesses::BeginWrite(const Actor& actor, const std::byte* host, uint64_t bytes) {
  const auto [space, address] = LocationOf(actor, host);
  if (races_ && space == Space::kGlobal)
    GlobalShadow::BeginWrite(shadow_.PageOf(address), address, bytes);
}

void Accesses::CheckGlobalChange(Actor& actor, const Change& change) {
  GlobalShadow::Page& page = shadow_.PageOf(change.access.address);
  if (page.writers == nullptr && page.readers == nullptr) return;
  const size_t first = shadow_.GranuleOf(change.access.address);
  ForEachGranule(change, shift_, first, [&](size_t i, bool changes) {
    if (!changes) return;
    if (page.writers != nullptr && !IsBefore(actor, page.writers[i])) {
      ReportRace(actor, change.access, Clash::kWritesWritten, page.writers[i], KindOf(change));
    } else if (page.readers != nullptr && !IsBefore(actor, page.readers[i])) {
      ReportRace(actor, change.access, Clash::kWritesRead, page.readers[i]);
    }
  });
}

void Accesses::KeepGlobalChange(Actor& actor, const Change& change) {
  const Access& access = change.access;
  GlobalShadow::Page& page = shadow_.PageOf(access.address);
  GlobalShadow::Mark(page.written, access.address, access.bytes);
  if (!races_) return;
  Visitor* const writers = shadow_.Writers(page);
  const size_t first = shadow_.GranuleOf(access.address);
  ForEachGranule(change, shift_, first, [&](size_t i, bool changes) {
    if (!changes && !writers[i].is_nobody()) return;
    const bool wins = writers[i].is_nobody() || writers[i].block() != actor.block ||
                      IsBefore(actor, writers[i].stamp());
    writers[i] = wins ? actor.visitor() : InBlock(actor, SeveralOf(actor));
  });
}

void Accesses::CheckSharedChange(Actor& actor, const Change& change) {
  const BlockShadow& shadow = actor.shadow;
  const size_t first = static_cast<size_t>(change.access.address >> shift_);
  ForEachGranule(change, shift_, first, [&](size_t i, bool changes) {
    if (!changes) return;
    const Stamp writer = shadow.writers[i];
    const Stamp reader = shadow.readers[i];
    if (!IsBefore(actor, writer)) {
      ReportRace(actor, change.access, Clash::kWritesWritten, InBlock(actor, writer),
                 KindOf(change));
    } else if (!IsBefore(actor, reader)) {
      ReportRace(actor, change.access, Clash::kWritesRead, InBlock(actor, reader));
    }
  });
}

void Accesses::KeepSharedChange(Actor& actor, const Change& change) {
  const Access& access = change.access;
  BlockShadow& shadow = actor.shadow;
  if (uninitialized_) std::memset(shadow.written.data() + access.address, 1, access.bytes);
  if (!races_) return;
  const size_t first = static_cast<size_t>(access.address >> shift_);
  ForEachGranule(change, shift_, first, [&](size_t i, bool changes) {
    Stamp& writer = shadow.writers[i];
    if (!changes && writer.bits() != 0) return;
    writer = IsBefore(actor, writer) ? actor.stamp() : SeveralOf(actor);
  });
}

void Accesses::Write(
    ResidentWarp& warp, const Reach& reach, int64_t bytes, const std::byte* values, bool strong) {
  const size_t size = static_cast<size_t>(bytes);
  if (!IsChecked(reach.space)) {
    for (uint32_t left = warp.mask(); left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      std::memcpy(reach.at(lane), values + static_cast<size_t>(lane) * size, size);
    }
    return;
  }
  Settle();
  Actor actor = ActorOf(warp);
  if (strong) Acquire(actor, reach.space);
  if (reach.contiguous && WriteRow(actor, reach, size, values)) {
    std::memcpy(reach.at(0), values, size * kLanes);
  } else {
    WriteLanes(actor, reach, size, values);
  }
  if (strong) Release(actor, reach.space);
}

void Accesses::WriteLanes(Actor& actor,
                          const Reach& reach,
                          uint64_t bytes,
                          const std::byte* values) {
  std::array<Change, kLanes> changes;
  const uint32_t lanes = actor.warp.mask();
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    actor.lane = std::countr_zero(left);
    const size_t lane = static_cast<size_t>(actor.lane);
    std::byte* const host = reach.at(actor.lane);
    changes[lane] = ChangeOf(actor, host, bytes, host, values + lane * bytes);
    BeginWrite(actor, host, bytes);
    CheckChange(actor, changes[lane]);
  }
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    actor.lane = std::countr_zero(left);
    const Change& change = changes[static_cast<size_t>(actor.lane)];
    KeepChange(actor, change);
    std::memcpy(reach.at(actor.lane), change.after, bytes);
  }
}

// What handlers have written by now. Where lanes have written one place it is not known which of
// them wrote what.
void Accesses::Settle() {
  atomic_ = {};
  if (pending_.empty()) return;
  BlockShadow& shadow = pending_warp_->block().shadow;
  Actor actor = {.warp = *pending_warp_,
                 .shadow = shadow,
                 .block = pending_warp_->block().index,
                 .index = static_cast<uint32_t>(pending_warp_->index()),
                 .now = shadow.order.Now(),
                 .code = *pending_code_,
                 .instr = *pending_instr_,
                 .together = pending_together_};
  const auto change_of = [&](const Pending& pending) {
    actor.lane = pending.lane;
    const bool whole = pending.bytes <= pending.before.size();
    return ChangeOf(actor, pending.host, pending.bytes, whole ? pending.before.data() : nullptr,
                    pending.host);
  };
  for (const Pending& pending : pending_)
    CheckChange(actor, change_of(pending));
  for (const Pending& pending : pending_)
    KeepChange(actor, change_of(pending));
  pending_.clear();
  pending_warp_ = nullptr;
}

}  // namespace coppice::ptx
