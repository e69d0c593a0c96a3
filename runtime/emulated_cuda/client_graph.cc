// Graphs and their nodes, as other clients ask for them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/emulated_cuda/client_entries.h"
#include "runtime/emulator/arguments.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/graph.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/work.h"

namespace coppice::emulated_cuda {

using emulator::CopyWork;
using emulator::ExecState;
using emulator::FillWork;
using emulator::GraphState;
using emulator::HostWork;
using emulator::KernelWork;
using emulator::LaunchAttributes;
using emulator::NodeState;
using emulator::State;
using emulator::TheState;
using emulator::Work;

namespace {

// A null target asks for the count; a longer one is filled up with nulls.
CuResult TellNodes(const std::vector<CuGraphNode>& nodes, CuGraphNode* target, size_t* count) {
  if (count == nullptr) return CuResult::kInvalidValue;
  const size_t capacity = *count;
  *count = target == nullptr ? nodes.size() : std::min(nodes.size(), capacity);
  for (size_t i = 0; target != nullptr && i < capacity; ++i)
    target[i] = i < nodes.size() ? nodes[i] : nullptr;
  return CuResult::kSuccess;
}

// The same of edges. Those that let a kernel start early say so, or the query loses it.
CuResult TellEdges(const std::vector<CuGraphNode>& nodes,
                   const std::vector<bool>& programmatic,
                   CuGraphNode* target,
                   CuGraphEdgeData* edge_data,
                   size_t* count) {
  if (count == nullptr || (target == nullptr && edge_data != nullptr))
    return CuResult::kInvalidValue;
  for (size_t i = 0; target != nullptr && i < std::min(*count, nodes.size()); ++i) {
    if (edge_data == nullptr && programmatic[i]) return CuResult::kLossyQuery;
    if (edge_data == nullptr) continue;
    edge_data[i] = programmatic[i]
                       ? CuGraphEdgeData{.from_port = kProgrammaticPort, .type = kProgrammaticEdge}
                       : CuGraphEdgeData();
  }
  return TellNodes(nodes, target, count);
}

bool AreZero(const NodeParams& params) {
  return std::ranges::all_of(params.reserved, [](int word) { return word == 0; }) &&
         params.reserved_end == 0;
}

// The work that a node of this type is asked to do.
CuResult MakeWork(const NodeParams& params, const LaunchAttributes& attributes, Work* work) {
  State& state = TheState();
  switch (params.type) {
    case CuGraphNodeType::kKernel:
      return emulator::MakeKernelWork(state, params.kernel, attributes, work);
    case CuGraphNodeType::kMemcpy:
      return emulator::MakeCopyWork(state, params.memcpy.copy, work);
    case CuGraphNodeType::kMemset:
      return emulator::MakeFillWork(state, params.memset.fill, work);
    case CuGraphNodeType::kHost:
      return emulator::MakeHostWork(params.host, work);
    default:
      return CuResult::kNotSupported;
  }
}

// The work that `present` becomes, which has to be of its own kind.
CuResult ChangedWork(const Work& present, const NodeParams& params, Work* work) {
  const auto* const kernel = std::get_if<KernelWork>(&present);
  const CuResult result =
      MakeWork(params, kernel == nullptr ? LaunchAttributes() : kernel->attributes, work);
  if (result != CuResult::kSuccess) return result;
  return work->index() == present.index() ? CuResult::kSuccess : CuResult::kInvalidValue;
}

// The work of a node, if it is a `Kind`, else null.
template <typename Kind>
const Kind* FindWork(CuGraphNode node) {
  const NodeState* const found = TheState().nodes.Find(node);
  return found == nullptr ? nullptr : std::get_if<Kind>(&found->graph->nodes[found->index].work);
}

CuDeviceAddress AddressOf(const void* memory) {
  return reinterpret_cast<CuDeviceAddress>(memory);
}

}  // namespace

CuResult GraphGetRootNodes(CuGraph graph, CuGraphNode* nodes, size_t* count) {
  const GraphState* const found = TheState().graphs.Find(graph);
  if (found == nullptr) return CuResult::kInvalidHandle;
  std::vector<CuGraphNode> roots;
  for (size_t i = 0; i < found->nodes.size(); ++i)
    if (found->nodes[i].dependencies.empty()) roots.push_back(found->node_handles[i]);
  return TellNodes(roots, nodes, count);
}

CuResult GraphNodeGetDependencies(CuGraphNode node,
                                  CuGraphNode* dependencies,
                                  CuGraphEdgeData* edge_data,
                                  size_t* count) {
  const NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const GraphState& graph = *found->graph;
  std::vector<CuGraphNode> nodes;
  std::vector<bool> programmatic;
  for (const int dependency : graph.nodes[found->index].dependencies) {
    nodes.push_back(graph.node_handles[dependency]);
    programmatic.push_back(
        emulator::IsProgrammatic(graph.nodes[dependency].work, graph.nodes[found->index].work));
  }
  return TellEdges(nodes, programmatic, dependencies, edge_data, count);
}

CuResult GraphNodeGetDependentNodes(CuGraphNode node,
                                    CuGraphNode* dependents,
                                    CuGraphEdgeData* edge_data,
                                    size_t* count) {
  const NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const GraphState& graph = *found->graph;
  std::vector<CuGraphNode> nodes;
  std::vector<bool> programmatic;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<int>& dependencies = graph.nodes[i].dependencies;
    if (std::ranges::find(dependencies, found->index) == dependencies.end()) continue;
    nodes.push_back(graph.node_handles[i]);
    programmatic.push_back(
        emulator::IsProgrammatic(graph.nodes[found->index].work, graph.nodes[i].work));
  }
  return TellEdges(nodes, programmatic, dependents, edge_data, count);
}

