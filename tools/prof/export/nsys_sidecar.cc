// One row per graph.

#include <vector>

#include "nlohmann/json.hpp"

#include "tools/prof/export/text_formats.h"
#include "tools/prof/prof.h"

namespace coppice {
namespace {

using SidecarJson = nlohmann::ordered_json;

struct GraphLife {
  SidecarJson recorded_ns;  // Null: not in the trace.
  SidecarJson evicted_ns;
  int64_t launches = 0;
};

}  // namespace

std::string NsysSidecarOf(const TracedSession& session) {
  const PoolTrace& trace = session.trace;
  std::vector<GraphLife> lives(trace.nodes.size());
  for (const TraceEvent& event : session.events) {
    if (event.node < 0) continue;
    GraphLife& life = lives[static_cast<size_t>(event.node)];
    if (event.kind == TraceEventKind::kRecord) life.recorded_ns = event.time_ns;
    if (event.kind == TraceEventKind::kEvict) life.evicted_ns = event.time_ns;
    if (event.kind == TraceEventKind::kCall &&
        (event.path == RunKind::kReplay || event.path == RunKind::kRecord)) {
      ++life.launches;
    }
  }
  SidecarJson graphs = SidecarJson::array();
  for (size_t i = 0; i < lives.size(); ++i) {
    const TracedNode& node = trace.nodes[i];
    const TracedBucket& bucket = trace.buckets[static_cast<size_t>(node.bucket)];
    const TracedProgram& program = trace.programs[static_cast<size_t>(bucket.program)];
    SidecarJson kernels = SidecarJson::array();
    for (const TracedKernel& kernel : node.kernels)
      kernels.push_back(kernel.name);
    graphs.push_back({{"node", node.id},
                      {"label", NameOfBucket(trace, node.bucket)},
                      {"program", program.name},
                      {"variant", program.variant},
                      {"symbols", program.symbols},
                      {"bucket", bucket.id},
                      {"extents", bucket.extents},
                      {"scalars", bucket.scalars},
                      {"lane", bucket.lane},
                      {"graph_nodes", node.graph_nodes},
                      {"height_bytes", node.height},
                      {"bound_bytes", node.bound},
                      {"exec_bytes_estimate", node.exec_bytes},
                      {"reason", NameOf(node.reason)},
                      {"record_ns", node.record_ns},
                      {"recorded_ns", lives[i].recorded_ns},
                      {"evicted_ns", lives[i].evicted_ns},
                      {"launches", lives[i].launches},
                      {"kernels", kernels}});
  }
  return Dump({{"schema", "coppice.graphs/1"}, {"trace", OriginOf(session)}, {"graphs", graphs}});
}

}  // namespace coppice
