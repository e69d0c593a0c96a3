// Reads the trace file of a session (coppice/graphs/trace_events.h) line by line.
//
// What a trace defines is kept; what happened is handed on event by event, so that a view holds
// only what it needs of a long trace. Programs, buckets and nodes are named by their place in
// PoolTrace, not by the number that the file gives them.
//
// Units: bytes, nanoseconds, elements, steps; addresses are offsets in a lane's plan window.
// Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"
#include "coppice/graphs/described/trace_fields.h"
#include "coppice/graphs/trace_events.h"

#include "tools/prof/address_range.h"

namespace coppice {

inline constexpr const char* kPoolTraceSchema = "coppice.trace/6";

struct TracedProgram {
  int64_t id = 0;
  std::string name;
  std::string variant;
  std::vector<std::string> symbols;
  std::vector<std::string> scalars;  // Of the key.
  // JSON: the spec, a policy per symbol, and joint ones.
  std::string spec;
  std::vector<std::string> policies;
  struct Joint {
    int a = 0;  // Indices of symbols.
    int b = 0;
    std::string policy;
  };
  std::vector<Joint> joint;
};

struct TracedBucket {
  int64_t id = 0;
  int program = 0;  // Place in PoolTrace::programs.
  int lane = 0;
  std::vector<int64_t> extents;
  std::vector<int64_t> scalars;  // Of the key; any value.
};

struct TracedKernel {
  std::string name;
  std::array<int64_t, 3> grid{};   // Blocks.
  std::array<int64_t, 3> block{};  // Threads.
  int64_t shared_bytes = 0;        // Dynamic.
};

struct TracedNode {
  int64_t id = 0;
  int64_t line = 0;  // Of its definition.
  int bucket = 0;    // Place in PoolTrace::buckets.
  int64_t height = 0;
  int64_t bound = 0;  // Most bytes live at once, those around it included.
  std::string method;
  Reason reason = Reason::kNone;
  int64_t graph_nodes = 0;
  int64_t exec_bytes = 0;  // An estimate.
  int64_t record_ns = 0;
  std::vector<AddressRange> around;
  std::vector<Buffer> donated;      // Inputs in place that its calls give away: fixed, from step 0.
  std::vector<Buffer> buffers;      // Alignment 1: a trace does not say it.
  std::vector<int64_t> offsets;     // One per buffer.
  std::vector<int64_t> outputs;     // One per buffer: the output that it is, or -1.
  std::vector<std::string> labels;  // One per buffer: what the program calls it, or empty.
  std::vector<TracedKernel> kernels;
  std::vector<int64_t> pieces;  // How many of them each piece between breaks has; empty: it is one.
};

// Why a recording came to nothing.
struct TracedFailure {
  int64_t id = 0;
  std::string driver_call;  // Empty: no call failed.
  std::string code;         // CUDA's name of its result, or the name of a status code.
  std::string message;
};

// What happened, and when. Numbers of programs, buckets and the like are places in PoolTrace.
struct TracedEvent {
  int64_t time_ns = 0;
  int64_t line = 0;
  int lane = -1;
  TraceEvent what = EndEvent();

  // Null if it is another.
  template <typename Event>
  const Event* As() const {
    return std::get_if<Event>(&what);
  }
};

// For std::visit: a function per event, and one of `const auto&` for all others.
template <typename... Functions>
struct Cases : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Cases(Functions...) -> Cases<Functions...>;

struct PoolTrace {
  std::string device;
  int lanes = 0;
  int64_t granularity = 0;
  int64_t budget = 0;   // 0: none.
  std::string options;  // JSON.
  std::vector<TracedProgram> programs;
  std::vector<TracedBucket> buckets;
  std::vector<TracedNode> nodes;
  std::vector<TracedFailure> failures;
  std::vector<std::string> marks;     // Names.
  std::vector<std::string> policies;  // That symbols got later on: JSON.
  int64_t events = 0;
  int64_t dropped = 0;  // Events that the file says were lost.
  int64_t last_ns = 0;  // The latest time of any event.
  bool ended = false;   // False: the session was still running, or ended badly.

  // The program of a bucket.
  int ProgramOf(int bucket) const { return buckets[static_cast<size_t>(bucket)].program; }
  // The lane of a node.
  int LaneOf(const TracedNode& node) const {
    return buckets[static_cast<size_t>(node.bucket)].lane;
  }
};

// "name", or "name/variant".
std::string LabelOf(const TracedProgram& program);

// "8", or "8x128", and the scalars of its key behind that, "8 (32)"; "-" for a bucket without
// extents.
std::string LabelOf(const TracedBucket& bucket);

// What to call a buffer of the node: its label, or "#3".
std::string LabelOfBuffer(const TracedNode& node, size_t buffer);

// What to call a program, by its place; "-" for -1.
std::string LabelOfProgram(const PoolTrace& trace, int program);
// What to call a bucket, by its place: "decode 8".
std::string NameOfBucket(const PoolTrace& trace, int bucket);

// Bytes that the node writes: sorted, disjoint, not touching.
std::vector<AddressRange> FootprintOf(const TracedNode& node);

// The buffers that its outputs lie in, in the order of `buffers`.
std::vector<AddressRange> OutputRangesOf(const TracedNode& node);

// A trace that is read as it comes, in pieces of any size.
class TraceStream {
 public:
  using OnEvent = absl::FunctionRef<void(const PoolTrace&, const TracedEvent&)>;

  // Calls `on_event`, which outlives the stream, as ReadPoolTrace does; `name` is the trace's in
  // messages.
  TraceStream(std::string name, OnEvent on_event);
  ~TraceStream();
  TraceStream(const TraceStream&) = delete;
  TraceStream& operator=(const TraceStream&) = delete;

  // Takes what follows. A line without its end waits for it. Errors: as ReadPoolTrace, and the same
  // again for whatever follows. Cost: O(bytes); keeps the definitions and a line at most.
  absl::Status Take(std::string_view bytes);

  // What was read so far. Requires: no error so far.
  const PoolTrace& trace() const;

  // Lets go what the plans of nodes are made of, which a long trace has much of: places, lifetimes,
  // kernels.
  void ForgetPlans();

  // Ends the trace: a line without an end is read as it is. Errors: as ReadPoolTrace.
  absl::StatusOr<PoolTrace> Finish();

 private:
  class Parser;

  const std::string name_;
  const std::unique_ptr<Parser> parser_;
  std::string line_;  // Its beginning, which was taken.
  absl::Status status_;
  size_t nodes_forgotten_ = 0;
};

// Reads the file at `path` and calls `on_event` for each event, in the order of the file; what the
// event names is defined in the trace it gets. A file without `end` is read all the same, but for
// the half line that a session leaves which was killed.
//
// Errors: kInvalidArgument  the file cannot be read, or a line is none of this schema: `file:line:
//                           what; what to do`. Events before that line were handed on.
// Cost: O(file); keeps the definitions and the longest line.
absl::StatusOr<PoolTrace> ReadPoolTrace(
    const std::string& path,
    absl::FunctionRef<void(const PoolTrace&, const TracedEvent&)> on_event);

}  // namespace coppice
