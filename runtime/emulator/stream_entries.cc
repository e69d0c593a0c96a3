// The driver entries for streams and events.

#include <memory>
#include <utility>

#include "runtime/emulator/capture.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {
namespace {

// The checks that a wait and a query on a stream share.
CuResult CheckStreamWait(State& state, CuStream handle, EntryId entry, StreamState** stream) {
  *stream = state.FindStream(handle);
  if (*stream == nullptr) return CuResult::kInvalidHandle;
  if (const CuResult result = RefuseImplicit(state, **stream, true); result != CuResult::kSuccess)
    return result;
  if (const CuResult result = RefuseCapturing(state, **stream); result != CuResult::kSuccess)
    return result;
  if (state.scheduler.IsLegacy(**stream)) state.scheduler.OrderWithLegacy(**stream);
  return CheckCaptureAllows(state, entry);
}

CuResult CheckEventWait(State& state, const EventState* event, EntryId entry) {
  if (event == nullptr) return CuResult::kInvalidHandle;
  if (event->captured.has_value()) return UseCapturedEvent(state, *event);
  return CheckCaptureAllows(state, entry);
}

}  // namespace

CuResult StreamCreate(CuStream* stream, unsigned flags) {
  if (stream == nullptr || flags > kStreamNonBlocking) return CuResult::kInvalidValue;
  State& state = TheState();
  *stream = state.scheduler.Add(state.Context(), state.Device(), flags, 0);
  return CuResult::kSuccess;
}

CuResult StreamDestroy(CuStream stream) {
  State& state = TheState();
  const StreamState* const found = state.scheduler.Find(stream);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (const CuResult result = RefuseCapturing(state, *found); result != CuResult::kSuccess)
    return result;
  state.scheduler.Retire(stream);
  return CuResult::kSuccess;
}

CuResult StreamSynchronize(CuStream stream) {
  State& state = TheState();
  StreamState* found = nullptr;
  const CuResult result = CheckStreamWait(state, stream, EntryId::kStreamSynchronize, &found);
  return result == CuResult::kSuccess ? state.scheduler.WaitFor(found->end()) : result;
}

CuResult StreamQuery(CuStream stream) {
  State& state = TheState();
  StreamState* found = nullptr;
  const CuResult result = CheckStreamWait(state, stream, EntryId::kStreamQuery, &found);
  return result == CuResult::kSuccess ? state.scheduler.Query(found->end()) : result;
}

CuResult StreamWaitEvent(CuStream stream, CuEvent event, unsigned flags) {
  State& state = TheState();
  StreamState* waiting = nullptr;
  const EventState* const awaited = FindEvent(state, event);
  if (awaited == nullptr) return CuResult::kInvalidHandle;
  if (const CuResult result = UseStream(state, stream, &waiting); result != CuResult::kSuccess)
    return result;
  if (flags != 0) return CuResult::kInvalidValue;
  if (waiting->capture != nullptr || awaited->captured.has_value())
    return CaptureWait(state, *waiting, *awaited);
  return state.scheduler.Enqueue(*waiting, awaited->mark, Task(EmptyWork{}));
}

CuResult CtxSynchronize() {
  State& state = TheState();
  if (state.captures.empty()) return state.scheduler.WaitForContext(state.Context());
  for (const std::unique_ptr<Capture>& capture : state.captures)
    Invalidate(state, *capture);
  return CuResult::kStreamCaptureUnsupported;
}

CuResult EventCreate(CuEvent* event, unsigned flags) {
  constexpr unsigned kBlockingSync = 1;
  if (event == nullptr || (flags & ~(kBlockingSync | kEventDisableTiming)) != 0)
    return CuResult::kInvalidValue;
  auto created = std::make_unique<EventState>();
  created->context = TheState().Context();
  created->flags = flags;
  created->keeps_time = (flags & kEventDisableTiming) == 0;
  *event = TheState().events.Insert(std::move(created));
  return CuResult::kSuccess;
}

CuResult EventDestroy(CuEvent event) {
  return TheState().events.Take(event) == nullptr ? CuResult::kInvalidHandle : CuResult::kSuccess;
}

CuResult EventRecord(CuEvent event, CuStream stream) {
  State& state = TheState();
  EventState* const recorded = state.events.Find(event);
  StreamState* source = nullptr;
  if (recorded == nullptr) return CuResult::kInvalidHandle;
  if (const CuResult result = UseStream(state, stream, &source); result != CuResult::kSuccess)
    return result;
  if (recorded->context != source->context) return CuResult::kInvalidHandle;
  if (source->capture != nullptr) return CaptureRecord(state, *source, *recorded);
  state.scheduler.Record(event, *recorded, *source);
  return CuResult::kSuccess;
}

CuResult EventQuery(CuEvent event) {
  State& state = TheState();
  const EventState* const found = FindEvent(state, event);
  const CuResult result = CheckEventWait(state, found, EntryId::kEventQuery);
  return result == CuResult::kSuccess ? state.scheduler.Query(found->mark) : result;
}

CuResult EventSynchronize(CuEvent event) {
  State& state = TheState();
  const EventState* const found = FindEvent(state, event);
  const CuResult result = CheckEventWait(state, found, EntryId::kEventSynchronize);
  return result == CuResult::kSuccess ? state.scheduler.WaitFor(found->mark) : result;
}

CuResult EventElapsedTime(float* milliseconds, CuEvent start, CuEvent end) {
  if (milliseconds == nullptr) return CuResult::kInvalidValue;
  State& state = TheState();
  const EventState* const events[] = {FindEvent(state, start), FindEvent(state, end)};
  for (const EventState* const event : events) {
    if (event == nullptr) return CuResult::kInvalidHandle;
    if (event->captured.has_value()) return UseCapturedEvent(state, *event);
    if (!event->keeps_time || event->mark.stream == nullptr) return CuResult::kInvalidHandle;
  }
  for (const EventState* const event : events)
    if (!state.scheduler.IsComplete(event->mark)) return CuResult::kNotReady;
  for (const EventState* const event : events)
    state.scheduler.Query(event->mark);  // Runs nothing; the host has learnt of both.
  *milliseconds = static_cast<float>(events[1]->mark_us - events[0]->mark_us) / 1000;
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
