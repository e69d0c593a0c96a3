// What calls make of a capture, and a capture of calls.

#include "runtime/emulator/capture.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/emulator/graph.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulator {

void SetTail(StreamState& stream, std::vector<CuGraphNode> tail) {
  stream.tail = std::move(tail);
  stream.tail_data.assign(stream.tail.size(), {});
}

void Unite(std::vector<CuGraphNode>* tail, std::span<const CuGraphNode> nodes) {
  for (const CuGraphNode node : nodes)
    if (std::find(tail->begin(), tail->end(), node) == tail->end()) tail->push_back(node);
}

void Invalidate(State& state, Capture& capture) {
  if (capture.invalidated) return;
  capture.invalidated = true;
  if (capture.given_graph) {
    state.graphs.Find(capture.graph)->capture = nullptr;
  } else {
    RemoveGraph(state, capture.graph);
  }
  capture.graph = nullptr;
  for (const auto& [handle, stream] : state.scheduler.streams())
    if (stream->capture == &capture) SetTail(*stream, {});
}

CuResult RefuseImplicit(State& state, const StreamState& stream, bool invalidates) {
  if (state.captures.empty() || !state.scheduler.IsLegacy(stream)) return CuResult::kSuccess;
  CuResult result = CuResult::kSuccess;
  for (const auto& [handle, other] : state.scheduler.streams()) {
    if (other->capture == nullptr || other->context != stream.context ||
        (other->flags & kStreamNonBlocking) != 0)
      continue;
    if (invalidates) Invalidate(state, *other->capture);
    result = CuResult::kStreamCaptureImplicit;
  }
  return result;
}

CuResult UseStream(State& state, CuStream stream, StreamState** used) {
  StreamState* const found = state.FindStream(stream);
  if (found == nullptr || found->context != state.Context()) return CuResult::kInvalidHandle;
  if (const CuResult result = RefuseImplicit(state, *found, true); result != CuResult::kSuccess)
    return result;
  if (found->capture == nullptr) state.scheduler.OrderWithLegacy(*found);
  *used = found;
  return CuResult::kSuccess;
}

CuResult RefuseCapturing(State& state, const StreamState& stream) {
  if (stream.capture == nullptr) return CuResult::kSuccess;
  if (stream.capture->invalidated) return CuResult::kStreamCaptureInvalidated;
  Invalidate(state, *stream.capture);
  return CuResult::kStreamCaptureUnsupported;
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
  event.mark = {};
  event.mark_us = 0;
  event.captured = CapturedMark{stream.capture->id, stream.tail};
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
  if (found != nullptr && found->captured.has_value() && !state.options.captured_event &&
      state.FindCapture(found->captured->capture_id) == nullptr)
    *found = {.context = found->context, .flags = found->flags, .keeps_time = found->keeps_time};
  return found;
}

CuResult UseCapturedEvent(State& state, const EventState& event) {
  if (Capture* const capture = state.FindCapture(event.captured->capture_id)) {
    if (capture->invalidated) return CuResult::kStreamCaptureInvalidated;
    Invalidate(state, *capture);
  }
  return CuResult::kCapturedEvent;
}

}  // namespace coppice::emulator
