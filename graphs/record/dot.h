// A recording as a drawing, in Graphviz's language DOT. Private to graphs/.
//
// One cluster per CUDA graph, with its nodes and edges; between two of them the host code of a
// break; beside them a note of where inputs, outputs and planned buffers lie.
//
// Threads: pure functions but for driver calls.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/graph.h"

#include "graphs/capture/segmented_capture.h"
#include "graphs/node/allocation_script.h"
#include "graphs/node/node.h"

namespace coppice::internal {

// What is drawn of one CUDA graph.
struct GraphDrawing {
  std::vector<GraphNodeInfo> nodes;
  std::vector<GraphEdge> edges;
};

// One per piece. Errors: the driver's. Cost: as Graph::GetNodes.
absl::StatusOr<std::vector<GraphDrawing>> DrawingsOf(
    const std::vector<SegmentedCapture::Piece>& pieces);

// The drawing of a node that these graphs and buffers are of. Text in names stands as it is, but
// for control characters, each of which is a space.
std::string DotOf(const Node& node,
                  std::span<const GraphDrawing> graphs,
                  const PlannedBuffers& planned);

}  // namespace coppice::internal
