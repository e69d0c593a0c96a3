// Wrong drivers: streams, events, host functions, libraries and launches.

#include <algorithm>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;

// Streams.

CuResult LaunchInNoOrder(KernelLaunch launch) {
  if (StatusOf(launch.stream) != CuCaptureStatus::kNone) return launch.Run();
  return Aside([&](CuStream stream) { return launch.On(stream); });
}
CuResult WaitForNothing(CuStream stream, CuEvent event, unsigned flags) {
  if (StatusOf(stream) != CuCaptureStatus::kNone || flags != 0 ||
      notes.captured_events.contains(event))
    return right.StreamWaitEvent(stream, event, flags);
  return kSuccess;
}
CuResult SynchronizeAtOnce(CuStream stream) {
  const CuResult result = right.StreamQuery(stream);
  return result == kNotReady ? kSuccess : result;
}
CuResult SynchronizeEventAtOnce(CuEvent event) {
  const CuResult result = right.EventQuery(event);
  return result == kNotReady ? kSuccess : result;
}
CuResult SynchronizeContextAtOnce() {
  CuContext current = nullptr;
  right.CtxGetCurrent(&current);
  return notes.captures.empty() && current != nullptr ? kSuccess : right.CtxSynchronize();
}
// A stream is busy from a launch until somebody waits for it.
CuResult LaunchAndSee(KernelLaunch launch) {
  if (!Captures(launch.stream)) notes.seen.insert(launch.stream);
  return launch.Run();
}
void BusyStreamsAreKept(T& cu) {
  ChangeLaunch<LaunchAndSee>(cu);
  ForgetAtWaits(cu);
  cu.StreamDestroy = [](CuStream stream) {
    return notes.seen.contains(stream) ? kNotReady : right.StreamDestroy(stream);
  };
}

// Events.

CuResult RecordOnce(CuEvent event, CuStream stream) {
  if (Captures(stream)) return right.EventRecord(event, stream);
  return notes.seen.insert(event).second ? right.EventRecord(event, stream) : kSuccess;
}

// A record takes effect when the event is next recorded or waited for by the host.
void Settle(CuEvent event) {
  if (const auto late = notes.late_records.extract(event)) right.EventRecord(event, late.mapped());
}
CuResult RecordLate(CuEvent event, CuStream stream) {
  if (StatusOf(stream) != CuCaptureStatus::kNone) return right.EventRecord(event, stream);
  Settle(event);
  notes.late_records[event] = stream;
  return kSuccess;
}
void RecordsAreLate(T& cu) {
  cu.EventRecord = RecordLate;
  cu.EventQuery = [](CuEvent event) {
    Settle(event);
    return right.EventQuery(event);
  };
  cu.EventSynchronize = [](CuEvent event) {
    Settle(event);
    return right.EventSynchronize(event);
  };
}

CuResult RecordAndSee(CuEvent event, CuStream stream) {
  notes.seen.insert(event);
  return right.EventRecord(event, stream);
}
CuResult QueryUnrecorded(CuEvent event) {
  return notes.seen.contains(event) ? right.EventQuery(event) : kNotReady;
}
CuResult SynchronizeUnrecorded(CuEvent event) {
  return notes.seen.contains(event) ? right.EventSynchronize(event) : kInvalidHandle;
}
CuResult WaitUnrecorded(CuStream stream, CuEvent event, unsigned flags) {
  const bool is_known = notes.seen.contains(event) || flags != 0;
  return is_known ? right.StreamWaitEvent(stream, event, flags) : kInvalidHandle;
}
CuResult RecordPending(CuEvent event, CuStream stream) {
  if (!Captures(stream)) notes.seen.insert(event);
  return right.EventRecord(event, stream);
}
CuResult DestroyOnlyComplete(CuEvent event) {
  return notes.seen.contains(event) ? kNotReady : right.EventDestroy(event);
}
template <auto entry, auto function>
void ChangeSeeing(T& cu) {
  cu.EventRecord = RecordAndSee;
  cu.*entry = function;
}

// Times.

CuResult ElapsedBackwards(float* milliseconds, CuEvent start, CuEvent end) {
  return right.EventElapsedTime(milliseconds, end, start);
}

// Host functions.

CuResult CallAtOnce(CuStream stream, CuHostFunction function, void* data) {
  if (function == nullptr || StatusOf(stream) != CuCaptureStatus::kNone)
    return right.LaunchHostFunc(stream, function, data);
  return Aside([&](CuStream other) { return right.LaunchHostFunc(other, function, data); }, true);
}
CuResult CallTwice(CuStream stream, CuHostFunction function, void* data) {
  const CuResult result = right.LaunchHostFunc(stream, function, data);
  return result == kSuccess ? right.LaunchHostFunc(stream, function, data) : result;
}
CuResult CallElsewhere(CuStream stream, CuHostFunction function, void* data) {
  if (function == nullptr) return right.LaunchHostFunc(stream, function, data);
  notes.host_calls.push_back({.function = function, .data = data});
  return right.LaunchHostFunc(stream, CallOnAnyThread, &notes.host_calls.back());
}

// Faults.

