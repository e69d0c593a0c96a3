// Changes to an executable snapshot: of one kernel node, and of everything at once. Launches that
// are queued keep the snapshot that they were submitted with.

#include "emulator_state.h"

namespace coppice::emulator {
namespace {

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
    const bool same_type = present.nodes[i].task.work.index() == next.nodes[i].task.work.index();
    if (same_type && present.nodes[i].successors == next.nodes[i].successors) continue;
    *error_node = node_at(i);
    return same_type ? CuGraphExecUpdateResult::kTopologyChanged
                     : CuGraphExecUpdateResult::kNodeTypeChanged;
  }
  return CuGraphExecUpdateResult::kSuccess;
}

}  // namespace

CuResult GraphExecKernelNodeSetParams(CuGraphExec exec,
                                      CuGraphNode node,
                                      const CuKernelNodeParams* params) {
  State& state = TheState();
  ExecState* const found = state.execs.Find(exec);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const auto place = found->places.find(node);
  if (params == nullptr || place == found->places.end()) return CuResult::kInvalidValue;
  const int index = place->second;
  if (!std::holds_alternative<KernelWork>(found->snapshot->nodes[index].task.work))
    return CuResult::kInvalidValue;
  Work work;
  const CuResult result = MakeKernelWork(state, *params, &work);
  if (result != CuResult::kSuccess) return result;
  if (found->snapshot->queued_launches > 0) {
    auto copy = std::make_unique<Snapshot>(*found->snapshot);
    copy->queued_launches = 0;
    state.scheduler.Retire(std::exchange(found->snapshot, std::move(copy)));
  }
  Snapshot& changed = *found->snapshot;
  changed.AddLibrary(std::get<KernelWork>(work).library);
  changed.nodes[index].task = Task(std::move(work));
  changed.checked_generation = 0;
  return CuResult::kSuccess;
}

CuResult GraphExecUpdate(CuGraphExec exec, CuGraph graph, CuGraphExecUpdateResultInfo* info) {
  State& state = TheState();
  ExecState* const found = state.execs.Find(exec);
  const GraphState* const source = state.graphs.Find(graph);
  if (found == nullptr || source == nullptr) return CuResult::kInvalidHandle;
  if (info == nullptr || source->capture != nullptr) return CuResult::kInvalidValue;
  absl::flat_hash_map<CuGraphNode, int> places;
  std::unique_ptr<Snapshot> next = TakeSnapshot(*source, &places);
  *info = {};
  info->result = Compare(*found->snapshot, *next, places, &info->error_node);
  if (info->result != CuGraphExecUpdateResult::kSuccess) return CuResult::kGraphExecUpdateFailure;
  state.scheduler.Retire(std::exchange(found->snapshot, std::move(next)));
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
