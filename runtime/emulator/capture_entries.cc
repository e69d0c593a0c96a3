// The driver entries that begin, end and look at captures.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/emulator/capture.h"
#include "runtime/emulator/client_abi.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/graph.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulator {
namespace {

bool IsPlain(const CuGraphEdgeData& edge) {
  constexpr CuGraphEdgeData kPlain;
  return std::memcmp(&edge, &kPlain, sizeof(edge)) == 0;
}

// True if every node that a stream of the capture ends with is the origin's last, or before it.
bool IsJoined(const State& state, const Capture& capture) {
  const GraphState& graph = *state.graphs.Find(capture.graph);
  std::vector<bool> reached(graph.nodes.size());
  std::vector<int> stack;
  const auto reach = [&](int index) {
    if (!reached[index]) stack.push_back(index);
    reached[index] = true;
  };
  for (const CuGraphNode node : state.scheduler.Find(capture.origin)->tail)
    reach(state.nodes.Find(node)->index);
  while (!stack.empty()) {
    const int index = stack.back();
    stack.pop_back();
    for (const int dependency : graph.nodes[index].dependencies)
      reach(dependency);
  }
  for (const auto& [handle, stream] : state.scheduler.streams()) {
    if (stream->capture != &capture) continue;
    for (const CuGraphNode node : stream->tail)
      if (!reached[state.nodes.Find(node)->index]) return false;
  }
  return true;
}

// Takes the capture from its streams and its graph, and forgets it.
void Close(State& state, Capture& capture) {
  for (const auto& [handle, stream] : state.scheduler.streams()) {
    if (stream->capture != &capture) continue;
    stream->capture = nullptr;
    SetTail(*stream, {});
  }
  if (GraphState* const graph = state.graphs.Find(capture.graph)) graph->capture = nullptr;
  std::erase_if(state.captures, [&](const auto& open) { return open.get() == &capture; });
}

}  // namespace

CuResult BeginCapture(CuStream stream,
                      CuGraph graph,
                      const CuGraphNode* dependencies,
                      size_t dependency_count,
                      CuCaptureMode mode) {
  if (reinterpret_cast<uintptr_t>(stream) <= kLegacyStream)
    return CuResult::kStreamCaptureUnsupported;
  State& state = TheState();
  StreamState* const origin = state.FindStream(stream);
  if (origin == nullptr) return CuResult::kInvalidHandle;
  if (mode < CuCaptureMode::kGlobal || mode > CuCaptureMode::kRelaxed)
    return CuResult::kInvalidValue;
  if (origin->capture != nullptr) return CuResult::kIllegalState;
  GraphState* const given = state.graphs.Find(graph);
  if (graph != nullptr) {
    if (given == nullptr) return CuResult::kInvalidHandle;
    if (given->capture != nullptr) return CuResult::kInvalidValue;
    std::vector<int> indices;
    const CuResult result =
        FindDependencies(state, *given, dependencies, dependency_count, &indices);
    if (result != CuResult::kSuccess) return result;
  }
  static uint64_t last_id = 0;  // Unique in the process; guarded by the emulator's mutex.
  auto capture = std::make_unique<Capture>();
  *capture = {.id = ++last_id,
              .mode = mode,
              .origin = origin->handle,
              .origin_thread = ThisThread().id,
              .graph = given == nullptr ? NewGraph(state, capture.get()) : graph,
              .invalidated = false};
  if (given != nullptr) {
    given->capture = capture.get();
    capture->given_graph = true;
    SetTail(*origin, {dependencies, dependencies + dependency_count});
  }
  origin->capture = capture.get();
  state.captures.push_back(std::move(capture));
  return CuResult::kSuccess;
}

CuResult StreamBeginCapture(CuStream stream, CuCaptureMode mode) {
  return BeginCapture(stream, nullptr, nullptr, 0, mode);
}

