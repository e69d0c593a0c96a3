// Wrong drivers: changes of an exec, node by node and as a whole.

#include <algorithm>
#include <utility>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;
using Nodes = std::vector<CuGraphNode>;

// Node by node.

CuResult SetInOneBlock(CuGraphExec exec, CuGraphNode node, const CuKernelNodeParams* params) {
  if (params == nullptr) return right.GraphExecKernelNodeSetParams(exec, node, params);
  CuKernelNodeParams changed = *params;
  changed.grid_x = changed.grid_y = changed.grid_z = 1;
  return right.GraphExecKernelNodeSetParams(exec, node, &changed);
}
CuResult SetOfTheOldFunction(CuGraphExec exec, CuGraphNode node, const CuKernelNodeParams* params) {
  CuKernelNodeParams old;
  if (params == nullptr || right.GraphKernelNodeGetParams(node, &old) != kSuccess)
    return right.GraphExecKernelNodeSetParams(exec, node, params);
  CuKernelNodeParams changed = *params;
  changed.function = old.function;
  changed.kernel = old.kernel;
  return right.GraphExecKernelNodeSetParams(exec, node, &changed);
}
CuResult SetThoughRefused(CuGraphExec exec, CuGraphNode node, const CuKernelNodeParams* params) {
  if (params == nullptr || params->extra == nullptr)
    return right.GraphExecKernelNodeSetParams(exec, node, params);
  CuKernelNodeParams changed = *params;
  changed.extra = nullptr;
  right.GraphExecKernelNodeSetParams(exec, node, &changed);
  return kInvalidValue;
}

CuResult InstantiateAndNoteGraph(CuGraphExec* exec,
                                 CuGraph graph,
                                 unsigned long long flags) {  // NOLINT(google-runtime-int)
  const CuResult result = right.GraphInstantiateWithFlags(exec, graph, flags);
  if (result == kSuccess) notes.templates[*exec] = graph;
  return result;
}
CuResult SetInEveryExec(CuGraphExec exec, CuGraphNode node, const CuKernelNodeParams* params) {
  const CuResult result = right.GraphExecKernelNodeSetParams(exec, node, params);
  for (const auto& [other, graph] : notes.templates)
    if (result == kSuccess && graph == notes.templates[exec])
      right.GraphExecKernelNodeSetParams(other, node, params);
  return result;
}
// A node of another graph stands for the exec's first one.
CuResult SetOfAnyGraph(CuGraphExec exec, CuGraphNode node, const CuKernelNodeParams* params) {
  const CuResult result = right.GraphExecKernelNodeSetParams(exec, node, params);
  if (result != kInvalidValue || !notes.templates.contains(exec)) return result;
  size_t count = 0;
  right.GraphGetNodes(notes.templates[exec], nullptr, &count);
  Nodes own(count);
  right.GraphGetNodes(notes.templates[exec], own.data(), &count);
  if (own.empty() || std::find(own.begin(), own.end(), node) != own.end()) return result;
  return right.GraphExecKernelNodeSetParams(exec, own[0], params);
}

// A launch that takes what its exec holds when anything else is asked for.
void RunWaiting() {
  for (const auto& [exec, stream] : std::exchange(notes.waiting, {}))
    right.GraphLaunch(exec, stream);
}
CuResult LaunchLater(CuGraphExec exec, CuStream stream) {
  RunWaiting();
  if (StatusOf(stream) != CuCaptureStatus::kNone) return right.GraphLaunch(exec, stream);
  notes.waiting.emplace_back(exec, stream);
  return kSuccess;
}
template <auto... entries>
void LaunchLaterThan(T& cu) {
  (Before<entries, RunWaiting>(cu), ...);
  cu.GraphLaunch = LaunchLater;
}

// As a whole.

CuResult UpdateNothing(CuGraphExec exec, CuGraph graph, CuGraphExecUpdateResultInfo* info) {
  if (exec == nullptr || graph == nullptr || info == nullptr)
    return right.GraphExecUpdate(exec, graph, info);
  *info = {};
  return kSuccess;
}
CuResult UpdateWithoutReason(CuGraphExec exec, CuGraph graph, CuGraphExecUpdateResultInfo* info) {
  const CuResult result = right.GraphExecUpdate(exec, graph, info);
  if (result == kGraphExecUpdateFailure) *info = {};
  return result;
}
CuResult UpdateAndTake(CuGraphExec exec, CuGraph graph, CuGraphExecUpdateResultInfo* info) {
  const CuResult result = right.GraphExecUpdate(exec, graph, info);
  if (result == kSuccess) right.GraphDestroy(graph);
  return result;
}

template <auto set>
void SetKnowingGraphs(T& cu) {
  cu.GraphInstantiateWithFlags = InstantiateAndNoteGraph;
  cu.GraphExecKernelNodeSetParams = set;
}

}  // namespace

std::vector<Mutant> UpdateMutants() {
  return {
      {"node_update_is_lost", "New parameters of a node count from the next launch on.",
       Then<&T::GraphExecKernelNodeSetParams,
            [](CuGraphExec exec, CuGraphNode node, auto) {
              CuKernelNodeParams old;
              right.GraphKernelNodeGetParams(node, &old);
              right.GraphExecKernelNodeSetParams(exec, node, &old);
            }>},
      {"node_update_reaches_launches", "Launches in flight keep a node's old parameters.",
       LaunchLaterThan<&T::LaunchKernel, &T::EventRecord, &T::StreamWaitEvent,
                       &T::StreamSynchronize, &T::EventSynchronize, &T::CtxSynchronize,
                       &T::StreamQuery, &T::MemcpyDtoHAsync, &T::MemcpyHtoDAsync, &T::MemsetD8Async,
                       &T::StreamDestroy, &T::GraphExecDestroy>},
      {"node_update_of_one_block", "A node's grid may change.",
       Change<&T::GraphExecKernelNodeSetParams, SetInOneBlock>},
      {"node_update_of_the_old_function", "A node's function may change.",
       Change<&T::GraphExecKernelNodeSetParams, SetOfTheOldFunction>},
      {"node_update_of_every_exec", "New parameters are those of one exec.",
       SetKnowingGraphs<SetInEveryExec>},
      {"node_update_of_any_type", "Only kernel nodes take parameters of a kernel.",
       Misreport<&T::GraphExecKernelNodeSetParams, kInvalidValue>},
      {"node_update_of_any_graph", "The node is one of the graph that the exec was made of.",
       SetKnowingGraphs<SetOfAnyGraph>},
      {"node_update_though_refused", "Parameters that are refused change nothing.",
       Change<&T::GraphExecKernelNodeSetParams, SetThoughRefused>},
      {"update_is_lost", "An update counts from the next launch on.",
       Change<&T::GraphExecUpdate, UpdateNothing>},
      {"update_to_any_graph", "An exec becomes no graph of other nodes or edges.",
       Misreport<&T::GraphExecUpdate, kGraphExecUpdateFailure>},
      {"update_without_reason", "An update that is refused says why.",
       Change<&T::GraphExecUpdate, UpdateWithoutReason>},
      {"update_takes_its_graph", "A graph that an exec became stays its owner's.",
       Change<&T::GraphExecUpdate, UpdateAndTake>},
  };
}

}  // namespace coppice::mutation
