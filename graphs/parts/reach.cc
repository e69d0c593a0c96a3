// Lanes, and what is idle of them.

#include "graphs/parts/reach.h"

#include <utility>

namespace coppice::internal {

Reach::Reach(const SessionParts& parts, Lane& lane)
    : evicts_(parts.options.memory.on_budget == OnLimit::kEvict), lanes_{&lane} {
  for (const std::unique_ptr<Lane>& other : parts.lanes) {
    if (other.get() == &lane) continue;
    std::unique_lock lock(other->mutex, std::try_to_lock);
    if (!lock.owns_lock()) continue;
    other->slots().Sweep();
    lanes_.push_back(other.get());
    locks_.push_back(std::move(lock));
  }
}

// The lane's own nodes are what a recording or a replay needs the room for.
bool Reach::TakesPlans(const Lane& lane, MemoryKind need) const {
  return &lane != lanes_.front() || (need != MemoryKind::kPlan && need != MemoryKind::kGraphs);
}

int64_t Reach::ReclaimableBytes(MemoryKind need) const {
  int64_t bytes = 0;
  for (Lane* lane : lanes_) {
    bytes += lane->IdleBytes(TakesPlans(*lane, need));
    if (evicts_) bytes += lane->nodes().CountDroppable(nullptr).bytes;
  }
  return bytes;
}

}  // namespace coppice::internal
