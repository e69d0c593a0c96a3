// What a session may do, with how much memory, and what it checks.
//
// The first sentence of a field or an enumerator is what C and Python say of it, and a range at the
// end of its comment is what ValidateOptions asks for: tools/describe reads them here.
//
// Units: bytes where named so. Threads: plain values; the functions are called on the threads that
// call the session, unless they say otherwise.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coppice/graphs/reason.h"
#include "coppice/graphs/trace.h"

namespace coppice {

class Program;
class Binding;

// What a session may do about graphs.
enum class Stance : uint8_t {
  kRecord,      // Warm up, record and replay.
  kReplayOnly,  // Replay what is recorded; everything else runs eagerly.
  kEager,       // No graphs.
  kStrict,      // Replay; a call that cannot is an error that says why, and runs nothing.
};
const char* NameOf(Stance stance);

// What a call does that would need one graph too many.
enum class OnLimit : uint8_t {
  kEager,  // Runs without a graph.
  kError,  // Fails.
  kEvict,  // Drops the graph that is worth least: long unused, large in bytes and cheap to record
           // again. At a limit one of the same program and lane. Never one in flight or with leased
           // outputs; eager if all are.
};
const char* NameOf(OnLimit on_limit);

// Whether kernels of packages that have several variants are timed before a bucket is recorded, so
// that each bucket launches the fastest of each. It takes six runs of the program per variant on
// memory that is nobody's (functions of `call` steps run too), as much memory as an eager run and
// what the program writes of its static inputs, and waits for the call's stream. Where there is not
// the memory, the first variants are launched. They always are if ranks vote, which must choose
// alike.
enum class VariantTiming : uint8_t {
  kOnDevice,  // Not on the emulator, whose time says nothing.
  kAlways,    // On the emulator, too.
  kNever,     // The first variants are launched.
};
const char* NameOf(VariantTiming timing);

// How many graphs there may be.
struct LimitOptions {
  int graphs_per_program_max = 1024;   // Graphs of a program on a lane. >= 0.
  int rerecords_per_bucket_max = 128;  // Recordings of a bucket because a static input moved; those
                                       // beyond count as graphs over the limit. >= 0.
  // Recordings of one bucket in which a static input may have moved; one more, and every call
  // copies it. Choose more than there are sets of static inputs that take turns. >= 0.
  int static_moves_max = 32;
  OnLimit on_limit = OnLimit::kEager;  // What a call does that would need one graph too many.
};

// How large the windows are, and what all of them may hold.
struct MemoryOptions {
  int64_t window_bytes = 0;     // Virtual size of a lane's windows; 0: device memory. >= 0.
  int64_t workspace_bytes = 0;  // For libraries, per lane; 0: none. >= 0.
  int64_t copy_out_bytes = 0;   // For outputs that are copied out, per lane; 0: none. Mapped at
                                // once. >= 0.
  // What the session may hold at once: its windows, its graphs (an estimate) and what the
  // application reports; 0: no budget. Eager and plan windows that are idle are unmapped first, and
  // mapped again when they are needed; a recording that still lacks room, or a warm-up for what it
  // stages, does what `on_budget` says. A program that does not fit even without graphs and padding
  // fails with kResourceExhausted, as does a call that lacks room to stage what ranks agreed on.
  // >= 0.
  int64_t budget_bytes = 0;
  // What a recording does that lacks room. To evict drops graphs of any program, idle lanes' too.
  OnLimit on_budget = OnLimit::kEvict;
};

// For tests of programs and of whoever calls them.
struct CheckOptions {
  // Refuses buckets whose kernels' parameters depend on what is not in the key. Captures every
  // program twice when it is recorded, the second time with other values there, and once more at
  // the graph's first replay; if parameters differ, the error names kernel, parameter and bytes.
  // The padding of a parameter's struct counts, so zero it. Needs a driver of CUDA 12.4.
  bool audit_keys = false;
  // Asks the driver at every call whether tensors lie in live memory of the device. The memory of
  // each static input has to be the allocation it was; each input from outside, as far as its
  // strides reach, each count and each buffer to write into has to lie in a live one, not in the
  // host's own memory. Three driver calls each, six for an input.
  bool addresses = false;
  // Fills all that a graph writes with 0xCB bytes before each call, so that whoever kept a pointer
  // to what lay there sees it. One driver call per stretch of memory.
  bool fill_expired = false;
};

// What one rank of several would do with a call, and then what all of them do.
struct RankVote {
  const Program* program = nullptr;
  std::span<int64_t> bucket;        // Padded extent of each symbol. Agreed: the maximum over ranks,
                                    // which joint policies then pad to a bucket of theirs.
  RunKind kind = RunKind::kReplay;  // Agreed: the lowest, in the order eager, warm-up, record,
                                    // replay.
  // Agreed: whether all ranks proposed this bucket. If not, all vote again, on what they can do in
  // the agreed one.
  bool unanimous = true;
};

// For programs whose ranks must run in the same way, because they launch collectives.
struct RankOptions {
  // What ranks agree by: called by every call before it runs, with this rank's vote. Sets it to
  // what was agreed. Under the lane's lock. Null: a rank of its own.
  std::function<absl::Status(RankVote& vote)> vote;
  // Called before a call that was agreed to record, also by ranks that have the graph.
  std::function<absl::Status()> barrier;
};

// Lanes that a session has at most: each has windows of addresses, streams' events and books of its
// own.
inline constexpr int kLanesMax = 1024;

// What a session is made with.
struct SessionOptions {
  int lanes = 1;  // Calls on different lanes may run at the same time. 1 to kLanesMax.
  Stance stance = Stance::kRecord;  // What calls may do about graphs.
  int warmup_runs = 1;              // Calls of a bucket that run before it is recorded. >= 1.
  // Records programs that are `thread_safe` on a thread of the session; calls run eagerly
  // meanwhile.
  bool record_in_background = false;
  // Times live calls with and without their graph, and gives up graphs that are not faster. Per
  // graph at least 20 of each, medians, Welch's t-test at p < 0.01 before it is given up; again
  // after 10,000 calls.
  bool gate = false;
  // Whether kernels of packages that have several variants are timed.
  VariantTiming variant_timing = VariantTiming::kOnDevice;
  LimitOptions limits;
  MemoryOptions memory;
  CheckOptions checks;
  RankOptions ranks;
  // Writes what happens to a file, on a thread of the session. A file that cannot be written later
  // on ends the trace, for one line to `log` from that thread.
  TraceOptions trace;
  // Keeps a drawing of every recording, to be dumped. Host memory, about 100 bytes per graph node,
  // edge, tensor and buffer. A recording makes up to four driver calls more per graph, and per
  // graph node. See Session::Dump.
  bool keep_drawings = false;
  // Receives one line per program and reason that keeps its calls from replaying. It has the
  // addresses of static inputs that moved, the number of graphs at a limit, the leases that lie
  // around the call or the extents that are too large. One line also per static input that is
  // copied from then on, and per program of which a recording captured no work, because it launched
  // on another stream. Null: nobody. Called under the lane's lock, so it must not call the session.
  std::function<void(const std::string& line)> log;
  // What recordings are timed by: nanoseconds that never go back; null: a steady clock. See
  // NodeInfo::record_ns, one of the things that say which graph goes first. Called by whoever
  // records.
  std::function<int64_t()> now_ns;
};

struct WarmOptions {
  // Static inputs for the warm-up runs, of the same program. Required if the program mutates a
  // static input; what it mutates of them must share no byte then with the binding that is warmed.
  const Binding* scratch = nullptr;
  int lane = 0;
  // Called after each bucket with (done, total); null: nobody. Must not call the session.
  std::function<void(int64_t done, int64_t total)> progress;
};

// One of the calls that feed each other and are to be warmed.
struct WarmStep {
  // Element `input` of Call::inputs is output `output` of step `step`, from its first element on:
  // an earlier one, or this one, which then reads its own last run, and in its first that output of
  // the step before.
  struct Feed {
    size_t input = 0;
    size_t step = 0;
    size_t output = 0;
  };

  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null only if the program binds nothing.
  std::vector<int64_t> bucket;       // One padded extent per symbol.
  std::vector<int64_t> scalars;      // All of them, in spec order.
  std::vector<Feed> feeds;           // Other inputs are the caller's own memory.
  std::vector<Feed> counts{};        // The same of Call::counts, of which `input` is an index.
  const Binding* scratch = nullptr;  // As WarmOptions::scratch, in its place.
};

// Errors: kInvalidArgument a number that is outside of its range.
absl::Status ValidateOptions(const SessionOptions& options);

}  // namespace coppice
