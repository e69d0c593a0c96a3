// What concerns two parts of a lane.

#include "graphs/lane/lane.h"

#include <algorithm>
#include <unordered_set>

#include "coppice/base/status.h"

namespace coppice::internal {

SessionStats Lane::stats() const {
  SessionStats stats = books_.stats();
  stats.stream_switches = order_.switches();
  stats.evictions = nodes_.evictions();
  stats.exact_replays = nodes_.exact_replays();
  return stats;
}

absl::StatusOr<bool> Lane::EvictOne(const Program* program) {
  COPPICE_ASSIGN_OR_RETURN(const uint64_t completed, order_.FindCompletedCall());
  return nodes_.EvictOne(program, completed, order_.calls());
}

const Surroundings* Lane::InternSurroundings(const Surroundings& surroundings) {
  // A recording in the background has a node's key that is no node's yet.
  if (surroundings_.crowded() && !recording()) {
    std::unordered_set<const Surroundings*> used;
    nodes_.ForEachNode([&used](const Node& node) { used.insert(node.key().surroundings); });
    surroundings_.Forget([&used](const Surroundings* each) { return used.contains(each); });
  }
  return surroundings_.Intern(surroundings);
}

int64_t Lane::ShownTop() const {
  int64_t top = 0;
  for (const Slot* slot : slots_.ListOf(MemoryKind::kPlan)) {
    const std::vector<Region>& regions = RegionsOf(*slot);
    if (!regions.empty()) top = std::max(top, regions.back().end());
  }
  return top;
}

int64_t Lane::IdleBytes(bool plans) const {
  if (memory_.absence() != LaneMemory::Absence::kNone) return 0;
  const int64_t eager = memory_.IdleBytes(MemoryKind::kEager, memory_.eager().top());
  if (!plans || recording()) return eager;
  return eager + memory_.IdleBytes(MemoryKind::kPlan, ShownTop());
}

absl::Status Lane::UnmapAbove(int64_t top) {
  if (memory_.present_bytes() <= 0 || recording()) return absl::OkStatus();
  const int64_t kept = std::max(top, ShownTop());
  if (kept >= memory_.present_bytes()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(order_.Drain());
  return memory_.UnmapAbove(kept);
}

}  // namespace coppice::internal
