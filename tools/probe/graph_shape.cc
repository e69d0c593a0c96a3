// Adds nodes by kind.

#include "tools/probe/graph_shape.h"

#include <optional>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr int64_t kCopyTargetWord = Subject::kWords / 2;

void DoNothing(void* /*user_data*/) {}

size_t DependencyCount(const NodePlace& place) {
  return place.dependency == nullptr ? 0 : 1;
}

absl::Status AddKernel(const Subject& subject,
                       const CuKernelNodeParams& params,
                       const NodePlace& place,
                       CuGraphNode* node) {
  return subject.driver().Call<&DriverTable::GraphAddKernelNode>(
      node, place.graph, place.dependency, DependencyCount(place), &params);
}

absl::Status AddBulkKernel(const Subject& subject, const NodePlace& place, CuGraphNode* node) {
  BulkParams values{.target = subject.word_pointer(0)};
  void* arguments[] = {&values};
  CuKernelNodeParams params;
  params.function = subject.bulk().function;
  params.block_x = subject.bulk().block_threads;
  params.kernel_params = arguments;
  return AddKernel(subject, params, place, node);
}

absl::Status AddMemcpy(const Subject& subject, const NodePlace& place, CuGraphNode* node) {
  CuMemcpyParams params;
  params.source_device = subject.word(0);
  params.target_device = subject.word(kCopyTargetWord);
  params.width_bytes = sizeof(int64_t);
  return subject.driver().Call<&DriverTable::GraphAddMemcpyNode>(
      node, place.graph, place.dependency, DependencyCount(place), &params,
      subject.context().handle());
}

absl::Status AddMemset(const Subject& subject, const NodePlace& place, CuGraphNode* node) {
  CuMemsetNodeParams params;
  params.target = subject.word(0);
  params.element_size = 4;
  params.width = 2;
  return subject.driver().Call<&DriverTable::GraphAddMemsetNode>(
      node, place.graph, place.dependency, DependencyCount(place), &params,
      subject.context().handle());
}

absl::Status AddHost(const Subject& subject, const NodePlace& place, CuGraphNode* node) {
  const CuHostNodeParams params{.function = &DoNothing, .user_data = nullptr};
  return subject.driver().Call<&DriverTable::GraphAddHostNode>(node, place.graph, place.dependency,
                                                               DependencyCount(place), &params);
}

}  // namespace

const char* NameOf(NodeKind kind) {
  switch (kind) {
    case NodeKind::kKernel:
      return "kernel";
    case NodeKind::kBulkKernel:
      return "kernel_3k";
    case NodeKind::kMemcpy:
      return "memcpy";
    case NodeKind::kMemset:
      return "memset";
    case NodeKind::kEmpty:
      return "empty";
    case NodeKind::kHost:
      return "host";
    case NodeKind::kChild:
      return "child";
  }
  return "?";
}

TouchNode::TouchNode(const Subject& subject, int64_t value)
    : values_{.target = subject.word_pointer(0), .value = value}, arguments_{&values_} {
  params_.function = subject.touch().function;
  params_.block_x = subject.touch().block_threads;
  params_.kernel_params = arguments_;
}

absl::Status AddNode(const Subject& subject,
                     NodeKind kind,
                     const NodePlace& place,
                     CuGraphNode* node) {
  const Driver& driver = subject.driver();
  switch (kind) {
    case NodeKind::kKernel:
      return AddKernel(subject, TouchNode(subject, place.value).params(), place, node);
    case NodeKind::kBulkKernel:
      return AddBulkKernel(subject, place, node);
    case NodeKind::kMemcpy:
      return AddMemcpy(subject, place, node);
    case NodeKind::kMemset:
      return AddMemset(subject, place, node);
    case NodeKind::kEmpty:
      return driver.Call<&DriverTable::GraphAddEmptyNode>(node, place.graph, place.dependency,
                                                          DependencyCount(place));
    case NodeKind::kHost:
      return AddHost(subject, place, node);
    case NodeKind::kChild:
      return driver.Call<&DriverTable::GraphAddChildGraphNode>(node, place.graph, place.dependency,
                                                               DependencyCount(place), place.child);
  }
  return InvalidArgument("AddNode: kind {} is not a node kind; pass a NodeKind",
                         static_cast<int>(kind));
}

absl::StatusOr<ShapedGraph> MakeGraph(const Subject& subject, const GraphShape& shape) {
  std::optional<ShapedGraph> child;
  if (shape.kind == NodeKind::kChild) {
    COPPICE_ASSIGN_OR_RETURN(ShapedGraph inner, MakeGraph(subject, {.kind = NodeKind::kKernel}));
    child.emplace(std::move(inner));
  }
  COPPICE_ASSIGN_OR_RETURN(Graph graph, Graph::Create(subject.driver()));
  ShapedGraph made{.graph = std::move(graph), .nodes = {}};
  made.nodes.reserve(static_cast<size_t>(shape.nodes));
  for (int64_t i = 0; i < shape.nodes; ++i) {
    const NodePlace place = {.graph = made.graph.handle(),
                             .dependency = i == 0 ? nullptr : &made.nodes.back(),
                             .value = shape.value,
                             .child = child.has_value() ? child->graph.handle() : nullptr};
    CuGraphNode node = nullptr;
    COPPICE_RETURN_IF_ERROR(AddNode(subject, shape.kind, place, &node));
    made.nodes.push_back(node);
  }
  return made;
}

}  // namespace coppice
