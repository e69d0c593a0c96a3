// Graphs, executable graphs and stream captures.

#include "coppice/runtime/graph.h"

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/runtime/kernel_library.h"
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

// Copies what `values` points to: the parameters of `function`, as many as there are.
absl::StatusOr<std::vector<std::vector<std::byte>>> CopyParameters(const Driver& driver,
                                                                   CuFunction function,
                                                                   void* const* values) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<KernelParameter> parameters,
                           ParametersOf(driver, function));
  std::vector<std::vector<std::byte>> copies;
  for (const KernelParameter& parameter : parameters) {
    const auto* const first = static_cast<const std::byte*>(*values++);
    copies.emplace_back(first, first + parameter.bytes);
  }
  return copies;
}

// Reads the attributes of a kernel node; zeros stand for one that it lacks.
absl::Status ReadAttributes(const Driver& driver, CuGraphNode node, KernelNode* kernel) {
  CuLaunchAttributeValue cooperative;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphKernelNodeGetAttribute>(
      node, CuLaunchAttributeId::kCooperative, &cooperative));
  kernel->cooperative = cooperative.cooperative != 0;
  CuLaunchAttributeValue value;
  const CuResult result = driver.table().GraphKernelNodeGetAttribute(
      node, CuLaunchAttributeId::kClusterDimension, &value);
  if (result == CuResult::kInvalidValue) return absl::OkStatus();  // The device has no clusters.
  if (result != CuResult::kSuccess) return driver.ErrorOf(result, "cuGraphKernelNodeGetAttribute");
  const auto& cluster = value.cluster;
  if (cluster.x != 0) kernel->cluster = {cluster.x, cluster.y, cluster.z};
  return absl::OkStatus();
}

absl::StatusOr<CuGraphNodeType> TypeOf(const Driver& driver, CuGraphNode node) {
  CuGraphNodeType type = CuGraphNodeType::kEmpty;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphNodeGetType>(node, &type));
  return type;
}

// The launch of a kernel node without its parameters, which `params` leads to.
absl::StatusOr<KernelNode> LaunchOf(const Driver& driver,
                                    CuGraphNode node,
                                    CuKernelNodeParams& params) {
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphKernelNodeGetParams>(node, &params));
  if (params.function == nullptr)
    COPPICE_RETURN_IF_ERROR(
        driver.Call<&DriverTable::KernelGetFunction>(&params.function, params.kernel));
  const char* name = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::FuncGetName>(&name, params.function));
  return KernelNode{.name = name,
                    .parameters = {},
                    .grid = {params.grid_x, params.grid_y, params.grid_z},
                    .block = {params.block_x, params.block_y, params.block_z},
                    .shared_bytes = params.shared_bytes};
}

absl::StatusOr<KernelNode> KernelNodeOf(const Driver& driver, CuGraphNode node) {
  CuKernelNodeParams params;
  COPPICE_ASSIGN_OR_RETURN(KernelNode kernel, LaunchOf(driver, node, params));
  if (params.extra != nullptr)
    return MakeError(absl::StatusCode::kUnimplemented,
                     "Graph::GetKernelNodes: {} takes its parameters in one buffer; launch it with "
                     "an array of parameters",
                     kernel.name);
  COPPICE_ASSIGN_OR_RETURN(kernel.parameters,
                           CopyParameters(driver, params.function, params.kernel_params));
  COPPICE_RETURN_IF_ERROR(ReadAttributes(driver, node, &kernel));
  return kernel;
}

// CUDA's numbers of nodes that coppice neither makes nor copies.
const char* WhatNoChildDoes(CuGraphNodeType type) {
  constexpr int kMemoryAllocation = 10;
  constexpr int kMemoryFree = 11;
  constexpr int kConditional = 13;
  switch (static_cast<int>(type)) {
    case kMemoryAllocation:
      return "allocates memory";
    case kMemoryFree:
      return "frees memory";
    case kConditional:
      return "has a condition";
    default:
      return nullptr;
  }
}

// What a stream captures.
struct CaptureInfo {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  CuGraph graph = nullptr;  // Belongs to the capture.
  const CuGraphNode* dependencies = nullptr;
  size_t dependency_count = 0;
};

// Without a place for `edge_data` the driver refuses a capture that has programmatic edges.
absl::StatusOr<CaptureInfo> InfoOf(const Driver& driver,
                                   CuStream stream,
                                   const CuGraphEdgeData** edge_data) {
  CaptureInfo info;
  uint64_t id = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::StreamGetCaptureInfo>(
      stream, &info.status, &id, &info.graph, &info.dependencies, edge_data,
      &info.dependency_count));
  return info;
}

}  // namespace