CuResult GraphInstantiateWithParams(CuGraphExec* exec, CuGraph graph, InstantiateParams* params) {
  constexpr uint64_t kUpload = 2;
  constexpr int kError = 1;
  if (params == nullptr) return CuResult::kInvalidValue;
  params->error_node = nullptr;
  params->result = kError;
  CuResult result = emulator::GraphInstantiateWithFlags(exec, graph, params->flags & ~kUpload);
  if (result != CuResult::kSuccess) return result;
  TheState().execs.Find(*exec)->flags = params->flags;
  if ((params->flags & kUpload) != 0) result = emulator::GraphUpload(*exec, params->upload);
  if (result == CuResult::kSuccess)
    params->result = 0;
  else
    emulator::GraphExecDestroy(*exec);
  return result;
}

CuResult GraphExecGetFlags(CuGraphExec exec, uint64_t* flags) {
  const ExecState* const found = TheState().execs.Find(exec);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (flags == nullptr) return CuResult::kInvalidValue;
  *flags = found->flags;
  return CuResult::kSuccess;
}

CuResult GraphAddNode(CuGraphNode* node,
                      CuGraph graph,
                      const CuGraphNode* dependencies,
                      const CuGraphEdgeData* edge_data,
                      size_t count,
                      NodeParams* params) {
  if (params == nullptr || !AreZero(*params)) return CuResult::kInvalidValue;
  if (edge_data != nullptr) return CuResult::kNotSupported;
  const CuContext current = TheState().Context();
  const auto context_of = [&](CuContext given) { return given == nullptr ? current : given; };
  switch (params->type) {
    case CuGraphNodeType::kKernel:
      return emulator::GraphAddKernelNode(node, graph, dependencies, count, &params->kernel);
    case CuGraphNodeType::kMemcpy:
      return emulator::GraphAddMemcpyNode(node, graph, dependencies, count, &params->memcpy.copy,
                                          context_of(params->memcpy.context));
    case CuGraphNodeType::kMemset:
      return emulator::GraphAddMemsetNode(node, graph, dependencies, count, &params->memset.fill,
                                          context_of(params->memset.context));
    case CuGraphNodeType::kHost:
      return emulator::GraphAddHostNode(node, graph, dependencies, count, &params->host);
    case CuGraphNodeType::kGraph:
      if (params->child.ownership != 0) return CuResult::kNotSupported;
      return emulator::GraphAddChildGraphNode(node, graph, dependencies, count,
                                              params->child.graph);
    case CuGraphNodeType::kEmpty:
      return emulator::GraphAddEmptyNode(node, graph, dependencies, count);
    default:
      return CuResult::kNotSupported;
  }
}

CuResult GraphNodeSetParams(CuGraphNode node, NodeParams* params) {
  const NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (params == nullptr || !AreZero(*params)) return CuResult::kInvalidValue;
  Work& present = found->graph->nodes[found->index].work;
  Work work;
  const CuResult result = ChangedWork(present, *params, &work);
  if (result == CuResult::kSuccess) present = std::move(work);
  return result;
}

CuResult GraphExecNodeSetParams(CuGraphExec exec, CuGraphNode node, NodeParams* params) {
  State& state = TheState();
  ExecState* const found = state.execs.Find(exec);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const auto place = found->places.find(node);
  if (params == nullptr || !AreZero(*params) || place == found->places.end())
    return CuResult::kInvalidValue;
  Work work;
  const CuResult result =
      ChangedWork(found->snapshot->nodes[place->second].task.work, *params, &work);
  if (result == CuResult::kSuccess)
    emulator::ChangeWork(state, *found, place->second, std::move(work));
  return result;
}

CuResult GraphMemcpyNodeGetParams(CuGraphNode node, CuMemcpyParams* params) {
  const auto* const copy = FindWork<CopyWork>(node);
  if (params == nullptr || copy == nullptr) return CuResult::kInvalidValue;
  CuMemcpyParams told = {.width_bytes = copy->bytes};
  if (copy->from_host) {
    told.source_type = CuMemoryType::kHost;
    told.source_host = copy->source;
  } else {
    told.source_device = AddressOf(copy->source);
  }
  if (copy->to_host) {
    told.target_type = CuMemoryType::kHost;
    told.target_host = copy->target;
  } else {
    told.target_device = AddressOf(copy->target);
  }
  *params = told;
  return CuResult::kSuccess;
}

CuResult GraphMemsetNodeGetParams(CuGraphNode node, CuMemsetNodeParams* params) {
  const auto* const fill = FindWork<FillWork>(node);
  if (params == nullptr || fill == nullptr) return CuResult::kInvalidValue;
  *params = {.target = AddressOf(fill->target),
             .value = fill->value,
             .element_size = fill->element_size,
             .width = fill->count};
  return CuResult::kSuccess;
}

CuResult GraphHostNodeGetParams(CuGraphNode node, CuHostNodeParams* params) {
  const auto* const host = FindWork<HostWork>(node);
  if (params == nullptr || host == nullptr) return CuResult::kInvalidValue;
  *params = {.function = host->function, .user_data = host->user_data};
  return CuResult::kSuccess;
}

}  // namespace coppice::emulated_cuda
