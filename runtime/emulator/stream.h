// Streams and events: what is queued, and points in a queue.
//
// An event is a position in a stream, so recording one queues nothing. A wait is an operation that
// does nothing and runs only after the event's mark. Every mark points to something queued earlier,
// hence some operation is always ready while any is queued.
//
// Threads: guarded by the emulator's mutex.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/access_order.h"
#include "runtime/emulator/snapshot.h"
#include "runtime/emulator/work.h"

namespace coppice::emulator {

struct Capture;

// A point in the queue of a stream: complete once that many operations of the stream have run. A
// stream that is gone has run them all, and so has the null stream.
struct Mark {
  CuStream stream = nullptr;
  uint64_t position = 0;
  VectorClock clock;  // What lies before it; kept only if somebody checks.
};

struct GraphRun {
  Snapshot* snapshot = nullptr;
  size_t done = 0;               // Nodes that have run.
  std::vector<int> ready;        // Nodes that may run next; unused in a chain.
  std::vector<int> unsatisfied;  // Dependencies still to run, by node; unused in a chain.
};

using Body = std::variant<Task, GraphRun>;

struct Operation {
  OperationId id;
  int device = 0;
  Mark after;  // Runs only once this is complete.
  Body body;
  std::vector<uint64_t> source_sums;  // Of the host memory that its copies read, at submission.
  VectorClock before;                 // What a host function in it may rely on.
  std::vector<CuEvent> timed_events;  // Those that keep the time at which it has run.
};

struct StreamState {
  CuStream handle = nullptr;
  CuContext context = nullptr;
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool is_default = false;  // One that no call creates.
  // By stream, the position up to which the rules of the legacy stream have made this one wait.
  std::map<CuStream, uint64_t> waited;
  std::deque<Operation> queue;
  uint64_t submitted = 0;  // Operations ever queued.
  uint64_t completed = 0;  // Operations that have run.
  VectorClock clock;       // What lies before its next operation, and that of itself.

  Capture* capture = nullptr;              // The capture that the stream takes part in, if any.
  std::vector<CuGraphNode> tail;           // What the next captured node depends on.
  std::vector<CuGraphEdgeData> tail_data;  // Zeros, as many as `tail`.

  Mark end() const { return {handle, submitted, clock}; }
};

struct CapturedMark {
  uint64_t capture_id = 0;
  std::vector<CuGraphNode> nodes;
};

struct EventState {
  CuContext context = nullptr;
  unsigned flags = 0;
  bool keeps_time = false;
  Mark mark;                             // Of the last record, if that was not captured.
  std::optional<CapturedMark> captured;  // Of the last record, if that was.
  int64_t mark_us = 0;                   // When the mark was complete, if the event keeps time.
};

}  // namespace coppice::emulator