CuResult ForgetTheFault(CuStream stream) {
  const CuResult result = right.StreamSynchronize(stream);
  const bool is_news = notes.seen.insert(nullptr).second;
  return result == kIllegalAddress && !is_news ? kSuccess : result;
}

// Code.

constexpr unsigned kGridYzMax = 65535;

CuResult LaunchEmptyGrid(KernelLaunch launch) {
  return launch.grid_x == 0 || launch.grid_y == 0 || launch.grid_z == 0 ? kSuccess : launch.Run();
}
CuResult LaunchEmptyBlock(KernelLaunch launch) {
  return launch.block_x == 0 ? kSuccess : launch.Run();
}
CuResult LaunchHighGrid(KernelLaunch launch) {
  launch.grid_y = std::min(launch.grid_y, kGridYzMax);
  launch.grid_z = std::min(launch.grid_z, kGridYzMax);
  return launch.Run();
}
CuResult LaunchLargeBlock(KernelLaunch launch) {
  return launch.block_x > 1024 ? kSuccess : launch.Run();
}
CuResult LaunchWithExtra(KernelLaunch launch) {
  launch.extra = nullptr;
  return launch.Run();
}
CuResult LaunchOneRow(KernelLaunch launch) {
  if (launch.grid_y >= 1 && launch.grid_y <= kGridYzMax) launch.grid_y = 1;
  if (launch.grid_z >= 1 && launch.grid_z <= kGridYzMax) launch.grid_z = 1;
  return launch.Run();
}

// The arguments are read when somebody waits for the stream, and may be gone by then.
CuResult LaunchAtTheWait(KernelLaunch launch) {
  if (StatusOf(launch.stream) != CuCaptureStatus::kNone || launch.params == nullptr)
    return launch.Run();
  if (const auto late = notes.late_launches.extract(launch.stream)) late.mapped().Run();
  notes.late_launches.emplace(launch.stream, launch);
  return kSuccess;
}
void LaunchesAreLate(T& cu) {
  ChangeLaunch<LaunchAtTheWait>(cu);
  cu.StreamSynchronize = [](CuStream stream) {
    if (const auto late = notes.late_launches.extract(stream)) late.mapped().Run();
    return right.StreamSynchronize(stream);
  };
}

// Turns the last bit of a handle, which no handle has, on or off.
CuFunction Mark(CuFunction function) {
  return reinterpret_cast<CuFunction>(  // NOLINT(performance-no-int-to-ptr)
      reinterpret_cast<uintptr_t>(function) ^ 1);
}
CuResult GetMarkedFunction(CuFunction* function, CuKernel kernel) {
  const CuResult result = right.KernelGetFunction(function, kernel);
  if (result == kSuccess) *function = Mark(*function);
  return result;
}
CuResult LaunchMarkedFunction(KernelLaunch launch) {
  const CuFunction marked = launch.function;
  launch.function = Mark(marked);
  return launch.function < marked ? launch.Run() : kInvalidHandle;
}

}  // namespace

std::vector<Mutant> OrderMutants() {
  return {
      {"stream_without_order", "Work of one stream runs in the order of its calls.",
       ChangeLaunch<LaunchInNoOrder>},
      {"wait_for_nothing", "A stream that waits for an event runs after it.",
       [](T& cu) {
         NoteCaptures(cu);
         cu.StreamWaitEvent = WaitForNothing;
       }},
      {"synchronize_at_once", "Waiting for a stream waits for all its work.",
       Change<&T::StreamSynchronize, SynchronizeAtOnce>},
      {"synchronize_event_at_once", "Waiting for an event waits for the work before it.",
       Change<&T::EventSynchronize, SynchronizeEventAtOnce>},
      {"synchronize_context_at_once", "Waiting for the context waits for every stream.",
       [](T& cu) {
         NoteCaptures(cu);
         cu.CtxSynchronize = SynchronizeContextAtOnce;
       }},
      {"busy_stream_is_idle", "A stream with work left is not ready: 600.",
       Misreport<&T::StreamQuery, kNotReady>},
      {"pending_event_is_done", "An event whose work is not done is not ready: 600.",
       Misreport<&T::EventQuery, kNotReady>},
      {"busy_stream_is_kept", "A stream may be destroyed while it has work.", BusyStreamsAreKept},
      {"pending_event_is_kept", "An event may be destroyed before it is done.",
       [](T& cu) {
         ForgetAtWaits(cu);
         cu.EventRecord = RecordPending;
         cu.EventDestroy = DestroyOnlyComplete;
       }},
      {"stream_with_flags", "A stream takes no unknown flags.",
       Pass<&T::StreamCreate, 1, [](unsigned flags) { return flags & kStreamNonBlocking; }>},
      {"event_with_flags", "An event takes no unknown flags.",
       Pass<&T::EventCreate, 1, [](unsigned flags) { return flags & kEventDisableTiming; }>},
      {"wait_with_flags", "A wait takes no unknown flags.", Pass<&T::StreamWaitEvent, 2, kNone>},
      {"record_once", "Recording an event again overwrites it.",
       Change<&T::EventRecord, RecordOnce>},
      {"records_are_late", "A wait uses the record of its own time.", RecordsAreLate},
      {"unrecorded_event_is_pending", "An event that was never recorded is done.",
       ChangeSeeing<&T::EventQuery, QueryUnrecorded>},
      {"unrecorded_event_is_invalid", "Waiting for an event that was never recorded succeeds.",
       ChangeSeeing<&T::EventSynchronize, SynchronizeUnrecorded>},
      {"unrecorded_event_blocks", "A stream may wait for an event that was never recorded.",
       ChangeSeeing<&T::StreamWaitEvent, WaitUnrecorded>},
      {"time_runs_backwards", "No time between two events of a stream is negative.",
       Change<&T::EventElapsedTime, ElapsedBackwards>},
      {"time_is_constant", "The times between events add up.",
       Then<&T::EventElapsedTime,
            [](float* milliseconds, CuEvent start, CuEvent end) {
              if (start != end) *milliseconds = 1;
            }>},
      {"time_ticks_at_once", "No time passes between an event and itself.",
       Then<&T::EventElapsedTime,
            [](float* milliseconds, auto...) {
              *milliseconds = std::max(*milliseconds, 0.0005F);
            }>},
      {"every_event_keeps_time", "An event without timing has no time: 400.",
       Pass<&T::EventCreate, 1, [](unsigned flags) { return flags & ~kEventDisableTiming; }>},
      {"every_event_is_recorded", "An event that was never recorded has no time: 400.",
       Then<&T::EventCreate,
            [](CuEvent* event, auto) {
              Aside([event](CuStream other) { return right.EventRecord(*event, other); });
            }>},
      {"pending_event_has_a_time", "An event whose work is not done has no time yet: 600.",
       Misreport<&T::EventElapsedTime, kNotReady>},
      {"fault_is_hidden", "Waiting for work that faulted reports 700.",
       Misreport<&T::StreamSynchronize, kIllegalAddress>},
      {"fault_is_forgotten", "A fault is reported by every later call.",
       Change<&T::StreamSynchronize, ForgetTheFault>},
  };
}

