// Wrong drivers: what a capture forbids, to whom, and what that does to it.

#include <algorithm>
#include <atomic>
#include <utility>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;

// Captures of mode `from` are begun in mode `to`.
template <CuCaptureMode from, CuCaptureMode to>
CuResult BeginInOtherMode(CuStream stream, CuCaptureMode mode) {
  return right.StreamBeginCapture(stream, mode == from ? to : mode);
}

// A thread that asks for mode `from` gets mode `to`, and is told what it asked for.
template <CuCaptureMode from, CuCaptureMode to>
CuResult ExchangeForOtherMode(CuCaptureMode* mode) {
  thread_local CuCaptureMode asked = CuCaptureMode::kGlobal;
  if (mode == nullptr) return kInvalidValue;
  const CuCaptureMode before = *mode;
  CuCaptureMode given = before == from ? to : before;
  const CuResult result = right.ThreadExchangeStreamCaptureMode(&given);
  if (result == kSuccess) *mode = std::exchange(asked, before);
  return result;
}

CuResult ExchangeReturnsNothing(CuCaptureMode* mode) {
  if (mode == nullptr) return kInvalidValue;
  CuCaptureMode given = *mode;
  return right.ThreadExchangeStreamCaptureMode(&given);
}

CuResult ExchangeInAllThreads(CuCaptureMode* mode) {
  static std::atomic<CuCaptureMode> common = CuCaptureMode::kGlobal;
  if (mode == nullptr) return kInvalidValue;
  CuCaptureMode given = *mode;
  const CuResult result = right.ThreadExchangeStreamCaptureMode(&given);
  if (result == kSuccess) *mode = common.exchange(*mode);
  return result;
}

// Whether the calling thread has a capture open that forbids unsafe calls.
bool IsForbiddenHere() {
  return std::any_of(notes.captures.begin(), notes.captures.end(), [](const auto& entry) {
    return entry.second.mode != CuCaptureMode::kRelaxed &&
           entry.second.thread == std::this_thread::get_id();
  });
}

// The calling thread's own mode.
CuCaptureMode ThreadMode() {
  CuCaptureMode mode = CuCaptureMode::kRelaxed;
  right.ThreadExchangeStreamCaptureMode(&mode);
  CuCaptureMode restored = mode;
  right.ThreadExchangeStreamCaptureMode(&restored);
  return mode;
}

// Whether another thread has a global capture open, which binds this one.
bool IsForbiddenByOthers() {
  return ThreadMode() == CuCaptureMode::kGlobal &&
         std::any_of(notes.captures.begin(), notes.captures.end(), [](const auto& entry) {
           return entry.second.mode == CuCaptureMode::kGlobal &&
                  entry.second.thread != std::this_thread::get_id();
         });
}

template <bool (*is_forbidden)()>
void RefusalIsHarmless(T& cu) {
  NoteCaptures(cu);
  cu.MemAlloc = [](CuDeviceAddress* address, size_t bytes) {
    if (ThreadMode() != CuCaptureMode::kRelaxed && is_forbidden()) return kStreamCaptureUnsupported;
    return right.MemAlloc(address, bytes);
  };
}

void SynchronizeIgnoresTheCapture(T& cu) {
  cu.StreamSynchronize = [](CuStream stream) {
    return Captures(stream) ? kSuccess : right.StreamSynchronize(stream);
  };
}

void QueryIgnoresTheCapture(T& cu) {
  cu.StreamQuery = [](CuStream stream) {
    return Captures(stream) ? kSuccess : right.StreamQuery(stream);
  };
}

void SynchronizeRefusesHarmlessly(T& cu) {
  cu.StreamSynchronize = [](CuStream stream) {
    return Captures(stream) ? kStreamCaptureUnsupported : right.StreamSynchronize(stream);
  };
}

template <CuResult result>
void ContextSynchronizeSparesCaptures(T& cu) {
  NoteCaptures(cu);
  cu.CtxSynchronize = [] { return notes.captures.empty() ? right.CtxSynchronize() : result; };
}

// Whether `event` was recorded in a capture that is still open.
bool IsCaptured(CuEvent event) {
  const auto found = notes.captured_events.find(event);
  if (found == notes.captured_events.end()) return false;
  return std::any_of(notes.captures.begin(), notes.captures.end(),
                     [&](const auto& entry) { return CaptureOf(entry.first).id == found->second; });
}

template <CuResult result>
void EventSynchronizeSparesCaptures(T& cu) {
  NoteCaptures(cu);
  cu.EventSynchronize = [](CuEvent event) {
    return IsCaptured(event) ? result : right.EventSynchronize(event);
  };
}

