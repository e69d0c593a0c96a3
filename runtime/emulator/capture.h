// Captures: how calls on streams become graph nodes, and what a capture forbids.
//
// A capture is a graph under construction and the streams that take part in it. Each of those has a
// tail, the nodes that its next one depends on. An event carries a tail to another stream (fork);
// waiting for it unites the tails (join).
//
// Threads: under the emulator's mutex.

#pragma once

#include <span>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/entries.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {

// Begins a capture into a graph of its own, or, behind some of its nodes, into one that is given.
CuResult BeginCapture(CuStream stream,
                      CuGraph graph,
                      const CuGraphNode* dependencies,
                      size_t dependency_count,
                      CuCaptureMode mode);
void SetTail(StreamState& stream, std::vector<CuGraphNode> tail);
// Adds the nodes that the tail has not.
void Unite(std::vector<CuGraphNode>* tail, std::span<const CuGraphNode> nodes);

void Invalidate(State& state, Capture& capture);
// The stream that a call submits to or waits for, which `*used` becomes. If it is the legacy
// stream, or one that goes by it, it is ordered as that asks. Results: kInvalidHandle  there is
// none in the current context;
//          906             the legacy stream while one captures that goes by it, which invalidates
//                          the capture.
CuResult UseStream(State& state, CuStream stream, StreamState** used);
// 906 if `stream` is the legacy one, and the captures that forbid it are invalidated if asked.
CuResult RefuseImplicit(State& state, const StreamState& stream, bool invalidates);
// kSuccess, 901 if the stream's capture is invalidated, or 900, which invalidates it.
CuResult RefuseCapturing(State& state, const StreamState& stream);
// Refuses a call that is unsafe in capture where the modes forbid it.
CuResult CheckCaptureAllows(State& state, EntryId entry);
// True if the entry looks at its own stream or event before the modes count.
constexpr bool LooksAtHandleFirst(EntryId entry) {
  return entry == EntryId::kStreamSynchronize || entry == EntryId::kStreamQuery ||
         entry == EntryId::kEventSynchronize || entry == EntryId::kEventQuery;
}
CuResult CaptureWork(State& state, StreamState& stream, Work work);
CuResult CaptureRecord(State& state, const StreamState& stream, EventState& event);
CuResult CaptureWait(State& state, StreamState& stream, const EventState& event);
// The event of a handle, or null. Forgets a record in a capture that has ended, if nobody is
// strict.
EventState* FindEvent(State& state, CuEvent event);
CuResult UseCapturedEvent(State& state, const EventState& event);

}  // namespace coppice::emulator
