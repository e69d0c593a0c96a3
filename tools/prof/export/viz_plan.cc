// `--mode plan`: a pretended device per bucket.

#include <utility>
#include <vector>

#include "tools/prof/export/viz_plan_run.h"
#include "tools/prof/export/viz_snapshot.h"
#include "tools/prof/export/viz_window.h"

namespace coppice {
namespace {

// Of each bucket the node with the highest plan, of these the first; -1 without a graph.
std::vector<int> HighestNodes(const PoolTrace& trace) {
  std::vector<int> nodes(trace.buckets.size(), -1);
  for (size_t i = 0; i < trace.nodes.size(); ++i) {
    int& node = nodes[static_cast<size_t>(trace.nodes[i].bucket)];
    if (node < 0 || trace.nodes[static_cast<size_t>(node)].height < trace.nodes[i].height)
      node = static_cast<int>(i);
  }
  return nodes;
}

}  // namespace

VizSnapshot PlanSnapshot(const TracedSession& session) {
  const PoolTrace& trace = session.trace;
  VizSnapshot snapshot;
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  const std::vector<int> nodes = HighestNodes(trace);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] < 0) continue;
    const TracedNode& node = trace.nodes[static_cast<size_t>(nodes[i])];
    const int device = static_cast<int>(snapshot.devices.size());
    const int frame = static_cast<int>(snapshot.frames.size());
    const TracedBucket& bucket = trace.buckets[i];
    snapshot.devices.emplace_back();
    snapshot.frames.push_back(FrameOf(trace, node));
    VizWindow window(snapshot, device);
    window.Map(0, node.height);
    DrawPlanRun(
        node, {.lane = bucket.lane, .frame = frame, .buffers = NameBuffers(node, frame, snapshot)},
        window);
    window.Close(bucket.lane + 1);
    devices.push_back({{"device", device},
                       {"bucket", bucket.id},
                       {"program", LabelOf(trace.programs[static_cast<size_t>(bucket.program)])},
                       {"extents", bucket.extents},
                       {"lane", bucket.lane},
                       {"node", node.id},
                       {"height_bytes", node.height},
                       {"bound_bytes", node.bound}});
  }
  snapshot.coppice = OriginOf(session);
  snapshot.coppice["mode"] = NameOf(VizMode::kPlan);
  snapshot.coppice["devices"] = std::move(devices);
  return snapshot;
}

}  // namespace coppice