const char* NameOf(CuGraphNodeType type) {
  switch (type) {
    case CuGraphNodeType::kKernel:
      return "kernel";
    case CuGraphNodeType::kMemcpy:
      return "memcpy";
    case CuGraphNodeType::kMemset:
      return "memset";
    case CuGraphNodeType::kHost:
      return "host";
    case CuGraphNodeType::kGraph:
      return "child";
    case CuGraphNodeType::kEmpty:
      return "empty";
    case CuGraphNodeType::kWaitEvent:
      return "event wait";
    case CuGraphNodeType::kEventRecord:
      return "event record";
  }
  return "other";
}

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

absl::StatusOr<std::vector<std::optional<KernelNode>>> Graph::GetKernelNodes() const {
  const RelaxedCaptureScope relaxed(*driver_);
  COPPICE_ASSIGN_OR_RETURN(const std::vector<CuGraphNode> nodes, NodesOf(*driver_, handle_));
  std::vector<std::optional<KernelNode>> kernels(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(const CuGraphNodeType type, TypeOf(*driver_, nodes[i]));
    if (type != CuGraphNodeType::kKernel) continue;
    COPPICE_ASSIGN_OR_RETURN(kernels[i], KernelNodeOf(*driver_, nodes[i]));
  }
  return kernels;
}

absl::StatusOr<std::vector<GraphNodeInfo>> Graph::GetNodes() const {
  const RelaxedCaptureScope relaxed(*driver_);
  COPPICE_ASSIGN_OR_RETURN(const std::vector<CuGraphNode> nodes, NodesOf(*driver_, handle_));
  std::vector<GraphNodeInfo> infos(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(infos[i].type, TypeOf(*driver_, nodes[i]));
    if (infos[i].type != CuGraphNodeType::kKernel) continue;
    CuKernelNodeParams params;
    COPPICE_ASSIGN_OR_RETURN(infos[i].launch, LaunchOf(*driver_, nodes[i], params));
  }
  return infos;
}

absl::StatusOr<GraphExec> GraphExec::Instantiate(const Driver& driver, CuGraph graph) {
  const RelaxedCaptureScope relaxed(driver);
  CuGraphExec handle = nullptr;
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::GraphInstantiateWithFlags>(&handle, graph, 0ULL));
  return GraphExec(&driver, handle);
}

GraphExec::~GraphExec() {
  if (handle_ == nullptr || driver_ == nullptr) return;
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
  COPPICE_CHECK(stream_ != nullptr, "the capture has already ended");
  CuGraph graph = nullptr;
  COPPICE_RETURN_IF_ERROR(
      driver_->Call<&DriverTable::StreamEndCapture>(std::exchange(stream_, nullptr), &graph));
  return Graph(*driver_, graph);
}

absl::StatusOr<std::vector<CuGraphNode>> Capture::Nodes() const {
  COPPICE_CHECK(stream_ != nullptr, "the capture has already ended");
  const CuGraphEdgeData* edge_data = nullptr;
  COPPICE_ASSIGN_OR_RETURN(const CaptureInfo info, InfoOf(*driver_, stream_, &edge_data));
  if (info.status != CuCaptureStatus::kActive) {
    return MakeError(absl::StatusCode::kAborted,
                     "Capture::Nodes: the capture was invalidated; end it and retry");
  }
  return NodesOf(*driver_, info.graph);
}

absl::Status AddChildToCapture(const Driver& driver, CuStream stream, CuGraph child) {
  // A child has plain edges only: where others lead, the driver says so here.
  COPPICE_ASSIGN_OR_RETURN(const CaptureInfo info, InfoOf(driver, stream, nullptr));
  if (info.status == CuCaptureStatus::kNone)
    return FailedPrecondition(
        "AddChildToCapture: the stream is not capturing; begin a capture or launch the graph");
  if (info.status == CuCaptureStatus::kInvalidated)
    return MakeError(absl::StatusCode::kAborted,
                     "AddChildToCapture: the capture was invalidated; end it and retry");
  CuGraphNode node = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::GraphAddChildGraphNode>(
      &node, info.graph, info.dependencies, info.dependency_count, child));
  return driver.Call<&DriverTable::StreamUpdateCaptureDependencies>(
      stream, &node, static_cast<const CuGraphEdgeData*>(nullptr), size_t{1},
      kSetCaptureDependencies);
}

absl::Status CheckChild(const Driver& driver, CuGraph graph) {
  const RelaxedCaptureScope relaxed(driver);
  COPPICE_ASSIGN_OR_RETURN(const std::vector<CuGraphNode> nodes, NodesOf(driver, graph));
  for (size_t i = 0; i < nodes.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(const CuGraphNodeType type, TypeOf(driver, nodes[i]));
    if (const char* const does = WhatNoChildDoes(type))
      return InvalidArgument(
          "CheckChild: node {} of {} in the graph {}, which is not allowed in a child graph; "
          "capture the graph without this node",
          i, nodes.size(), does);
  }
  return absl::OkStatus();
}

}  // namespace coppice
