// The driver entries for executable graphs: making, launching and changing them. Launches that are
// queued keep the snapshot that they were submitted with.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"

#include "runtime/emulator/arguments.h"
#include "runtime/emulator/capture.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/graph.h"
#include "runtime/emulator/snapshot.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {
namespace {

// The exec and the stream of a launch or an upload.
struct LaunchTarget {
  ExecState* exec = nullptr;
  StreamState* stream = nullptr;
};

CuResult FindLaunchTarget(State& state, CuGraphExec exec, CuStream stream, LaunchTarget* target) {
  target->exec = state.execs.Find(exec);
  if (target->exec == nullptr) return CuResult::kInvalidHandle;
  if (const CuResult result = UseStream(state, stream, &target->stream);
      result != CuResult::kSuccess)
    return result;
  if (target->exec->device != target->stream->device) return CuResult::kInvalidHandle;
  for (const CuLibrary library : target->exec->snapshot->libraries)
    if (state.libraries.Find(library) == nullptr) return CuResult::kInvalidHandle;
  return RefuseCapturing(state, *target->stream);
}

// Whether the libraries of all kernels are.
bool AreLoaded(const State& state, std::span<const GraphNode> nodes) {
  return std::ranges::all_of(nodes, [&state](const GraphNode& node) {
    if (const auto* const child = std::get_if<ChildWork>(&node.work))
      return AreLoaded(state, child->nodes);
    const auto* const kernel = std::get_if<KernelWork>(&node.work);
    return kernel == nullptr || state.libraries.Find(kernel->library) != nullptr;
  });
}

// Why one node of an exec cannot become another. What hangs on attributes cannot change.
CuGraphExecUpdateResult CompareNodes(const Snapshot::Node& present, const Snapshot::Node& next) {
  if (present.task.work.index() != next.task.work.index())
    return CuGraphExecUpdateResult::kNodeTypeChanged;
  if (present.successors != next.successors) return CuGraphExecUpdateResult::kTopologyChanged;
  const auto* const before = std::get_if<KernelWork>(&present.task.work);
  if (before == nullptr) return CuGraphExecUpdateResult::kSuccess;
  const LaunchAttributes& after = std::get<KernelWork>(next.task.work).attributes;
  if (before->attributes.programmatic != after.programmatic)
    return CuGraphExecUpdateResult::kTopologyChanged;
  if (before->attributes.cooperative != after.cooperative ||
      before->attributes.cluster != after.cluster)
    return CuGraphExecUpdateResult::kAttributesChanged;
  return CuGraphExecUpdateResult::kSuccess;
}

// Why an exec cannot become `next`, whose nodes lie at `places`; kSuccess if it can.
CuGraphExecUpdateResult Compare(const Snapshot& present,
                                const Snapshot& next,
                                const absl::flat_hash_map<CuGraphNode, int>& places,
                                CuGraphNode* error_node) {
  if (present.nodes.size() != next.nodes.size()) return CuGraphExecUpdateResult::kTopologyChanged;
  const auto node_at = [&](size_t index) {
    for (const auto& [handle, place] : places)
      if (place == static_cast<int>(index)) return handle;
    return CuGraphNode();
  };
  for (size_t i = 0; i < next.nodes.size(); ++i) {
    const CuGraphExecUpdateResult result = CompareNodes(present.nodes[i], next.nodes[i]);
    if (result == CuGraphExecUpdateResult::kSuccess) continue;
    *error_node = node_at(i);
    return result;
  }
  return CuGraphExecUpdateResult::kSuccess;
}

}  // namespace

CuResult GraphInstantiateWithFlags(CuGraphExec* exec,
                                   CuGraph graph,
                                   unsigned long long flags) {  // NOLINT(google-runtime-int)
  State& state = TheState();
  const GraphState* const found = state.graphs.Find(graph);
  if (found == nullptr) return CuResult::kInvalidHandle;
  constexpr unsigned kAutoFree = 1;      // There are no nodes with memory to free,
  constexpr unsigned kNodePriority = 8;  // and nothing runs sooner for its priority.
  constexpr unsigned kDeviceLaunch = 4;
  if (flags == kDeviceLaunch) return CuResult::kNotSupported;
  if (exec == nullptr || (flags & ~(kAutoFree | kNodePriority)) != 0 || found->capture != nullptr)
    return CuResult::kInvalidValue;
  if (!AreLoaded(state, found->nodes)) return CuResult::kInvalidHandle;
  auto instantiated = std::make_unique<ExecState>();
  instantiated->device = state.Device();
  instantiated->flags = flags;
  instantiated->snapshot = TakeSnapshot(found->nodes, found->node_handles, &instantiated->places);
  *exec = state.execs.Insert(std::move(instantiated));
  return CuResult::kSuccess;
}