void EventQueryIgnoresTheCapture(T& cu) {
  NoteCaptures(cu);
  cu.EventQuery = [](CuEvent event) {
    return IsCaptured(event) ? kNotReady : right.EventQuery(event);
  };
}

void CapturedEventsStayCaptured(T& cu) {
  cu.EventRecord = [](CuEvent event, CuStream stream) {
    if (Captures(stream)) notes.seen.insert(event);
    notes.captured_events[event] = CaptureOf(stream).id;
    return right.EventRecord(event, stream);
  };
  cu.EventSynchronize = [](CuEvent event) {
    const bool was_captured = notes.seen.contains(event) && notes.captured_events[event] == 0;
    return was_captured ? kCapturedEvent : right.EventSynchronize(event);
  };
}

bool Merges(CuStream stream, CuEvent event) {
  return Captures(stream) && IsCaptured(event) &&
         notes.captured_events[event] != CaptureOf(stream).id;
}

void MergeIsIgnored(T& cu) {
  NoteCaptures(cu);
  cu.StreamWaitEvent = [](CuStream stream, CuEvent event, unsigned flags) {
    return Merges(stream, event) ? kSuccess : right.StreamWaitEvent(stream, event, flags);
  };
}

void MergeInvalidatesOne(T& cu) {
  NoteCaptures(cu);
  cu.StreamWaitEvent = [](CuStream stream, CuEvent event, unsigned flags) {
    if (!Merges(stream, event)) return right.StreamWaitEvent(stream, event, flags);
    right.StreamQuery(stream);
    return kStreamCaptureMerge;
  };
}

// `result`, without an effect, for a wait inside a capture for work outside it.
template <CuResult result>
void IsolationIsHarmless(T& cu) {
  NoteCaptures(cu);
  cu.StreamWaitEvent = [](CuStream stream, CuEvent event, unsigned flags) {
    if (Captures(stream) && !notes.captured_events.contains(event)) return result;
    return right.StreamWaitEvent(stream, event, flags);
  };
}

CuResult LaunchIntoTheCapture(CuGraphExec exec, CuStream stream) {
  return Captures(stream) ? kSuccess : right.GraphLaunch(exec, stream);
}

CuResult UploadIntoTheCapture(CuGraphExec exec, CuStream stream) {
  return Captures(stream) ? kSuccess : right.GraphUpload(exec, stream);
}

using Mode = CuCaptureMode;

}  // namespace

std::vector<Mutant> CaptureModeMutants() {
  return {
      {"global_capture_as_thread_local", "A global capture forbids unsafe calls to other threads.",
       Change<&T::StreamBeginCapture, BeginInOtherMode<Mode::kGlobal, Mode::kThreadLocal>>},
      {"thread_local_capture_as_global", "A thread-local capture leaves other threads alone.",
       Change<&T::StreamBeginCapture, BeginInOtherMode<Mode::kThreadLocal, Mode::kGlobal>>},
      {"thread_local_capture_as_relaxed",
       "A thread-local capture forbids unsafe calls to its own thread.",
       Change<&T::StreamBeginCapture, BeginInOtherMode<Mode::kThreadLocal, Mode::kRelaxed>>},
      {"relaxed_capture_as_thread_local", "A relaxed capture forbids no unsafe call.",
       Change<&T::StreamBeginCapture, BeginInOtherMode<Mode::kRelaxed, Mode::kThreadLocal>>},
      {"exchange_unknown_mode", "A thread cannot take a mode that does not exist.",
       Misreport<&T::ThreadExchangeStreamCaptureMode, kInvalidValue>},
      {"exchange_returns_nothing", "Exchanging the mode returns the earlier one.",
       Change<&T::ThreadExchangeStreamCaptureMode, ExchangeReturnsNothing>},
      {"exchange_in_all_threads", "Every thread has a mode of its own.",
       Change<&T::ThreadExchangeStreamCaptureMode, ExchangeInAllThreads>},
      {"relaxed_thread_as_global", "A relaxed thread may make unsafe calls.",
       Change<&T::ThreadExchangeStreamCaptureMode,
              ExchangeForOtherMode<Mode::kRelaxed, Mode::kGlobal>>},
      {"thread_local_thread_as_global",
       "A thread-local thread is not bound by the global captures of others.",
       Change<&T::ThreadExchangeStreamCaptureMode,
              ExchangeForOtherMode<Mode::kThreadLocal, Mode::kGlobal>>},
      {"thread_local_thread_as_relaxed", "A thread-local thread is bound by a capture of its own.",
       Change<&T::ThreadExchangeStreamCaptureMode,
              ExchangeForOtherMode<Mode::kThreadLocal, Mode::kRelaxed>>},
      {"refusal_spares_own_capture", "A refused call invalidates the capture of its thread.",
       RefusalIsHarmless<IsForbiddenHere>},
      {"refusal_spares_other_threads",
       "A refused call invalidates the global captures of other threads.",
       RefusalIsHarmless<IsForbiddenByOthers>},
      {"alloc_is_safe", "cuMemAlloc is unsafe in a capture.", Unguard<&T::MemAlloc>},
      {"free_is_safe", "cuMemFree is unsafe in a capture.", Unguard<&T::MemFree>},
      {"other_stream_synchronize_is_safe", "Waiting for another stream is unsafe in a capture.",
       Unguard<&T::StreamSynchronize>},
      {"other_stream_query_is_safe", "Querying another stream is unsafe in a capture.",
       Unguard<&T::StreamQuery>},
      {"event_synchronize_is_safe", "Waiting for an earlier event is unsafe in a capture.",
       Unguard<&T::EventSynchronize>},
      {"event_query_is_safe", "Querying an earlier event is unsafe in a capture.",
       Unguard<&T::EventQuery>},
      {"exec_destroy_is_safe", "Destroying an exec is unsafe in a capture.",
       Unguard<&T::GraphExecDestroy>},
  };
}

