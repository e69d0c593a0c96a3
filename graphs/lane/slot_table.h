// The slots of a lane: whose outputs somebody may read, and where they lie. Private to graphs/.
//
// Slots of outputs in the plan window that nobody wrote over are in the *window* list, in order of
// calls; those of a path are what a child is planned around. Outputs that were copied out lie in a
// *ring*, in order of allocation. All others are *parked*: leased elsewhere, or expired.
//
// Threads: under the lane's lock.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coppice/graphs/memory_usage.h"

#include "graphs/lane/lane_memory.h"
#include "graphs/lane/slot.h"
#include "graphs/node/node.h"
#include "graphs/trace/tracer.h"

namespace coppice::internal {

// The bytes of the window that the slot's lease keeps. Requires: kWindow, not expired.
inline const std::vector<Region>& RegionsOf(const Slot& slot) {
  return slot.parts == nullptr ? slot.node->output_regions() : slot.parts->regions;
}

class SlotTable {
 public:
  using Owner = Slot::Owner;

  // All outlive the table; `tracer` may be null. Copied-out outputs have `ring_bytes`.
  SlotTable(Lane& lane, int index, LaneMemory& memory, Tracer* tracer, int64_t ring_bytes)
      : lane_(lane),
        index_(index),
        memory_(memory),
        tracer_(tracer),
        ring_bytes_(ring_bytes / kBufferAlignment * kBufferAlignment) {}
  // Lets go of every slot. Leases that are left become empty.
  ~SlotTable();
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // Makes sure that a Take has one to give, from the ones that were dropped if possible.
  void Reserve() {
    if (free_.empty()) [[unlikely]]
      FindFree();
  }
  // Each takes a slot, which a lease holds too, for outputs that lie in the plan window; for copies
  // to come, in these bytes of the ring, or elsewhere if that is empty; or elsewhere, `allocations`
  // in the eager window. Requires: Reserve. The first two allocate nothing.
  Slot& TakeWindow(const Owner& owner, Node& node);
  Slot& TakeCopies(const Owner& owner, Region ring);
  Slot& TakeParked(const Owner& owner,
                   Slot::Kind kind,
                   OutputTable outputs,
                   std::vector<DeviceAddress> allocations);

  // The only slot of the window, if it shows this node's outputs and was dropped, whole; null else.
  Slot* FindDropped(const Node& node) const {
    if (window_.size() != 1) return nullptr;
    Slot* slot = window_.front();
    return slot->node == &node && !slot->leased() && slot->parts == nullptr &&
                   slot->open_scopes() == 0
               ? slot
               : nullptr;
  }
  // Gives that slot to another call of its node.
  void Reuse(Slot& slot, const Owner& owner) const {
    slot.SetOwner(owner);
    slot.in_path = true;
    slot.holders.store(Slot::kLaneHolds | Slot::kLeaseHolds, std::memory_order_relaxed);
  }

  // Takes back the slots whose lease was dropped: of the window; of all but the ring, which
  // AllocateRing takes back in order. Of one that was split, what its dropped parts kept.
  void SweepWindow();
  void Sweep();
  // The call under way reads outputs of this slot: until EndReads, whoever drops its lease
  // meanwhile, Sweep, Reserve and the ring leave it and its bytes alone. SweepWindow does not, as a
  // graph is planned around what it reads in the window, and what is given to it has to go first.
  void NoteRead(const Slot& slot) { read_.push_back(&slot); }
  void EndReads() {
    read_.clear();
    uses_.clear();
  }
  // What a trace is to say of such a read once the call has begun, which fills in its number.
  void NoteUse(const UseEvent& use) { uses_.push_back(use); }
  void TraceUses(uint64_t call);
  // Makes parts of a slot's lease, one per output. Allocates.
  void Split(Slot& slot) const;

  // The first slot that a graph with this footprint would write over, among those that a scope is
  // open on; null if none.
  const Slot* FindHeld(const std::vector<Region>& footprint) const;
  // Marks the slots that call `number` of `program` wrote over. Throws nothing behind a
  // ReserveExpire of that footprint, which the call does before it writes.
  void ReserveExpire(const std::vector<Region>& footprint);
  void Expire(const std::vector<Region>& footprint, uint64_t number, const Program& program);
  // Ends the path: the slots of the window are nobody's parents any more.
  void EndPath();

  // Bytes of the ring, or nothing if that many are not free in a row; the same, without taking
  // them.
  std::optional<Region> AllocateRing(int64_t bytes);
  std::optional<Region> FindRing(int64_t bytes);
  int64_t ring_bytes() const { return ring_bytes_; }

  // Where outputs in this window of the lane have their slots; for kPlan, those of the window list.
  const std::vector<Slot*>& ListOf(MemoryKind window) const;
  // Calls `visit` with every slot but the free, until it returns an error.
  template <typename Visit>
  absl::Status ForEach(const Visit& visit) const;

  // Tells the trace, if there is one, of what the session's end lets go.
  void TraceEnd();
  // Tells the trace, if it knows of the slot's lease, that there is none any longer.
  void TraceRelease(Slot& slot) const;

 private:
  // Whether nobody needs the slot any longer, also if its lease was dropped just now.
  bool IsIdle(const Slot& slot) const { return !slot.leased() && !IsRead(slot); }
  bool IsRead(const Slot& slot) const {
    return std::find(read_.begin(), read_.end(), &slot) != read_.end();
  }
  void FindFree();
  Slot& Take(const Owner& owner, Slot::Kind kind);
  void Recycle(Slot* slot);
  void SweepWindow(bool spares_read);
  void SweepParts(Slot& slot) const;
  void SetRegions(Slot& slot) const;
  // Tells the trace, which there is, that a slot is leased.
  void TraceOutputs(Slot& slot) const;

  Lane& lane_;
  const int index_;
  LaneMemory& memory_;
  Tracer* const tracer_;
  std::vector<Slot*> window_;
  std::vector<Slot*> parked_;
  std::vector<Slot*> ring_;
  std::vector<Slot*> free_;
  std::vector<const Slot*> read_;  // By the call under way; of any list, some twice.
  std::vector<UseEvent> uses_;
  size_t slot_count_ = 0;
  size_t swept_ = 0;  // Where the next look at the parked begins.
  const int64_t ring_bytes_;
  int64_t ring_head_ = 0;
};

template <typename Visit>
absl::Status SlotTable::ForEach(const Visit& visit) const {
  for (const auto* slots : {&window_, &parked_, &ring_}) {
    for (const Slot* slot : *slots) {
      absl::Status status = visit(*slot);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace coppice::internal
