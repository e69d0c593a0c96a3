// `--mode path`: calls that build on each other, their plans in a row.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coppice/base/status.h"

#include "tools/prof/export/viz_plan_run.h"
#include "tools/prof/export/viz_snapshot.h"
#include "tools/prof/export/viz_window.h"

namespace coppice {
namespace {

constexpr int64_t kStepsMax = int64_t{1} << 62;

struct PathCall {
  size_t event = 0;   // Place in TracedSession::events.
  int parent = -1;    // Place in PathCalls::calls.
  int64_t depth = 0;  // Calls with a graph from the root up to this one.
};

struct PathCalls {
  std::vector<PathCall> calls;
  absl::flat_hash_map<std::pair<int, int64_t>, int> places;  // By lane and call.
};

// A call builds on the latest of the calls whose outputs it reads; these are told before it.
PathCalls FindPathCalls(const TracedSession& session) {
  PathCalls found;
  absl::flat_hash_map<int, std::pair<int64_t, int64_t>> reads;  // By lane: call, and what it reads.
  for (size_t i = 0; i < session.events.size(); ++i) {
    const TraceEvent& event = session.events[i];
    if (event.kind == TraceEventKind::kUse) {
      auto& [call, read] = reads[event.lane];
      read = call == event.call ? std::max(read, event.other_call) : event.other_call;
      call = event.call;
    }
    if (event.kind != TraceEventKind::kCall) continue;
    PathCall call = {.event = i};
    const auto& [reader, read] = reads[event.lane];
    if (reader == event.call) {
      const auto parent = found.places.find({event.lane, read});
      if (parent != found.places.end()) call.parent = parent->second;
    }
    if (call.parent >= 0) call.depth = found.calls[static_cast<size_t>(call.parent)].depth;
    call.depth += event.node < 0 ? 0 : 1;
    found.places[{event.lane, event.call}] = static_cast<int>(found.calls.size());
    found.calls.push_back(call);
  }
  return found;
}

absl::StatusOr<int> FindLeaf(const PathCalls& found, const VizLeaf& leaf) {
  if (leaf.call) {
    const auto call = found.places.find({leaf.lane, *leaf.call});
    if (call == found.places.end())
      return InvalidArgument("the trace has no call {} on lane {}; see `coppice prof why`",
                             *leaf.call, leaf.lane);
    if (found.calls[static_cast<size_t>(call->second)].depth > 0) return call->second;
    return InvalidArgument(
        "call {} on lane {} runs without a graph, and so does what it builds on;"
        " give another",
        *leaf.call, leaf.lane);
  }
  const auto deepest = std::ranges::max_element(found.calls, {}, &PathCall::depth);
  if (deepest == found.calls.end() || deepest->depth == 0)
    return InvalidArgument("no call of the trace has a graph; give --mode history");
  return static_cast<int>(deepest - found.calls.begin());
}

class PathDrawer {
 public:
  PathDrawer(const TracedSession& session, const PathCalls& calls)
      : session_(session), calls_(calls), window_(snapshot_, 0) {
    snapshot_.devices.resize(1);
    for (const TracedNode& node : session.trace.nodes)
      snapshot_.frames.push_back(FrameOf(session.trace, node));
  }

  VizSnapshot Draw(int leaf) {
    const std::vector<int> chain = ChooseCalls(leaf);
    nlohmann::ordered_json calls = nlohmann::ordered_json::array();
    size_t next = EventOfCall(chain.front());
    for (const int place : chain) {
      for (const size_t at = EventOfCall(place); next < at; ++next)
        Play(session_.events[next]);
      DrawCall(session_.events[next++], calls);
    }
    window_.Close(lane_ + 1);
    snapshot_.coppice = OriginOf(session_);
    snapshot_.coppice["mode"] = NameOf(VizMode::kPath);
    snapshot_.coppice["lane"] = lane_;
    snapshot_.coppice["calls_left_out"] = left_out_;
    snapshot_.coppice["calls_without_graph"] = without_graph_;
    snapshot_.coppice["calls"] = std::move(calls);
    return std::move(snapshot_);
  }