std::vector<Mutant> CaptureConflictMutants() {
  return {
      {"synchronize_ignores_capture", "Waiting for a capturing stream is refused with 900.",
       SynchronizeIgnoresTheCapture},
      {"synchronize_spares_capture", "Waiting for a capturing stream invalidates the capture.",
       SynchronizeRefusesHarmlessly},
      {"query_ignores_capture", "Querying a capturing stream is refused with 900.",
       QueryIgnoresTheCapture},
      {"context_synchronize_ignores_capture",
       "Waiting for the context while a stream captures is refused with 900.",
       ContextSynchronizeSparesCaptures<kSuccess>},
      {"context_synchronize_spares_capture",
       "Waiting for the context while a stream captures invalidates the capture.",
       ContextSynchronizeSparesCaptures<kStreamCaptureUnsupported>},
      {"captured_event_is_waited_for", "Waiting for a captured event is refused with 907.",
       EventSynchronizeSparesCaptures<kSuccess>},
      {"captured_event_spares_capture", "Waiting for a captured event invalidates its capture.",
       EventSynchronizeSparesCaptures<kCapturedEvent>},
      {"captured_event_is_queried", "Querying a captured event is refused with 907.",
       EventQueryIgnoresTheCapture},
      {"captured_event_stays_captured", "An event can be recorded again after its capture.",
       CapturedEventsStayCaptured},
      {"merge_is_ignored", "A capture cannot wait for an event of another: 902.", MergeIsIgnored},
      {"merge_invalidates_one", "Merging two captures invalidates both.", MergeInvalidatesOne},
      {"isolation_is_ignored", "A capture cannot wait for work outside it: 905.",
       IsolationIsHarmless<kSuccess>},
      {"isolation_spares_capture", "Waiting for work outside a capture invalidates it.",
       IsolationIsHarmless<kStreamCaptureIsolation>},
      {"launch_into_capture", "A graph cannot be launched into a capturing stream: 900.",
       Change<&T::GraphLaunch, LaunchIntoTheCapture>},
      {"upload_into_capture", "A graph cannot be uploaded in a capturing stream: 900.",
       Change<&T::GraphUpload, UploadIntoTheCapture>},
      {"work_in_invalidated_capture", "An invalidated capture takes no work: 901.",
       Misreport<&T::LaunchKernel, kStreamCaptureInvalidated>},
      {"copy_in_invalidated_capture", "An invalidated capture takes no copy: 901.",
       Misreport<&T::MemcpyDtoDAsync, kStreamCaptureInvalidated>},
      {"record_in_invalidated_capture", "An invalidated capture records no event: 901.",
       Misreport<&T::EventRecord, kStreamCaptureInvalidated>},
      {"wait_for_invalidated_capture", "No stream joins an invalidated capture: 901.",
       Misreport<&T::StreamWaitEvent, kStreamCaptureInvalidated>},
      {"synchronize_in_invalidated_capture",
       "Waiting for a stream of an invalidated capture is refused with 901.",
       Misreport<&T::StreamSynchronize, kStreamCaptureInvalidated, kStreamCaptureUnsupported>},
  };
}

}  // namespace coppice::mutation
