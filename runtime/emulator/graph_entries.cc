// The driver entries for graphs and their nodes.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/emulator/arguments.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/graph.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {
namespace {

// Where a new node goes, as every GraphAdd entry is told.
struct Place {
  CuGraphNode* node;
  CuGraph graph;
  const CuGraphNode* dependencies;
  size_t dependency_count;
};

// Adds a node whose work `make_work(state, &work)` makes.
template <typename MakeWork>
CuResult Add(const Place& place, MakeWork make_work) {
  State& state = TheState();
  GraphState* const graph = state.graphs.Find(place.graph);
  if (graph == nullptr) return CuResult::kInvalidHandle;
  if (place.node == nullptr) return CuResult::kInvalidValue;
  GraphNode node{.work = EmptyWork{}, .dependencies = {}};
  CuResult result = FindDependencies(state, *graph, place.dependencies, place.dependency_count,
                                     &node.dependencies);
  if (result == CuResult::kSuccess) result = make_work(state, &node.work);
  if (result == CuResult::kSuccess) *place.node = AddNode(state, *graph, std::move(node));
  return result;
}

// Copies `values` to `target` the way graph queries do: a null target asks for the count, a longer
// one is filled up with nulls.
void CopyOut(const std::vector<CuGraphNode>& values, CuGraphNode* target, size_t capacity) {
  if (target == nullptr) return;
  for (size_t i = 0; i < capacity; ++i)
    target[i] = i < values.size() ? values[i] : nullptr;
}

size_t CountOut(size_t available, bool asks_for_count, size_t capacity) {
  return asks_for_count ? available : std::min(available, capacity);
}

}  // namespace

CuResult GraphCreate(CuGraph* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return CuResult::kInvalidValue;
  *graph = NewGraph(TheState(), nullptr);
  return CuResult::kSuccess;
}

CuResult GraphDestroy(CuGraph graph) {
  State& state = TheState();
  const GraphState* const found = state.graphs.Find(graph);
  if (found == nullptr || found->capture != nullptr) return CuResult::kInvalidHandle;
  RemoveGraph(state, graph);
  return CuResult::kSuccess;
}

CuResult GraphAddKernelNode(CuGraphNode* node,
                            CuGraph graph,
                            const CuGraphNode* dependencies,
                            size_t dependency_count,
                            const CuKernelNodeParams* params) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count}, [params](State& state, Work* work) {
    if (params->context != nullptr && state.contexts.Find(params->context) == nullptr)
      return CuResult::kInvalidContext;
    return MakeKernelWork(state, *params, {}, work);
  });
}

CuResult GraphAddMemcpyNode(CuGraphNode* node,  // NOLINT(readability-function-size)
                            CuGraph graph,
                            const CuGraphNode* dependencies,
                            size_t dependency_count,
                            const CuMemcpyParams* params,
                            CuContext context) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count},
             [params, context](State& state, Work* work) {
               if (state.contexts.Find(context) == nullptr) return CuResult::kInvalidContext;
               return MakeCopyWork(state, *params, work);
             });
}

CuResult GraphAddMemsetNode(CuGraphNode* node,  // NOLINT(readability-function-size)
                            CuGraph graph,
                            const CuGraphNode* dependencies,
                            size_t dependency_count,
                            const CuMemsetNodeParams* params,
                            CuContext context) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count},
             [params, context](State& state, Work* work) {
               if (state.contexts.Find(context) == nullptr) return CuResult::kInvalidContext;
               return MakeFillWork(state, *params, work);
             });
}

CuResult GraphAddHostNode(CuGraphNode* node,
                          CuGraph graph,
                          const CuGraphNode* dependencies,
                          size_t dependency_count,
                          const CuHostNodeParams* params) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count},
             [params](State& /*state*/, Work* work) { return MakeHostWork(*params, work); });
}

CuResult GraphAddChildGraphNode(CuGraphNode* node,
                                CuGraph graph,
                                const CuGraphNode* dependencies,
                                size_t dependency_count,
                                CuGraph child) {
  return Add({node, graph, dependencies, dependency_count},
             [graph, child](State& state, Work* work) {
               const GraphState* const found = state.graphs.Find(child);
               if (found == nullptr) return CuResult::kInvalidHandle;
               if (child == graph || found->capture != nullptr) return CuResult::kInvalidValue;
               *work = ChildWork{.nodes = found->nodes};
               return CuResult::kSuccess;
             });
}

CuResult GraphAddEmptyNode(CuGraphNode* node,
                           CuGraph graph,
                           const CuGraphNode* dependencies,
                           size_t dependency_count) {
  return Add({node, graph, dependencies, dependency_count},
             [](State& /*state*/, Work* /*work*/) { return CuResult::kSuccess; });
}

CuResult GraphGetNodes(CuGraph graph, CuGraphNode* nodes, size_t* count) {
  const GraphState* const found = TheState().graphs.Find(graph);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (count == nullptr) return CuResult::kInvalidValue;
  CopyOut(found->node_handles, nodes, *count);
  *count = CountOut(found->node_handles.size(), nodes == nullptr, *count);
  return CuResult::kSuccess;
}

