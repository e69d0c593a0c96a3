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

void SetTail(StreamState& stream, std::vector<CuGraphNode> tail);
// Adds the nodes that the tail has not.
void Unite(std::vector<CuGraphNode>* tail, std::span<const CuGraphNode> nodes);

void Invalidate(State& state, Capture& capture);
// kSuccess, 901 if the stream's capture is invalidated, or 900, which invalidates it.
CuResult RefuseCapturing(State& state, const StreamState& stream);
// Refuses a call that is unsafe in capture where the modes forbid it.
CuResult CheckCaptureAllows(State& state, EntryId entry);
// True if the entry looks at its own stream or event before the modes count.
bool LooksAtHandleFirst(EntryId entry);
CuResult CaptureWork(State& state, StreamState& stream, Work work);
CuResult CaptureRecord(State& state, const StreamState& stream, EventState& event);
CuResult CaptureWait(State& state, StreamState& stream, const EventState& event);
// The event of a handle, or null. Forgets a record in a capture that has ended, if nobody is
// strict.
EventState* FindEvent(State& state, CuEvent event);
CuResult UseCapturedEvent(State& state, const EventState& event);

}  // namespace coppice::emulator