CuResult GraphUpload(CuGraphExec exec, CuStream stream) {
  State& state = TheState();
  LaunchTarget target;
  const CuResult result = FindLaunchTarget(state, exec, stream, &target);
  if (result != CuResult::kSuccess) return result;
  state.scheduler.Push(*target.stream, target.exec->last_launch, Task(EmptyWork{}));
  target.exec->upload = target.stream->end();
  return state.scheduler.RunQueued();
}

CuResult GraphLaunch(CuGraphExec exec, CuStream stream) {
  State& state = TheState();
  LaunchTarget target;
  const CuResult result = FindLaunchTarget(state, exec, stream, &target);
  if (result != CuResult::kSuccess) return result;
  ExecState& launched = *target.exec;
  Snapshot* const snapshot = launched.snapshot.get();
  ++snapshot->queued_launches;
  state.scheduler.Push(*target.stream, std::exchange(launched.last_launch, {}),
                       GraphRun{.snapshot = snapshot});
  launched.last_launch = target.stream->end();
  state.scheduler.CheckBehind(*target.stream, launched.upload);
  return state.scheduler.RunQueued();
}

CuResult GraphExecDestroy(CuGraphExec exec) {
  State& state = TheState();
  const std::unique_ptr<ExecState> destroyed = state.execs.Take(exec);
  if (destroyed == nullptr) return CuResult::kInvalidHandle;
  state.scheduler.Retire(std::move(destroyed->snapshot));
  return CuResult::kSuccess;
}

CuResult GraphExecKernelNodeSetParams(CuGraphExec exec,
                                      CuGraphNode node,
                                      const CuKernelNodeParams* params) {
  State& state = TheState();
  ExecState* const found = state.execs.Find(exec);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const auto place = found->places.find(node);
  if (params == nullptr || place == found->places.end()) return CuResult::kInvalidValue;
  const int index = place->second;
  const auto* const present = std::get_if<KernelWork>(&found->snapshot->nodes[index].task.work);
  if (present == nullptr) return CuResult::kInvalidValue;
  Work work;
  const CuResult result = MakeKernelWork(state, *params, present->attributes, &work);
  if (result != CuResult::kSuccess) return result;
  ChangeWork(state, *found, index, std::move(work));
  return CuResult::kSuccess;
}

void ChangeWork(State& state, ExecState& exec, int index, Work work) {
  if (exec.snapshot->queued_launches > 0) {
    auto copy = std::make_unique<Snapshot>(*exec.snapshot);
    copy->queued_launches = 0;
    state.scheduler.Retire(std::exchange(exec.snapshot, std::move(copy)));
  }
  Snapshot& changed = *exec.snapshot;
  if (const auto* const kernel = std::get_if<KernelWork>(&work))
    changed.AddLibrary(kernel->library);
  changed.nodes[index].task = Task(std::move(work));
  changed.is_declared &= changed.nodes[index].task.is_declared();
  changed.checked_generation = 0;
}

CuResult GraphExecUpdate(CuGraphExec exec, CuGraph graph, CuGraphExecUpdateResultInfo* info) {
  State& state = TheState();
  ExecState* const found = state.execs.Find(exec);
  const GraphState* const source = state.graphs.Find(graph);
  if (found == nullptr || source == nullptr) return CuResult::kInvalidHandle;
  if (info == nullptr || source->capture != nullptr) return CuResult::kInvalidValue;
  if (!AreLoaded(state, source->nodes)) return CuResult::kInvalidHandle;
  absl::flat_hash_map<CuGraphNode, int> places;
  std::unique_ptr<Snapshot> next = TakeSnapshot(source->nodes, source->node_handles, &places);
  *info = {};
  info->result = Compare(*found->snapshot, *next, places, &info->error_node);
  if (info->result != CuGraphExecUpdateResult::kSuccess) return CuResult::kGraphExecUpdateFailure;
  state.scheduler.Retire(std::exchange(found->snapshot, std::move(next)));
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
