// From marks and edges to steps.

#include "graphs/record/forked_script.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace coppice::internal {

ForkedScript ForkedScriptOf(const AllocationScript& script,
                            const NodeMarks& marks,
                            const Graph::Topology& topology) {
  const size_t count = topology.nodes.size();
  std::unordered_map<CuGraphNode, size_t> segment_of;
  for (size_t event = 0; event < marks.size(); ++event) {
    for (const CuGraphNode node : marks[event])
      segment_of.try_emplace(node, event);
  }
  std::vector<size_t> segments(count);
  for (size_t i = 0; i < count; ++i) {
    const auto found = segment_of.find(topology.nodes[i]);
    segments[i] = found == segment_of.end() ? marks.size() : found->second;
  }
  // Predecessors first, and among the ready the earliest captured: an edge never leads to an
  // earlier segment, so the steps come out sorted by segment.
  std::vector<int> waiting(count, 0);
  std::vector<std::vector<size_t>> successors(count);
  for (const GraphEdge& edge : topology.edges) {
    successors[static_cast<size_t>(edge.from)].push_back(static_cast<size_t>(edge.to));
    ++waiting[static_cast<size_t>(edge.to)];
  }
  std::set<std::pair<size_t, size_t>> ready;  // (segment, node)
  for (size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) ready.emplace(segments[i], i);
  }
  std::vector<size_t> by_step;
  while (!ready.empty()) {
    const size_t node = ready.begin()->second;
    ready.erase(ready.begin());
    by_step.push_back(node);
    for (const size_t next : successors[node]) {
      if (--waiting[next] == 0) ready.emplace(segments[next], next);
    }
  }
  std::vector<int64_t> step_of(count);
  for (size_t step = 0; step < count; ++step)
    step_of[by_step[step]] = static_cast<int64_t>(step);

  ForkedScript forked;
  const auto end = static_cast<int64_t>(count);
  forked.order.step_count = end + 1;
  for (const GraphEdge& edge : topology.edges) {
    forked.order.edges.emplace_back(step_of[static_cast<size_t>(edge.from)],
                                    step_of[static_cast<size_t>(edge.to)]);
  }
  for (int64_t step = 0; step < end; ++step)
    forked.order.edges.emplace_back(step, end);

  // A node of segment s was captured between the events s - 1 and s.
  const auto steps_before = [&](int64_t event) {
    return std::partition_point(
               by_step.begin(), by_step.end(),
               [&](size_t node) { return static_cast<int64_t>(segments[node]) <= event; }) -
           by_step.begin();
  };
  forked.buffers = BuffersOf(script);
  for (Buffer& buffer : forked.buffers) {
    Interval& life = buffer.lifetime[0];
    const bool to_end = life.upper > static_cast<int64_t>(script.events.size());
    // What a donation holds is there before anything runs.
    const int64_t lower = buffer.fixed_offset.has_value() ? 0 : steps_before(life.lower);
    const int64_t upper = to_end ? end + 1 : steps_before(life.upper);
    life = {.lower = lower, .upper = std::max(upper, lower + 1)};
  }
  return forked;
}

}  // namespace coppice::internal
