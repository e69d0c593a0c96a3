// What a page of metrics says of a session, gathered lane by lane.

#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coppice/graphs/session.h"

#include "graphs/metrics/metrics_snapshot.h"
#include "graphs/metrics/metrics_text.h"
#include "graphs/parts/session_parts.h"

namespace coppice {

using internal::Bucket;
using internal::Lane;
using internal::LaneMemory;
using internal::MetricsSnapshot;
using internal::Node;
using internal::SessionParts;

namespace {

void CountGraphs(Lane& lane, MetricsSnapshot& snapshot) {
  const internal::NodeTables& nodes = lane.nodes();
  std::set<const internal::Family*> families;
  nodes.ForEachNode([&](const Node& node) {
    ++(node.unreachable() ? snapshot.graphs_retired : snapshot.graphs_recorded);
    snapshot.graph_nodes += node.info().graph_nodes;
    if (node.exact() == nullptr)
      snapshot.executables += node.info().graphs;
    else
      families.insert(&node.exact()->family());
  });
  snapshot.executables += std::ssize(families);
  for (const internal::NodeTable& table : nodes.all()) {
    for (const Bucket* bucket : table.buckets()) {
      ++(bucket->has_graph()    ? snapshot.buckets_recorded
         : bucket->recording()  ? snapshot.buckets_recording
         : bucket->capturable() ? snapshot.buckets_warm
                                : snapshot.buckets_not_capturable);
    }
  }
}

// Under the lane's lock.
void AddLane(Lane& lane, MetricsSnapshot& snapshot, std::vector<int64_t>& replays) {
  snapshot.stats += lane.stats();
  for (size_t i = 0; i < snapshot.eager.size(); ++i)
    snapshot.eager[i] += lane.books().eager()[i];
  snapshot.recordings += lane.nodes().recordings();
  snapshot.replay_time += lane.books().replay_time();
  lane.nodes().AddReplays(replays);
  CountGraphs(lane, snapshot);
  ++snapshot.lanes;
  snapshot.lanes_lent += lane.memory().absence() == LaneMemory::Absence::kLent ? 1 : 0;
  snapshot.suspended |= lane.memory().absence() == LaneMemory::Absence::kSuspended;
}

MetricsSnapshot SnapshotOf(const SessionParts& parts) {
  MetricsSnapshot snapshot;
  std::vector<int64_t> replays;
  for (const std::unique_ptr<Lane>& lane : parts.lanes) {
    const std::lock_guard lock(lane->mutex);
    AddLane(*lane, snapshot, replays);
  }
  // After the lanes, which may have a series that was not there before them.
  const std::vector<const internal::ReplaySeries::Labels*> labels = parts.series.labels();
  for (size_t i = 0; i < replays.size(); ++i)
    snapshot.replays.push_back({.labels = labels[i], .launches = replays[i]});
  snapshot.failures = parts.failures.counts();
  if (parts.tracer != nullptr) snapshot.trace_dropped = parts.tracer->dropped();
  snapshot.suspensions = parts.suspensions.load(std::memory_order_relaxed);
  if (const std::optional<CuResult> sticky = CuResultOf(parts.sticky.Get()))
    snapshot.sticky_error = NameOf(*sticky);
  return snapshot;
}

}  // namespace

std::string Session::MetricsText(MetricsFormat format) const {
  MetricsSnapshot snapshot = SnapshotOf(*parts_);
  snapshot.memory = memory_->books();
  return internal::TextOf(snapshot, format);
}

}  // namespace coppice