CuResult GraphGetEdges(
    CuGraph graph, CuGraphNode* from, CuGraphNode* to, CuGraphEdgeData* edge_data, size_t* count) {
  const GraphState* const found = TheState().graphs.Find(graph);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CuResult::kInvalidValue;
  if (from == nullptr && edge_data != nullptr) return CuResult::kInvalidValue;
  std::vector<CuGraphNode> sources;
  std::vector<CuGraphNode> targets;
  std::vector<CuGraphEdgeData> data;
  for (size_t i = 0; i < found->nodes.size(); ++i) {
    for (const int dependency : found->nodes[i].dependencies) {
      sources.push_back(found->node_handles[dependency]);
      targets.push_back(found->node_handles[i]);
      const bool programmatic = IsProgrammatic(found->nodes[dependency].work, found->nodes[i].work);
      data.push_back(
          programmatic ? CuGraphEdgeData{.from_port = kProgrammaticPort, .type = kProgrammaticEdge}
                       : CuGraphEdgeData());
      if (programmatic && from != nullptr && edge_data == nullptr) return CuResult::kLossyQuery;
    }
  }
  CopyOut(sources, from, *count);
  CopyOut(targets, to, *count);
  if (edge_data != nullptr) {
    data.resize(*count);
    std::copy(data.begin(), data.end(), edge_data);
  }
  *count = CountOut(sources.size(), from == nullptr, *count);
  return CuResult::kSuccess;
}

CuResult GraphNodeGetType(CuGraphNode node, CuGraphNodeType* type) {
  const NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (type == nullptr) return CuResult::kInvalidValue;
  constexpr CuGraphNodeType kTypes[] = {CuGraphNodeType::kKernel, CuGraphNodeType::kMemcpy,
                                        CuGraphNodeType::kMemset, CuGraphNodeType::kHost,
                                        CuGraphNodeType::kEmpty,  CuGraphNodeType::kGraph};
  static_assert(std::size(kTypes) + 1 == std::variant_size_v<Work>);  // In the order of Work.
  *type = kTypes[found->graph->nodes[found->index].work.index()];
  return CuResult::kSuccess;
}

CuResult GraphKernelNodeGetParams(CuGraphNode node, CuKernelNodeParams* params) {
  NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  auto* const work = std::get_if<KernelWork>(&found->graph->nodes[found->index].work);
  if (params == nullptr || work == nullptr) return CuResult::kInvalidValue;
  if (TheState().libraries.Find(work->library) == nullptr) return CuResult::kInvalidHandle;
  // The bytes stay where they are when a graph that grows moves its nodes.
  static_assert(std::is_nothrow_move_constructible_v<GraphNode>);
  found->parameters.clear();
  for (size_t i = 0; i < work->kernel.parameter_count(); ++i)
    found->parameters.push_back(work->parameters.data() + work->kernel.parameter(i).offset);
  *params = {.function = work->function,
             .grid_x = work->grid[0],
             .grid_y = work->grid[1],
             .grid_z = work->grid[2],
             .block_x = work->block[0],
             .block_y = work->block[1],
             .block_z = work->block[2],
             .shared_bytes = work->shared_bytes,
             .kernel_params = found->parameters.data()};
  return CuResult::kSuccess;
}

CuResult GraphKernelNodeGetAttribute(CuGraphNode node,
                                     CuLaunchAttributeId attribute,
                                     CuLaunchAttributeValue* value) {
  const NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const auto* const work = std::get_if<KernelWork>(&found->graph->nodes[found->index].work);
  if (value == nullptr || work == nullptr) return CuResult::kInvalidValue;
  const auto& [x, y, z] = work->attributes.cluster;
  CuLaunchAttributeValue read;
  switch (attribute) {
    case CuLaunchAttributeId::kCooperative:
      read.cooperative = work->attributes.cooperative ? 1 : 0;
      break;
    case CuLaunchAttributeId::kClusterDimension:
      read.cluster = {x, y, z};
      break;
    default:
      return CuResult::kInvalidValue;
  }
  *value = read;
  return CuResult::kSuccess;
}

// Of edges between nodes that were added, data says which are programmatic, not an attribute.
CuResult GraphKernelNodeSetAttribute(CuGraphNode node,
                                     CuLaunchAttributeId attribute,
                                     const CuLaunchAttributeValue* value) {
  State& state = TheState();
  const NodeState* const found = state.nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  auto* const work = std::get_if<KernelWork>(&found->graph->nodes[found->index].work);
  if (value == nullptr || work == nullptr) return CuResult::kInvalidValue;
  LaunchAttributes changed = work->attributes;
  switch (attribute) {
    case CuLaunchAttributeId::kCooperative:
      changed.cooperative = value->cooperative != 0;
      break;
    case CuLaunchAttributeId::kClusterDimension:
      changed.cluster = {value->cluster.x, value->cluster.y, value->cluster.z};
      break;
    default:
      return CuResult::kInvalidValue;
  }
  return ChangeAttributes(state, changed, *work);
}

}  // namespace coppice::emulator
