// Wrong drivers: the structure of graphs, their snapshots and their launches.

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/conformance/mutation.h"
#include "tests/support/test_kernels.h"

namespace coppice::mutation {
namespace {

using enum CuResult;
using Flags = unsigned long long;  // NOLINT(google-runtime-int)
using Nodes = std::vector<CuGraphNode>;

// Structure.

CuResult AddAfterEachOnce(CuGraphNode* node,
                          CuGraph graph,
                          const CuGraphNode* dependencies,
                          size_t count) {
  if (dependencies == nullptr) return right.GraphAddEmptyNode(node, graph, dependencies, count);
  Nodes once(dependencies, dependencies + count);
  std::sort(once.begin(), once.end());
  once.erase(std::unique(once.begin(), once.end()), once.end());
  return right.GraphAddEmptyNode(node, graph, once.data(), once.size());
}
CuResult AddAfterOwnOnly(CuGraphNode* node,
                         CuGraph graph,
                         const CuGraphNode* dependencies,
                         size_t count) {
  size_t own_count = 0;
  right.GraphGetNodes(graph, nullptr, &own_count);
  Nodes own(own_count);
  right.GraphGetNodes(graph, own.data(), &own_count);
  Nodes kept;
  for (size_t i = 0; dependencies != nullptr && i < count; ++i)
    if (std::find(own.begin(), own.end(), dependencies[i]) != own.end())
      kept.push_back(dependencies[i]);
  return dependencies == nullptr ? right.GraphAddEmptyNode(node, graph, dependencies, count)
                                 : right.GraphAddEmptyNode(node, graph, kept.data(), kept.size());
}
CuResult AddAfterNull(CuGraphNode* node,
                      CuGraph graph,
                      const CuGraphNode* dependencies,
                      size_t count) {
  return right.GraphAddEmptyNode(node, graph, dependencies, dependencies == nullptr ? 0 : count);
}
CuResult AddCopyOfThisMoment(CuGraphNode* node,
                             CuGraph graph,
                             const CuGraphNode* dependencies,
                             size_t count,
                             const CuMemcpyParams* params,
                             CuContext context) {
  if (params == nullptr || params->source_type != CuMemoryType::kHost)
    return right.GraphAddMemcpyNode(node, graph, dependencies, count, params, context);
  const auto* const first = static_cast<const std::byte*>(params->source_host);
  notes.copies.emplace_back(first, first + params->width_bytes);
  CuMemcpyParams kept = *params;
  kept.source_host = notes.copies.back().data();
  return right.GraphAddMemcpyNode(node, graph, dependencies, count, &kept, context);
}
CuResult AddFillOfBytes(CuGraphNode* node,
                        CuGraph graph,
                        const CuGraphNode* dependencies,
                        size_t count,
                        const CuMemsetNodeParams* params,
                        CuContext context) {
  if (params == nullptr || params->element_size == 3)
    return right.GraphAddMemsetNode(node, graph, dependencies, count, params, context);
  CuMemsetNodeParams bytes = *params;
  bytes.width *= bytes.element_size;
  bytes.element_size = 1;
  bytes.value &= 0xFF;
  return right.GraphAddMemsetNode(node, graph, dependencies, count, &bytes, context);
}
CuResult AddFillOfAnySize(CuGraphNode* node,
                          CuGraph graph,
                          const CuGraphNode* dependencies,
                          size_t count,
                          const CuMemsetNodeParams* params,
                          CuContext context) {
  if (params == nullptr || params->element_size != 3)
    return right.GraphAddMemsetNode(node, graph, dependencies, count, params, context);
  CuMemsetNodeParams words = *params;
  words.element_size = 4;
  return right.GraphAddMemsetNode(node, graph, dependencies, count, &words, context);
}

CuResult AddKernelWithFirstArguments(CuGraphNode* node,
                                     CuGraph graph,
                                     const CuGraphNode* dependencies,
                                     size_t count,
                                     const CuKernelNodeParams* params) {
  constexpr size_t kLeastBytes = sizeof(StoreParams);
  constexpr size_t kMostBytes = sizeof(CollectivesParams);  // Room for those of any other node.
  if (params == nullptr || params->kernel_params == nullptr)
    return right.GraphAddKernelNode(node, graph, dependencies, count, params);
  const auto [kept, is_first] = notes.first_arguments.try_emplace(graph, kMostBytes);
  if (is_first) std::memcpy(kept->second.data(), params->kernel_params[0], kLeastBytes);
  void* arguments[] = {is_first ? params->kernel_params[0] : kept->second.data()};
  CuKernelNodeParams changed = *params;
  changed.kernel_params = arguments;
  return right.GraphAddKernelNode(node, graph, dependencies, count, &changed);
}

// Queries.

CuResult NodesLeaveTheRest(CuGraph graph, CuGraphNode* nodes, size_t* count) {
  const size_t capacity = nodes == nullptr || count == nullptr ? 0 : *count;
  const Nodes before(nodes, nodes + capacity);
  const CuResult result = right.GraphGetNodes(graph, nodes, count);
  for (size_t i = result == kSuccess ? *count : capacity; i < capacity; ++i)
    nodes[i] = before[i];
  return result;
}
CuResult NodesKeepTheCount(CuGraph graph, CuGraphNode* nodes, size_t* count) {
  const size_t capacity = count == nullptr ? 0 : *count;
  const CuResult result = right.GraphGetNodes(graph, nodes, count);
  if (result == kSuccess && nodes != nullptr) *count = capacity;
  return result;
}
CuResult EdgesBackwards(
    CuGraph graph, CuGraphNode* from, CuGraphNode* to, CuGraphEdgeData* data, size_t* count) {
  return right.GraphGetEdges(graph, to, from, data, count);
}
CuResult EdgesNeedData(
    CuGraph graph, CuGraphNode* from, CuGraphNode* to, CuGraphEdgeData* data, size_t* count) {
  const CuResult result = right.GraphGetEdges(graph, from, to, data, count);
  return from != nullptr && data == nullptr ? kLossyQuery : result;
}
template <CuGraphNodeType from, CuGraphNodeType to>
CuResult TypeOfOther(CuGraphNode node, CuGraphNodeType* type) {
  const CuResult result = right.GraphNodeGetType(node, type);
  if (result == kSuccess && *type == from) *type = to;
  return result;
}

CuResult ParamsOfTheLastQuery(CuGraphNode node, CuKernelNodeParams* params) {
  constexpr size_t kLeastBytes = sizeof(StoreParams);
  const CuResult result = right.GraphKernelNodeGetParams(node, params);
  if (result != kSuccess) return result;
  static void* argument = nullptr;
  if (notes.copies.empty()) notes.copies.emplace_back(sizeof(CollectivesParams));
  argument = notes.copies[0].data();
  std::memcpy(argument, params->kernel_params[0], kLeastBytes);
  params->kernel_params = &argument;
  return result;
}

CuResult AddChildLate(CuGraphNode* node,
                      CuGraph graph,
                      const CuGraphNode* dependencies,
                      size_t count,
                      CuGraph child) {
  const CuResult result = right.GraphAddEmptyNode(node, graph, dependencies, count);
  if (result == kSuccess) notes.late_children.push_back({graph, *node, child});
  return result;
}
CuResult InstantiateWithLateChildren(CuGraphExec* exec, CuGraph graph, Flags flags) {
  for (const LateChild& late : notes.late_children) {
    CuGraphNode node = nullptr;
    if (late.parent == graph)
      right.GraphAddChildGraphNode(&node, graph, &late.place, 1, late.child);
  }
  return right.GraphInstantiateWithFlags(exec, graph, flags);
}

// Execs.

CuResult InstantiateAndNote(CuGraphExec* exec, CuGraph graph, Flags flags) {
  const CuResult result = right.GraphInstantiateWithFlags(exec, graph, flags);
  if (result == kSuccess) notes.templates[*exec] = graph;
  return result;
}
CuResult InstantiateNonEmpty(CuGraphExec* exec, CuGraph graph, Flags flags) {
  size_t count = 0;
  const CuResult result = right.GraphGetNodes(graph, nullptr, &count);
  return result == kSuccess && count == 0 ? kInvalidValue
                                          : right.GraphInstantiateWithFlags(exec, graph, flags);
}
CuResult LaunchTheGraphOfThisMoment(CuGraphExec exec, CuStream stream) {
  CuGraphExec fresh = nullptr;
  if (right.GraphInstantiateWithFlags(&fresh, notes.templates[exec], 0) != kSuccess)
    return right.GraphLaunch(exec, stream);
  const CuResult result = right.GraphLaunch(fresh, stream);
  Relaxed([&] { return right.GraphExecDestroy(fresh); });
  return result;
}
CuResult LaunchOnlyWithItsGraph(CuGraphExec exec, CuStream stream) {
  size_t count = 0;
  const CuResult result = right.GraphGetNodes(notes.templates[exec], nullptr, &count);
  return result == kSuccess ? right.GraphLaunch(exec, stream) : kInvalidHandle;
}
CuResult LaunchInNoOrder(CuGraphExec exec, CuStream stream) {
  if (StatusOf(stream) != CuCaptureStatus::kNone) return right.GraphLaunch(exec, stream);
  return Aside([&](CuStream other) { return right.GraphLaunch(exec, other); });
}
CuResult LaunchOnce(CuGraphExec exec, CuStream stream) {
  return notes.seen.insert(exec).second ? right.GraphLaunch(exec, stream) : kSuccess;
}
CuResult DestroyOnlyIdle(CuGraphExec exec) {
  return notes.seen.contains(exec) ? kNotReady : right.GraphExecDestroy(exec);
}
CuResult LaunchAndSee(CuGraphExec exec, CuStream stream) {
  notes.seen.insert(exec);
  return right.GraphLaunch(exec, stream);
}
CuResult UnmapAndNote(CuDeviceAddress address, size_t bytes) {
  const CuResult result = right.MemUnmap(address, bytes);
  if (result == kSuccess) notes.templates.clear();
  return result;
}
CuResult LaunchWithOldMappings(CuGraphExec exec, CuStream stream) {
  return notes.templates.contains(exec) ? right.GraphLaunch(exec, stream) : kInvalidValue;
}

// An exec with a twin: launches take turns, so that two of them may run at once.
CuResult InstantiateTwins(CuGraphExec* exec, CuGraph graph, Flags flags) {
  const CuResult result = right.GraphInstantiateWithFlags(exec, graph, flags);
  if (result == kSuccess) right.GraphInstantiateWithFlags(&notes.twins[*exec], graph, flags);
  return result;
}
CuResult LaunchATwin(CuGraphExec exec, CuStream stream) {
  const bool is_turn = notes.seen.erase(exec) == 0;
  if (is_turn) notes.seen.insert(exec);
  return right.GraphLaunch(is_turn ? notes.twins[exec] : exec, stream);
}
CuResult DestroyTwins(CuGraphExec exec) {
  const CuResult result = right.GraphExecDestroy(exec);
  if (result == kSuccess) right.GraphExecDestroy(notes.twins[exec]);
  return result;
}

// Host nodes.

template <CuHostFunction call>
CuResult AddHostThrough(CuGraphNode* node,
                        CuGraph graph,
                        const CuGraphNode* dependencies,
                        size_t count,
                        const CuHostNodeParams* params) {
  if (params == nullptr) return right.GraphAddHostNode(node, graph, dependencies, count, params);
  notes.host_calls.push_back({.function = params->function, .data = params->user_data});
  const CuHostNodeParams changed{.function = call, .user_data = &notes.host_calls.back()};
  return right.GraphAddHostNode(node, graph, dependencies, count, &changed);
}
void CallOnce(void* data) {
  auto& call = *static_cast<HostCall*>(data);
  if (!std::exchange(call.ran, true)) call.function(call.data);
}

template <auto entry, auto function>
void ChangeKnowingGraphs(T& cu) {
  cu.GraphInstantiateWithFlags = InstantiateAndNote;
  cu.*entry = function;
}

}  // namespace

std::vector<Mutant> StructureMutants() {
  return {
      {"graph_with_flags", "A graph takes no flags.", Pass<&T::GraphCreate, 1, kNone>},
      {"dependency_twice", "A node depends on another once.",
       Change<&T::GraphAddEmptyNode, AddAfterEachOnce>},
      {"dependency_of_other_graph", "A node depends on nodes of its own graph.",
       Change<&T::GraphAddEmptyNode, AddAfterOwnOnly>},
      {"dependencies_null", "A count of dependencies needs dependencies.",
       Change<&T::GraphAddEmptyNode, AddAfterNull>},
      {"dependencies_after_the_first", "A node depends on all its dependencies.",
       Pass<&T::GraphAddEmptyNode, 3, [](size_t count) { return std::min<size_t>(count, 1); }>},
      {"copies_are_roots", "A copy node runs after its dependencies.",
       Pass<&T::GraphAddMemcpyNode, 3, kNone>},
      {"copy_node_reads_at_once", "A copy node reads the host when it runs.",
       Change<&T::GraphAddMemcpyNode, AddCopyOfThisMoment>},
      {"fill_node_by_bytes", "A fill node writes elements of its size.",
       Change<&T::GraphAddMemsetNode, AddFillOfBytes>},
      {"fill_node_of_any_size", "A fill node's elements have 1, 2 or 4 bytes.",
       Change<&T::GraphAddMemsetNode, AddFillOfAnySize>},
      {"kernel_node_arguments_shared", "Every kernel node has arguments of its own.",
       Change<&T::GraphAddKernelNode, AddKernelWithFirstArguments>},
      {"kernel_params_of_the_last_query",
       "A kernel node's parameters are its own as long as it is.",
       Change<&T::GraphKernelNodeGetParams, ParamsOfTheLastQuery>},
      {"kernel_params_of_a_row", "A kernel node tells its whole grid.",
       Then<&T::GraphKernelNodeGetParams,
            [](auto, CuKernelNodeParams* params) { params->grid_y = params->grid_z = 1; }>},
      {"kernel_params_without_function", "A kernel node tells what it launches.",
       Then<&T::GraphKernelNodeGetParams,
            [](auto, CuKernelNodeParams* params) { params->function = nullptr; }>},
      {"kernel_params_of_any_node", "Only kernel nodes have kernel parameters.",
       Misreport<&T::GraphKernelNodeGetParams, kInvalidValue>},
      {"nodes_backwards", "Nodes are listed in the order of their creation.",
       Then<&T::GraphGetNodes,
            [](auto, CuGraphNode* nodes, size_t* count) {
              if (nodes != nullptr) std::reverse(nodes, nodes + *count);
            }>},
      {"nodes_count_all", "A short list of nodes has the count of its own entries.",
       Then<&T::GraphGetNodes, [](CuGraph graph, auto,
                                  size_t* count) { right.GraphGetNodes(graph, nullptr, count); }>},
      {"nodes_keep_the_count", "A long list of nodes has the count of the nodes.",
       Change<&T::GraphGetNodes, NodesKeepTheCount>},
      {"nodes_leave_the_rest", "A long list of nodes is filled up with nulls.",
       Change<&T::GraphGetNodes, NodesLeaveTheRest>},
      {"edges_backwards", "An edge goes from a dependency to its dependent.",
       Change<&T::GraphGetEdges, EdgesBackwards>},
      {"edges_need_data", "Edges without data may be listed without data.",
       Change<&T::GraphGetEdges, EdgesNeedData>},
      {"edges_leave_data", "The data of a plain edge is zero.", Pass<&T::GraphGetEdges, 3, kNone>},
      {"edges_after_the_second", "Every edge is listed.",
       Then<&T::GraphGetEdges,
            [](auto, auto, auto, auto, size_t* count) { *count = std::min(*count, size_t{2}); }>},
      {"host_node_is_a_kernel", "A host node has a type of its own.",
       Change<&T::GraphNodeGetType, TypeOfOther<CuGraphNodeType::kHost, CuGraphNodeType::kKernel>>},
      {"fill_is_a_copy", "A captured fill is a fill node.",
       Change<&T::GraphNodeGetType,
              TypeOfOther<CuGraphNodeType::kMemset, CuGraphNodeType::kMemcpy>>},
      {"child_is_empty", "A child graph is a node of its own type.",
       Change<&T::GraphNodeGetType, TypeOfOther<CuGraphNodeType::kGraph, CuGraphNodeType::kEmpty>>},
      {"child_by_reference", "A child graph is copied when it is added.",
       [](T& cu) {
         cu.GraphAddChildGraphNode = AddChildLate;
         cu.GraphInstantiateWithFlags = InstantiateWithLateChildren;
       }},
      {"child_is_taken", "A graph that became a child stays its owner's.",
       Then<&T::GraphAddChildGraphNode,
            [](auto, auto, auto, auto, CuGraph child) { right.GraphDestroy(child); }>},
      {"children_are_roots", "A child runs after its dependencies.",
       Pass<&T::GraphAddChildGraphNode, 3, kNone>},
  };
}

std::vector<Mutant> ExecMutants() {
  return {
      {"instantiate_with_flags", "Unknown flags of an instantiation are refused.",
       Pass<&T::GraphInstantiateWithFlags, 2, kNone>},
      {"instantiate_non_empty", "A graph without nodes can be instantiated.",
       Change<&T::GraphInstantiateWithFlags, InstantiateNonEmpty>},
      {"exec_follows_its_graph", "An exec is a snapshot of its graph.",
       ChangeKnowingGraphs<&T::GraphLaunch, LaunchTheGraphOfThisMoment>},
      {"exec_dies_with_its_graph", "An exec outlives its graph.",
       ChangeKnowingGraphs<&T::GraphLaunch, LaunchOnlyWithItsGraph>},
      {"exec_keeps_old_mappings", "An exec runs on the memory that is mapped when it runs.",
       [](T& cu) {
         ChangeKnowingGraphs<&T::GraphLaunch, LaunchWithOldMappings>(cu);
         cu.MemUnmap = UnmapAndNote;
       }},
      {"launch_without_order", "A launch follows the stream's earlier work.",
       Change<&T::GraphLaunch, LaunchInNoOrder>},
      {"launch_once", "An exec can be launched again.", Change<&T::GraphLaunch, LaunchOnce>},
      {"launches_overlap", "Two launches of one exec never run at once.",
       [](T& cu) {
         cu.GraphInstantiateWithFlags = InstantiateTwins;
         cu.GraphLaunch = LaunchATwin;
         cu.GraphExecDestroy = DestroyTwins;
       }},
      {"upload_launches", "Uploading an exec runs nothing.",
       [](T& cu) { cu.GraphUpload = cu.GraphLaunch; }},
      {"busy_exec_is_kept", "An exec may be destroyed while it is queued.",
       [](T& cu) {
         ForgetAtWaits(cu);
         cu.GraphLaunch = LaunchAndSee;
         cu.GraphExecDestroy = DestroyOnlyIdle;
       }},
      {"host_node_once", "A host node runs once per launch.",
       Change<&T::GraphAddHostNode, AddHostThrough<CallOnce>>},
      {"host_node_calls_driver", "A host node cannot call the driver: 800.",
       Change<&T::GraphAddHostNode, AddHostThrough<CallOnAnyThread>>},
  };
}

}  // namespace coppice::mutation