CuResult StreamEndCapture(CuStream stream, CuGraph* graph) {
  State& state = TheState();
  const StreamState* const origin = state.FindStream(stream);
  if (origin == nullptr) return CuResult::kInvalidHandle;
  if (graph == nullptr) return CuResult::kInvalidValue;
  Capture* const capture = origin->capture;
  if (capture == nullptr) return CuResult::kIllegalState;
  if (capture->mode != CuCaptureMode::kRelaxed && capture->origin_thread != ThisThread().id)
    return CuResult::kStreamCaptureWrongThread;
  if (capture->origin != origin->handle) return CuResult::kStreamCaptureUnmatched;
  CuResult result = state.processor.sticky();
  if (result == CuResult::kSuccess && capture->invalidated)
    result = CuResult::kStreamCaptureInvalidated;
  if (result == CuResult::kSuccess && !IsJoined(state, *capture))
    result = CuResult::kStreamCaptureUnjoined;
  if (result != CuResult::kSuccess) Invalidate(state, *capture);
  *graph = capture->graph;
  Close(state, *capture);
  return result;
}

CuResult StreamIsCapturing(CuStream stream, CuCaptureStatus* status) {
  return StreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CuResult StreamGetCaptureInfo(CuStream stream,  // NOLINT(readability-function-size)
                              CuCaptureStatus* status,
                              uint64_t* id,
                              CuGraph* graph,
                              const CuGraphNode** dependencies,
                              const CuGraphEdgeData** edge_data,
                              size_t* dependency_count) {
  State& state = TheState();
  const StreamState* const found = state.FindStream(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (status == nullptr) return CuResult::kInvalidValue;
  if (const CuResult result = RefuseImplicit(state, *found, false); result != CuResult::kSuccess)
    return result;
  *status = CuCaptureStatus::kNone;
  if (found->capture == nullptr) return CuResult::kSuccess;
  *status = found->capture->invalidated ? CuCaptureStatus::kInvalidated : CuCaptureStatus::kActive;
  if (found->capture->invalidated) return CuResult::kSuccess;
  if (id != nullptr) *id = found->capture->id;
  if (graph != nullptr) *graph = found->capture->graph;
  if (dependencies != nullptr) *dependencies = found->tail.data();
  if (edge_data != nullptr) *edge_data = found->tail_data.data();
  if (dependency_count != nullptr) *dependency_count = found->tail.size();
  return CuResult::kSuccess;
}

CuResult StreamUpdateCaptureDependencies(CuStream stream,
                                         CuGraphNode* dependencies,
                                         const CuGraphEdgeData* edge_data,
                                         size_t dependency_count,
                                         unsigned flags) {
  State& state = TheState();
  StreamState* const found = state.FindStream(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (found->capture == nullptr) return CuResult::kIllegalState;
  if (found->capture->invalidated) return CuResult::kStreamCaptureInvalidated;
  if (flags != kAddCaptureDependencies && flags != kSetCaptureDependencies)
    return CuResult::kInvalidValue;
  if (edge_data != nullptr && !std::all_of(edge_data, edge_data + dependency_count, IsPlain))
    return CuResult::kInvalidValue;
  std::vector<int> indices;
  const CuResult result = FindDependencies(state, *state.graphs.Find(found->capture->graph),
                                           dependencies, dependency_count, &indices);
  if (result != CuResult::kSuccess) return result;
  std::vector<CuGraphNode> tail;
  if (flags == kAddCaptureDependencies) tail = found->tail;
  Unite(&tail, {dependencies, dependency_count});
  SetTail(*found, std::move(tail));
  return CuResult::kSuccess;
}

CuResult ThreadExchangeStreamCaptureMode(CuCaptureMode* mode) {
  if (mode == nullptr || *mode < CuCaptureMode::kGlobal || *mode > CuCaptureMode::kRelaxed)
    return CuResult::kInvalidValue;
  std::swap(*mode, ThisThread().mode);
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