 private:
  size_t EventOfCall(int place) const { return calls_.calls[static_cast<size_t>(place)].event; }

  // The chain from the root, cut at its beginning where a viewer could not take it. Some call of it
  // has a graph.
  std::vector<int> ChooseCalls(int leaf) {
    std::vector<int> chain;
    int64_t events = 0;
    for (int place = leaf; place >= 0; place = calls_.calls[static_cast<size_t>(place)].parent) {
      const TraceEvent& event = session_.events[EventOfCall(place)];
      if (event.node >= 0) {
        const TracedNode& node = session_.trace.nodes[static_cast<size_t>(event.node)];
        events += 4;  // Of the window.
        for (const Buffer& buffer : node.buffers)
          events += 3 * static_cast<int64_t>(buffer.lifetime.size());
        events += 3 * static_cast<int64_t>(node.around.size() + node.donated.size());
      }
      if (events > kVizPathEventsMax && !chain.empty()) {
        ++left_out_;
      } else if (event.node < 0) {
        ++without_graph_;
      } else {
        chain.push_back(place);
      }
    }
    std::ranges::reverse(chain);
    return chain;
  }

  void DrawCall(const TraceEvent& event, nlohmann::ordered_json& calls) {
    const TracedNode& node = session_.trace.nodes[static_cast<size_t>(event.node)];
    lane_ = event.lane;
    if (node.height > height_) window_.Map(time_, height_ = node.height);
    const auto [named, fresh] = named_.try_emplace(event.node);
    if (fresh) named->second = NameBuffers(node, event.node, snapshot_);
    left_[event.call] = DrawPlanRun(node,
                                    {.lane = event.lane,
                                     .frame = event.node,
                                     .buffers = named->second,
                                     .base = time_,
                                     .call = event.call,
                                     .passing = true},
                                    window_);
    calls.push_back({{"call", event.call},
                     {"node", node.id},
                     {"bucket", session_.trace.buckets[static_cast<size_t>(node.bucket)].id},
                     {"path", NameOf(event.path)},
                     {"first_step", time_},
                     {"time_ns", event.time_ns}});
    time_ = std::min(time_ + StepsOf(node), kStepsMax);
  }

  // What happens between calls of the chain: leases end.
  void Play(const TraceEvent& event) {
    const bool part = event.kind == TraceEventKind::kPart;
    const bool whole =
        event.kind == TraceEventKind::kRelease || event.kind == TraceEventKind::kExpire;
    if ((!part && !whole) || event.lane != lane_) return;
    const auto found = left_.find(event.call);
    if (found == left_.end()) return;
    for (const PlanLeft& left : found->second) {
      if (whole || left.output == event.first) window_.Free(time_, left.offset, left.token);
    }
    if (whole) left_.erase(found);
  }

  const TracedSession& session_;
  const PathCalls& calls_;
  VizSnapshot snapshot_;
  VizWindow window_;
  absl::flat_hash_map<int, std::vector<VizBuffer>> named_;    // By node.
  absl::flat_hash_map<int64_t, std::vector<PlanLeft>> left_;  // By call.
  int lane_ = 0;
  int64_t time_ = 0;  // In steps.
  int64_t height_ = 0;
  int64_t left_out_ = 0;
  int64_t without_graph_ = 0;
};

}  // namespace

absl::StatusOr<VizSnapshot> PathSnapshot(const TracedSession& session, const VizLeaf& leaf) {
  const PathCalls calls = FindPathCalls(session);
  COPPICE_ASSIGN_OR_RETURN(const int place, FindLeaf(calls, leaf));
  return PathDrawer(session, calls).Draw(place);
}

}  // namespace coppice
