// Taking, sweeping and expiring slots, and the ring of outputs that were copied out.

#include "graphs/lane/slot_table.h"

#include <limits>
#include <memory>

#include "coppice/base/check.h"

namespace coppice::internal {
namespace {

// Parked slots that one search for a free one looks at, so that a call's cost does not grow with
// the leases that are held.
constexpr size_t kSweepMax = 8;

// The lane's hold ends. Cost: deletes the slot if its lease is gone.
void Abandon(Slot* slot) {
  const int before = slot->holders.fetch_and(~Slot::kLaneHolds, std::memory_order_acq_rel);
  if ((before & Slot::kLeaseHolds) == 0) delete slot;
}

// As traces have it.
int64_t NumberOf(const Slot& slot) {
  return static_cast<int64_t>(slot.call);
}

}  // namespace

SlotTable::~SlotTable() {
  for (const std::vector<Slot*>* slots : {&window_, &parked_, &ring_, &free_}) {
    for (Slot* slot : *slots)
      Abandon(slot);
  }
}

void SlotTable::FindFree() {
  for (size_t looked = 0; looked < std::min(kSweepMax, parked_.size()); ++looked) {
    if (swept_ >= parked_.size()) swept_ = 0;
    Slot* slot = parked_[swept_];
    if (!IsIdle(*slot)) {
      ++swept_;
      continue;
    }
    parked_[swept_] = parked_.back();
    parked_.pop_back();
    Recycle(slot);
    return;
  }
  // One more slot than ever; room for it in every list, so that moving it never allocates.
  for (std::vector<Slot*>* slots : {&window_, &parked_, &ring_, &free_}) {
    if (slots->capacity() <= slot_count_) slots->reserve(2 * slot_count_ + 8);
  }
  auto slot = std::make_unique<Slot>();
  slot->lane = &lane_;
  free_.push_back(slot.release());
  ++slot_count_;
}

Slot& SlotTable::Take(const Owner& owner, Slot::Kind kind) {
  Slot* slot = free_.back();
  free_.pop_back();
  slot->kind = kind;
  slot->in_path = kind == Slot::Kind::kWindow;
  slot->overwritten_by = 0;
  slot->traced = false;
  slot->holders.store(Slot::kLaneHolds | Slot::kLeaseHolds, std::memory_order_relaxed);
  slot->SetOwner(owner);
  if (tracer_ != nullptr && kind != Slot::Kind::kWindow) TraceOutputs(*slot);
  return *slot;
}

Slot& SlotTable::TakeWindow(const Owner& owner, Node& node) {
  Slot& slot = Take(owner, Slot::Kind::kWindow);
  window_.push_back(&slot);
  slot.outputs = &node.outputs();
  slot.node = &node;
  node.AddLease();
  return slot;
}

Slot& SlotTable::TakeCopies(const Owner& owner, Region ring) {
  // Only what has bytes in the ring may hold its place there.
  const bool in_ring = ring.bytes > 0;
  Slot& slot = Take(owner, in_ring ? Slot::Kind::kCopyOut : Slot::Kind::kForeign);
  (in_ring ? ring_ : parked_).push_back(&slot);
  slot.ring = ring;
  slot.owned.spec = &owner.program->spec;
  slot.owned.tensors.clear();
  slot.outputs = &slot.owned;
  return slot;
}

Slot& SlotTable::TakeParked(const Owner& owner,
                            Slot::Kind kind,
                            OutputTable outputs,
                            std::vector<DeviceAddress> allocations) {
  Slot& slot = Take(owner, kind);
  parked_.push_back(&slot);
  slot.owned = std::move(outputs);
  slot.outputs = &slot.owned;
  slot.allocations = std::move(allocations);
  return slot;
}

void SlotTable::Recycle(Slot* slot) {
  COPPICE_CHECK(slot->open_scopes() == 0, "a lease was dropped while its read scope was open");
  TraceRelease(*slot);
  if (slot->node != nullptr) slot->node->DropLease();
  slot->node = nullptr;
  slot->outputs = nullptr;
  slot->parts.reset();
  for (const DeviceAddress address : slot->allocations)
    memory_.FreeEager(address);
  slot->allocations.clear();
  free_.push_back(slot);
}

void SlotTable::Split(Slot& slot) const {
  slot.parts = std::make_unique<Slot::Parts>(slot.program->spec.outputs.size());
  if (slot.kind == Slot::Kind::kWindow && !slot.expired()) SetRegions(slot);
}

void SlotTable::SetRegions(Slot& slot) const {
  std::vector<Region>& regions = slot.parts->regions;
  regions.clear();
  for (size_t i = 0; i < slot.outputs->tensors.size(); ++i) {
    const std::optional<Region> region = memory_.RegionOf(*slot.outputs, i);
    if (region && slot.keeps(i)) regions.push_back(*region);
  }
  Normalize(regions);
}

void SlotTable::SweepParts(Slot& slot) const {
  Slot::Parts& parts = *slot.parts;
  bool changed = false;
  for (size_t i = 0; i < parts.kept.size(); ++i) {
    if (!parts.kept[i] || !slot.IsDropped(i)) continue;
    parts.kept[i] = false;
    changed = true;
    if (slot.traced && tracer_ != nullptr)
      tracer_->Put(index_, PartEvent{.call = NumberOf(slot), .output = static_cast<int64_t>(i)});
  }
  if (!changed || slot.outputs == nullptr) return;
  if (slot.kind == Slot::Kind::kWindow) return SetRegions(slot);
  // An allocation goes when no kept output lies in it: none begins between it and the next one, and
  // an output that is bound or an alias may lie anywhere. Allocates nothing, which might fail.
  std::sort(slot.allocations.begin(), slot.allocations.end());
  const auto lies_in = [&](DeviceAddress begin, DeviceAddress end) {
    for (size_t i = 0; i < slot.outputs->tensors.size(); ++i) {
      const DeviceAddress address = slot.outputs->tensors[i].data;
      if (slot.keeps(i) && address >= begin && address < end && memory_.windows().Contains(address))
        return true;
    }
    return false;
  };
  size_t kept = 0;
  for (size_t k = 0; k < slot.allocations.size(); ++k) {
    const bool last = k + 1 == slot.allocations.size();
    const DeviceAddress begin = slot.allocations[k];
    if (lies_in(begin, last ? std::numeric_limits<DeviceAddress>::max() : slot.allocations[k + 1]))
      slot.allocations[kept++] = begin;
    else
      memory_.FreeEager(begin);
  }
  slot.allocations.resize(kept);
}

void SlotTable::SweepWindow() {
  SweepWindow(/*spares_read=*/false);
}

void SlotTable::SweepWindow(bool spares_read) {
  size_t kept = 0;
  for (Slot* slot : window_) {
    const bool spared = spares_read && IsRead(*slot);
    if (spared || slot->leased()) {
      window_[kept++] = slot;
      if (slot->parts != nullptr && !spared) SweepParts(*slot);
      if (tracer_ != nullptr && !slot->traced) TraceOutputs(*slot);
    } else {
      Recycle(slot);
    }
  }
  window_.resize(kept);
}

void SlotTable::Sweep() {
  SweepWindow(/*spares_read=*/true);
  const auto dropped = [this](Slot* slot) {
    if (!IsIdle(*slot)) {
      if (slot->parts != nullptr && !IsRead(*slot)) SweepParts(*slot);
      return false;
    }
    Recycle(slot);
    return true;
  };
  parked_.erase(std::remove_if(parked_.begin(), parked_.end(), dropped), parked_.end());
}

const Slot* SlotTable::FindHeld(const std::vector<Region>& footprint) const {
  for (const Slot* slot : window_) {
    if (slot->open_scopes() > 0 && Overlap(RegionsOf(*slot), footprint)) return slot;
  }
  return nullptr;
}

void SlotTable::ReserveExpire(const std::vector<Region>& footprint) {
  for (Slot* slot : window_) {
    const std::vector<Region>& regions = RegionsOf(*slot);
    if (Overlap(regions, footprint)) slot->overwritten_regions.reserve(regions.size());
  }
}

void SlotTable::Expire(const std::vector<Region>& footprint,
                       uint64_t number,
                       const Program& program) {
  size_t kept = 0;
  for (Slot* slot : window_) {
    if (!Overlap(RegionsOf(*slot), footprint)) {
      window_[kept++] = slot;
      continue;
    }
    if (tracer_ != nullptr)
      tracer_->Put(
          index_, ExpireEvent{.call = NumberOf(*slot), .other_call = static_cast<int64_t>(number)});
    slot->overwritten_by = number;
    slot->overwriter = &program;
    slot->in_path = false;
    for (size_t i = 0; i < slot->outputs->tensors.size(); ++i) {
      const std::optional<Region> region = memory_.RegionOf(*slot->outputs, i);
      if (!region || !slot->keeps(i) || !Meets(*region, footprint)) continue;
      slot->overwritten_output = static_cast<int>(i);
      break;
    }
    const std::vector<Region>& regions = RegionsOf(*slot);
    slot->overwritten_regions.assign(regions.begin(), regions.end());
    slot->node->DropLease();
    slot->node = nullptr;
    slot->outputs = nullptr;
    parked_.push_back(slot);
  }
  window_.resize(kept);
}

void SlotTable::EndPath() {
  for (Slot* slot : window_)
    slot->in_path = false;
}

std::optional<Region> SlotTable::AllocateRing(int64_t bytes) {
  const std::optional<Region> region = FindRing(bytes);
  if (region) ring_head_ = region->end();
  return region;
}

std::optional<Region> SlotTable::FindRing(int64_t bytes) {
  while (!ring_.empty() && IsIdle(*ring_.front())) {
    Recycle(ring_.front());
    ring_.erase(ring_.begin());
  }
  if (ring_.empty()) ring_head_ = 0;
  const int64_t tail = ring_.empty() ? ring_bytes_ : ring_.front()->ring.offset;
  const bool wrapped = !ring_.empty() && ring_head_ <= tail;
  int64_t offset = ring_head_;
  if (!wrapped && offset + bytes > ring_bytes_) {
    if (ring_.empty() || bytes > tail) return std::nullopt;
    offset = 0;
  } else if (wrapped && offset + bytes > tail) {
    return std::nullopt;
  }
  return Region{.offset = offset, .bytes = bytes};
}

const std::vector<Slot*>& SlotTable::ListOf(MemoryKind window) const {
  if (window == MemoryKind::kPlan) return window_;
  return window == MemoryKind::kCopyOut ? ring_ : parked_;
}

void SlotTable::TraceOutputs(Slot& slot) const {
  tracer_->Put(index_, OutputsEvent{.call = NumberOf(slot),
                                    .node = slot.node == nullptr ? -1 : slot.node->trace_number()});
  slot.traced = true;
}

void SlotTable::TraceUses(uint64_t call) {
  for (UseEvent& use : uses_) {
    use.call = static_cast<int64_t>(call);
    tracer_->Put(index_, use);
  }
  uses_.clear();
}

void SlotTable::TraceEnd() {
  if (tracer_ == nullptr) return;
  Sweep();
  for (const Slot* slot : ring_) {
    if (slot->traced && !slot->leased())
      tracer_->Put(index_, ReleaseEvent{.call = NumberOf(*slot)});
  }
}

void SlotTable::TraceRelease(Slot& slot) const {
  if (!slot.traced) return;
  tracer_->Put(index_, ReleaseEvent{.call = NumberOf(slot)});
  slot.traced = false;
}

}  // namespace coppice::internal