std::vector<Mutant> CodeMutants() {
  return {
      {"host_function_at_once", "A host function follows the stream's earlier work.",
       Change<&T::LaunchHostFunc, CallAtOnce>},
      {"host_function_twice", "A host function runs once.", Change<&T::LaunchHostFunc, CallTwice>},
      {"host_function_null", "A host function is not null.",
       AnswerWhen<&T::LaunchHostFunc, kSuccess,
                  [](auto, CuHostFunction function, auto) { return function == nullptr; }>},
      {"host_function_calls_driver", "A host function cannot call the driver: 800.",
       Change<&T::LaunchHostFunc, CallElsewhere>},
      {"unknown_kernel", "A kernel that a library has not is not found: 500.",
       Misreport<&T::LibraryGetKernel, kNotFound, kInvalidValue>},
      {"any_image", "An image for another device is refused.",
       Misreport<&T::LibraryLoadData, kNoBinaryForGpu>},
      {"function_without_context", "A kernel's function needs a current context: 201.",
       Misreport<&T::KernelGetFunction, kInvalidContext>},
      {"empty_grid", "A grid has blocks in every direction.", ChangeLaunch<LaunchEmptyGrid>},
      {"high_grid", "A grid has at most 65535 blocks in y and z.", ChangeLaunch<LaunchHighGrid>},
      {"empty_block", "A block has threads.", ChangeLaunch<LaunchEmptyBlock>},
      {"large_block", "A block has at most as many threads as the device allows.",
       ChangeLaunch<LaunchLargeBlock>},
      {"arguments_in_two_ways", "A launch takes its arguments in one way.",
       ChangeLaunch<LaunchWithExtra>},
      {"grid_of_one_row", "A grid has three directions.", ChangeLaunch<LaunchOneRow>},
      {"arguments_by_reference", "A kernel's arguments are copied at the launch.", LaunchesAreLate},
      {"functions_are_called_alike", "A function has the name of its kernel.",
       Then<&T::FuncGetName, [](const char** name, auto) { *name = "kernel"; }>},
      {"name_of_no_function", "No function has no name: 1.",
       Misreport<&T::FuncGetName, kInvalidValue>},
      {"parameters_without_end", "A function has no parameter behind its last: 1.",
       Misreport<&T::FuncGetParamInfo, kInvalidValue>},
      {"parameter_sizes_are_rounded", "A parameter has the size of its type.",
       Then<&T::FuncGetParamInfo,
            [](auto, auto, auto, size_t* bytes) {
              if (bytes != nullptr) *bytes = (*bytes + 63) / 64 * 64;
            }>},
      {"parameter_size_is_needed", "The offset of a parameter may be asked for alone.",
       AnswerWhen<&T::FuncGetParamInfo, kInvalidValue,
                  [](auto, auto, auto, size_t* bytes) { return bytes == nullptr; }>},
      {"kernel_is_no_function", "A kernel handle serves as function.",
       [](T& cu) {
         cu.KernelGetFunction = GetMarkedFunction;
         ChangeLaunch<LaunchMarkedFunction>(cu);
       }},
  };
}

}  // namespace coppice::mutation
