// Whose memory may go for a lane that the budget leaves without room, and how much of it. Private
// to graphs/.
//
// Threads: under the lane's lock, which whoever makes this holds. Other lanes are in reach if
// nobody has their locks, which this takes.

#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "coppice/graphs/memory_usage.h"

#include "graphs/parts/session_parts.h"

namespace coppice::internal {

class Reach {
 public:
  // Takes back what leases on the other lanes gave up.
  Reach(const SessionParts& parts, Lane& lane);

  const std::vector<Lane*>& lanes() const { return lanes_; }  // The lane itself first.
  // Whether idle plan windows of `lane` may go for a need of this kind.
  bool TakesPlans(const Lane& lane, MemoryKind need) const;
  // The most bytes that can be freed for it: all of them, if nothing is in flight.
  int64_t ReclaimableBytes(MemoryKind need) const;

 private:
  const bool evicts_;  // Graphs may go as well.
  std::vector<Lane*> lanes_;
  std::vector<std::unique_lock<LaneMutex>> locks_;
};

}  // namespace coppice::internal
