// What an application did with a session, as far as its trace tells: calls, in order, with what
// they read; when leases were dropped; what was warmed ahead, suspended, and held besides.
//
// A trace tells when the lane found a lease dropped, which is some time after that. A lease counts
// as dropped as early as the trace allows: behind the last call that still found it. One that a
// call reads, and that is gone when the call has run, was given away with the call.
//
// Units: bytes, nanoseconds. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/prof/pool_trace.h"
#include "tools/prof/whatif/run_scripts.h"
#include "tools/prof/whatif/whatif_figures.h"

namespace coppice {

// An input that is an output of an earlier call of the lane, read where it lies.
struct TracedUse {
  int call = -1;   // Place in TracedCalls::calls; -1: not in the trace.
  int input = -1;  // Of Call::inputs; -1: one of its counts.
  int output = -1;
  int64_t byte = 0;  // Of the output, at which it begins.
};

// A lease of an earlier call of the lane that a call gave away.
struct TracedGift {
  int call = 0;     // Place in TracedCalls::calls.
  int output = -1;  // The part of it; -1: all that is left.
};

struct TracedCall {
  int lane = 0;
  int64_t number = 0;  // On its lane.
  int program = 0;     // Place in PoolTrace::programs.
  int bucket = -1;     // Place in PoolTrace::buckets.
  TraceExtents extents;
  RunKind path = RunKind::kReplay;
  OutputMode outputs = OutputMode::kBorrow;
  int64_t host_ns = -1;
  bool held = false;  // Its lease outlives the lane's next call.
  std::vector<TracedUse> uses;
  std::vector<TracedGift> gifts;
};

// One thing that was done.
struct TracedStep {
  enum class Kind : uint8_t {
    kCall,     // what: the call, in TracedCalls::calls.
    kDrop,     // what: the call whose lease is dropped; value: the one before which it was for
               // sure.
    kPart,     // what: the call of whose lease one output is dropped; value: which.
    kWarm,     // what: the bucket that was recorded ahead of calls; value: 1 if memory was trimmed
               // behind it, as SessionWarming::Warm does once it is done.
    kPolicy,   // what: the program; value: its symbol; more: the policy.
    kSuspend,  // value: 1 if graphs were dropped.
    kResume,
    kExternal,  // value: bytes that are not the session's own, nor windows of its lanes.
  };
  Kind kind = Kind::kCall;
  int what = 0;
  int64_t value = 0;
  int more = 0;
  int64_t time_ns = 0;
};

struct TracedCalls {
  PoolTrace trace;
  std::vector<TracedCall> calls;
  std::vector<TracedStep> steps;
  std::vector<bool> recorded_at_once;  // Of each program: its buckets were, without a warm-up.
  FreedInputs freed;                   // Of nodes of the trace, whose calls give inputs away.
  WhatIfFigures figures;               // What the trace itself says.
  int64_t end_ns = 0;                  // Of the last call.
  // Calls that no bucket holds, of programs whose keys have scalars: a trace says of them none.
  int64_t unknown_scalars = 0;
  // Why calls cannot be repeated as they were, a line each; empty: nothing is known to be missing.
  std::vector<std::string> gaps;
};

// Whether its outputs lie in memory of the run's own.
bool RanWithoutGraph(RunKind path);

// Whether memory of this kind is nobody's call's: a repetition takes it as it was.
bool IsForeign(MemoryKind kind);

// Reads the trace at `path`. Errors: as ReadPoolTrace; kInvalidArgument without calls. Cost: O(n
// log n); keeps all events.
absl::StatusOr<TracedCalls> ReadTracedCalls(const std::string& path);

}  // namespace coppice
