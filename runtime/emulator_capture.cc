// Captures: how calls on streams become graph nodes, and what a capture forbids.
//
// A capture is a graph under construction and the streams that take part in it. Each of those has a
// tail, the nodes that its next one depends on. An event carries a tail to another stream (fork);
// waiting for it unites the tails (join).

#include <algorithm>
#include <cstring>
#include <span>

#include "emulator_state.h"

namespace coppice::emulator {
namespace {

void SetTail(StreamState& stream, std::vector<CuGraphNode> tail) {
  stream.tail = std::move(tail);
  stream.tail_data.assign(stream.tail.size(), {});
}

// Adds the nodes that the tail has not.
void Unite(std::vector<CuGraphNode>* tail, std::span<const CuGraphNode> nodes) {
  for (const CuGraphNode node : nodes)
    if (std::find(tail->begin(), tail->end(), node) == tail->end()) tail->push_back(node);
}

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

Capture* State::FindCapture(uint64_t id) const {
  for (const std::unique_ptr<Capture>& capture : captures)
    if (capture->id == id) return capture.get();
  return nullptr;
}

void Invalidate(State& state, Capture& capture) {
  if (capture.invalidated) return;
  capture.invalidated = true;
  RemoveGraph(state, capture.graph);
  capture.graph = nullptr;
  for (const auto& [handle, stream] : state.scheduler.streams())
    if (stream->capture == &capture) SetTail(*stream, {});
}

CuResult RefuseCapturing(State& state, const StreamState& stream) {
  if (stream.capture == nullptr) return CuResult::kSuccess;
  if (stream.capture->invalidated) return CuResult::kStreamCaptureInvalidated;
  Invalidate(state, *stream.capture);
  return CuResult::kStreamCaptureUnsupported;
}

bool LooksAtHandleFirst(EntryId entry) {
  return entry == EntryId::kStreamSynchronize || entry == EntryId::kStreamQuery ||
         entry == EntryId::kEventSynchronize || entry == EntryId::kEventQuery;
}

CuResult CheckCaptureAllows(State& state, EntryId entry) {
  const ThreadState& thread = ThisThread();
  if (state.captures.empty() || thread.mode == CuCaptureMode::kRelaxed) return CuResult::kSuccess;
  CuResult result = CuResult::kSuccess;
  for (const std::unique_ptr<Capture>& capture : state.captures) {
    const bool same = capture->origin_thread == thread.id;
    if (!same && thread.mode != CuCaptureMode::kGlobal) continue;
    const CaptureLegality::Verdict& verdict =
        state.legality.Find(static_cast<int>(entry), capture->mode, same);
    if (verdict.invalidates) Invalidate(state, *capture);
    if (verdict.result != CuResult::kSuccess) result = verdict.result;
  }
  return result;
}

CuResult CaptureWork(State& state, StreamState& stream, Work work) {
  if (stream.capture->invalidated) return CuResult::kStreamCaptureInvalidated;
  GraphState& graph = *state.graphs.Find(stream.capture->graph);
  GraphNode node{.work = std::move(work), .dependencies = {}};
  for (const CuGraphNode dependency : stream.tail)
    node.dependencies.push_back(state.nodes.Find(dependency)->index);
  SetTail(stream, {AddNode(state, graph, std::move(node))});
  return CuResult::kSuccess;
}

CuResult CaptureRecord(State& /*state*/, const StreamState& stream, EventState& event) {
  if (stream.capture->invalidated) return CuResult::kStreamCaptureInvalidated;
  event = {.keeps_time = event.keeps_time,
           .captured = CapturedMark{stream.capture->id, stream.tail}};
  return CuResult::kSuccess;
}

CuResult CaptureWait(State& state, StreamState& stream, const EventState& event) {
  if (stream.capture != nullptr && stream.capture->invalidated)
    return CuResult::kStreamCaptureInvalidated;
  if (!event.captured.has_value()) {
    Invalidate(state, *stream.capture);
    return CuResult::kStreamCaptureIsolation;
  }
  Capture* const capture = state.FindCapture(event.captured->capture_id);
  if (capture == nullptr) {
    if (stream.capture != nullptr) Invalidate(state, *stream.capture);
    return CuResult::kCapturedEvent;
  }
  if (capture->invalidated) return CuResult::kStreamCaptureInvalidated;
  if (stream.capture != nullptr && stream.capture != capture) {
    Invalidate(state, *stream.capture);
    Invalidate(state, *capture);
    return CuResult::kStreamCaptureMerge;
  }
  stream.capture = capture;
  std::vector<CuGraphNode> tail = stream.tail;
  Unite(&tail, event.captured->nodes);
  SetTail(stream, std::move(tail));
  return CuResult::kSuccess;
}

EventState* FindEvent(State& state, CuEvent event) {
  EventState* const found = state.events.Find(event);
  if (found != nullptr && found->captured.has_value() && !state.strictness.captured_event &&
      state.FindCapture(found->captured->capture_id) == nullptr)
    *found = {.keeps_time = found->keeps_time};
  return found;
}

CuResult UseCapturedEvent(State& state, const EventState& event) {
  if (Capture* const capture = state.FindCapture(event.captured->capture_id)) {
    if (capture->invalidated) return CuResult::kStreamCaptureInvalidated;
    Invalidate(state, *capture);
  }
  return CuResult::kCapturedEvent;
}

// Driver entries.

CuResult StreamBeginCapture(CuStream stream, CuCaptureMode mode) {
  constexpr uintptr_t kLegacyHandleMax = 2;
  if (reinterpret_cast<uintptr_t>(stream) <= kLegacyHandleMax)
    return CuResult::kStreamCaptureUnsupported;
  State& state = TheState();
  StreamState* const origin = state.scheduler.Find(stream);
  if (origin == nullptr) return CuResult::kInvalidHandle;
  if (mode < CuCaptureMode::kGlobal || mode > CuCaptureMode::kRelaxed)
    return CuResult::kInvalidValue;
  if (origin->capture != nullptr) return CuResult::kIllegalState;
  static uint64_t last_id = 0;  // Unique in the process; guarded by the emulator's mutex.
  auto capture = std::make_unique<Capture>();
  *capture = {.id = ++last_id,
              .mode = mode,
              .origin = stream,
              .origin_thread = ThisThread().id,
              .graph = NewGraph(state, capture.get()),
              .invalidated = false};
  origin->capture = capture.get();
  state.captures.push_back(std::move(capture));
  return CuResult::kSuccess;
}

CuResult StreamEndCapture(CuStream stream, CuGraph* graph) {
  State& state = TheState();
  const StreamState* const origin = state.scheduler.Find(stream);
  if (origin == nullptr) return CuResult::kInvalidHandle;
  if (graph == nullptr) return CuResult::kInvalidValue;
  Capture* const capture = origin->capture;
  if (capture == nullptr) return CuResult::kIllegalState;
  if (capture->mode != CuCaptureMode::kRelaxed && capture->origin_thread != ThisThread().id)
    return CuResult::kStreamCaptureWrongThread;
  if (capture->origin != stream) return CuResult::kStreamCaptureUnmatched;
  CuResult result = state.scheduler.sticky();
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
  const StreamState* const found = TheState().scheduler.Find(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (status == nullptr) return CuResult::kInvalidValue;
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
  StreamState* const found = state.scheduler.Find(stream);
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
