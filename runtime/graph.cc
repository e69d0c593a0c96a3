// Graphs, executable graphs and stream captures.

#include "coppice/runtime/graph.h"

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

namespace coppice {
namespace {

absl::StatusOr<std::vector<CuGraphNode>> NodesOf(const Driver& driver, CuGraph graph) {
  size_t count = 0;
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::GraphGetNodes>(graph, static_cast<CuGraphNode*>(nullptr), &count));
  std::vector<CuGraphNode> nodes(count);
  if (count > 0) {
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphGetNodes>(graph, nodes.data(), &count));
  }
  return nodes;
}

}  // namespace

absl::StatusOr<Graph> Graph::Create(const Driver& driver) {
  CuGraph handle = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphCreate>(&handle, 0U));
  return Graph(driver, handle);
}

Graph::~Graph() {
  if (handle_ != nullptr) driver_->table().GraphDestroy(handle_);
}

bool Graph::Topology::IsChain() const {
  std::vector<std::vector<int>> successors(nodes.size());
  std::vector<int> predecessor_count(nodes.size(), 0);
  for (const GraphEdge& edge : edges) {
    successors[static_cast<size_t>(edge.from)].push_back(edge.to);
    ++predecessor_count[static_cast<size_t>(edge.to)];
  }
  std::vector<int> ready;
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (predecessor_count[node] == 0) ready.push_back(static_cast<int>(node));
  }
  // Two nodes that are ready at once have no order between them.
  size_t ordered = 0;
  while (ready.size() == 1) {
    const int node = ready.back();
    ready.pop_back();
    ++ordered;
    for (const int next : successors[static_cast<size_t>(node)]) {
      if (--predecessor_count[static_cast<size_t>(next)] == 0) ready.push_back(next);
    }
  }
  return ordered == nodes.size();
}

absl::StatusOr<Graph::Topology> Graph::GetTopology() const {
  Topology topology;
  COPPICE_ASSIGN_OR_RETURN(topology.nodes, NodesOf(*driver_, handle_));
  std::unordered_map<CuGraphNode, int> index_of;
  for (size_t node = 0; node < topology.nodes.size(); ++node) {
    index_of[topology.nodes[node]] = static_cast<int>(node);
  }
  size_t count = 0;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::GraphGetEdges>(
      handle_, static_cast<CuGraphNode*>(nullptr), static_cast<CuGraphNode*>(nullptr),
      static_cast<CuGraphEdgeData*>(nullptr), &count));
  if (count == 0) return topology;
  std::vector<CuGraphNode> from(count);
  std::vector<CuGraphNode> to(count);
  // Without room for edge data the driver refuses a graph that has programmatic edges.
  std::vector<CuGraphEdgeData> edge_data(count);
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::GraphGetEdges>(
      handle_, from.data(), to.data(), edge_data.data(), &count));
  topology.edges.reserve(count);
  for (size_t edge = 0; edge < count; ++edge) {
    topology.edges.push_back({.from = index_of.at(from[edge]), .to = index_of.at(to[edge])});
  }
  return topology;
}

absl::StatusOr<GraphExec> GraphExec::Instantiate(const Driver& driver, const Graph& graph) {
  const RelaxedCaptureScope relaxed(driver);
  CuGraphExec handle = nullptr;
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::GraphInstantiateWithFlags>(&handle, graph.handle(), 0ULL));
  return GraphExec(driver, handle);
}

GraphExec::~GraphExec() {
  if (handle_ == nullptr) return;
  const RelaxedCaptureScope relaxed(*driver_);
  driver_->table().GraphExecDestroy(handle_);
}

absl::Status GraphExec::Upload(CuStream stream) const {
  const RelaxedCaptureScope relaxed(*driver_);
  return driver_->Call<&DriverTable::GraphUpload>(handle_, stream);
}

absl::StatusOr<Capture> Capture::Begin(const Driver& driver, CuStream stream) {
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::StreamBeginCapture>(stream, CuCaptureMode::kThreadLocal));
  return Capture(driver, stream);
}

Capture::~Capture() {
  // The graph of an abandoned capture, if there is one, dies with the temporary.
  if (stream_ != nullptr) (void)End();
}

absl::StatusOr<Graph> Capture::End() {
  COPPICE_CHECK(stream_ != nullptr, "the capture has ended already");
  CuGraph graph = nullptr;
  COPPICE_RETURN_IF_ERROR(
      driver_->Call<&DriverTable::StreamEndCapture>(std::exchange(stream_, nullptr), &graph));
  return Graph(*driver_, graph);
}

absl::StatusOr<std::vector<CuGraphNode>> Capture::Nodes() const {
  COPPICE_CHECK(stream_ != nullptr, "the capture has ended already");
  CuCaptureStatus status = CuCaptureStatus::kNone;
  uint64_t id = 0;
  CuGraph graph = nullptr;
  const CuGraphNode* dependencies = nullptr;
  const CuGraphEdgeData* edge_data = nullptr;
  size_t dependency_count = 0;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::StreamGetCaptureInfo>(
      stream_, &status, &id, &graph, &dependencies, &edge_data, &dependency_count));
  if (status != CuCaptureStatus::kActive) {
    return MakeError(absl::StatusCode::kAborted,
                     "Capture::Nodes: the capture was invalidated; end it and retry");
  }
  return NodesOf(*driver_, graph);
}

}  // namespace coppice
