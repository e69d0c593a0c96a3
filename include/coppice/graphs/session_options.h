// Options of a session: what it may do, how much memory it may use, and what it checks.
//
// tools/describe reads this header. C and Python repeat the first sentence of each field and
// enumerator, and ValidateOptions checks the range at the end of a comment.
//
// Units: bytes where a name says so. Threads: plain values; the functions are called on the threads
// that call the session, unless they say otherwise.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coppice/graphs/flight_recorder.h"
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
  kStrict,      // Replay; a call that cannot replay fails, says why and runs nothing.
};
const char* NameOf(Stance stance);

// What a call does if it would need one graph too many.
enum class OnLimit : uint8_t {
  kEager,  // Runs without a graph.
  kError,  // Fails.
  kEvict,  // Drops the graph that is worth least: long unused, large in bytes and cheap to record
           // again. At a graph limit, it is a graph of the same program and lane. A graph in flight
           // or with leased outputs is never dropped; if there is no other, the call runs eagerly.
};
const char* NameOf(OnLimit on_limit);

// Whether kernels of packages that have several variants are timed before a bucket is recorded, so
// that each bucket launches the fastest variant of each. Timing runs the program six times per
// variant on scratch memory (functions of `call` steps run, too), and waits for the call's stream.
// It needs as much memory as an eager run, and copies of the static inputs that the program writes.
// If there is not enough memory, the first variants are launched. They are also launched if ranks
// vote, because all ranks must choose the same.
enum class VariantTiming : uint8_t {
  kOnDevice,  // On a GPU, but not on the emulator, where time means nothing.
  kAlways,    // On a GPU and on the emulator.
  kNever,     // The first variants are launched.
};
const char* NameOf(VariantTiming timing);

// Limits on the number of graphs.
struct LimitOptions {
  int graphs_per_program_max = 1024;  // Graphs of a program on a lane. >= 0.
  // How often a bucket may be recorded again because a static input moved; after that, `on_limit`
  // says what the call does. >= 0.
  int rerecords_per_bucket_max = 128;
  // How often a static input may move in one bucket; after one more move, every call copies it. If
  // several sets of static inputs take turns, choose a number larger than the number of sets. >= 0.
  int static_moves_max = 32;
  OnLimit on_limit = OnLimit::kEager;  // What a call does if it would need one graph too many.
};

// How large the windows are, and how much memory the session may use.
struct MemoryOptions {
  int64_t window_bytes = 0;     // Virtual size of a lane's windows; 0: device memory. >= 0.
  int64_t workspace_bytes = 0;  // For libraries, per lane; 0: none. >= 0.
  int64_t copy_out_bytes = 0;   // For outputs that are copied out, per lane; 0: none. Mapped at
                                // once. >= 0.
  // Bytes that the session may hold at once: its windows, its graphs (an estimate) and the bytes
  // that the application reports; 0: no budget. If room is short, idle eager and plan windows are
  // unmapped first; they are mapped again when they are needed. If a recording still lacks room, or
  // a warm-up lacks room to stage its inputs, `on_budget` says what happens. A program that does
  // not fit even without graphs and padding fails with kResourceExhausted. A call fails in the same
  // way if it lacks room to stage the bucket that ranks agreed on. >= 0.
  int64_t budget_bytes = 0;
  // What a recording does if it lacks room. kEvict drops graphs of any program, including those of
  // idle lanes.
  OnLimit on_budget = OnLimit::kEvict;
};

// Checks for tests of programs and of their callers.
struct CheckOptions {
  // Refuses buckets whose kernels' parameters depend on values that are not in the key. Every
  // program is captured twice when it is recorded, and once more at the graph's first replay. The
  // second capture has other values for all that is not in the key. If parameters differ, the error
  // names kernel, parameter and bytes. The padding of a parameter's struct is compared, too, so
  // zero it. Needs a driver for CUDA 12.4 or later.
  bool audit_keys = false;
  // Asks the driver at every call whether tensors lie in live memory of the device. Each static
  // input must lie in the same allocation as before. Each input from outside the session (with all
  // bytes that its strides reach), each count and each buffer to write into must lie in a live
  // allocation, and not in host memory. Takes three driver calls for each tensor, and six for an
  // input.
  bool addresses = false;
  // Fills all that a graph writes with 0xCB bytes before each call, so that a read through an old
  // pointer is noticed. Takes one driver call per contiguous piece of memory.
  bool fill_expired = false;
};

// What one rank would do with a call; after the vote, what all ranks do.
struct RankVote {
  const Program* program = nullptr;
  std::span<int64_t> bucket;        // Padded extent of each symbol. Agreed: the maximum over ranks,
                                    // which joint policies then pad to one of their buckets.
  RunKind kind = RunKind::kReplay;  // Agreed: the lowest, in the order eager, warm-up, record,
                                    // replay.
  // Agreed: whether all ranks proposed this bucket. If not, all ranks vote again on what they can
  // do in the agreed bucket.
  bool unanimous = true;
};

// For programs that launch collectives, so that all ranks must run in the same way.
struct RankOptions {
  // Called before each call runs, with this rank's vote, to agree with the other ranks. It replaces
  // the vote with the agreed one. It runs under the lane's lock. Null: there are no other ranks.
  std::function<absl::Status(RankVote& vote)> vote;
  // Called before a call that ranks agreed to record, even on ranks that have the graph.
  std::function<absl::Status()> barrier;
};

// Maximum number of lanes of a session. Each lane has its own windows of addresses, stream events
// and statistics.
inline constexpr int kLanesMax = 1024;

// The options that a session is made with.
struct SessionOptions {
  int lanes = 1;  // Calls on different lanes may run at the same time. 1 to kLanesMax.
  Stance stance = Stance::kRecord;  // What calls may do about graphs.
  int warmup_runs = 1;              // Warm-up calls of a bucket before it is recorded. >= 1.
  // Records programs that are `thread_safe` on a thread of the session; calls run eagerly
  // meanwhile.
  bool record_in_background = false;
  // Times live calls with and without their graph, and stops using graphs that are not faster. At
  // least 20 calls of each kind are timed per graph, and their medians are compared. A graph is no
  // longer used if it is slower by Welch's t-test at p < 0.01; it is timed again after 10,000
  // calls.
  bool gate = false;
  // Whether kernels of packages that have several variants are timed.
  VariantTiming variant_timing = VariantTiming::kOnDevice;
  LimitOptions limits;
  MemoryOptions memory;
  CheckOptions checks;
  RankOptions ranks;
  // Writes what happens to a file, on a thread of the session. If the file can no longer be
  // written, the trace ends, and that thread passes one line to `log`.
  TraceOptions trace;
  RecorderOptions recorder;
  // Keeps a drawing of every recording, so that it can be dumped. See Session::Dump. A drawing
  // takes host memory, about 100 bytes per graph node, edge, tensor and buffer. A recording then
  // makes up to four more driver calls per graph, and per graph node.
  bool keep_drawings = false;
  // Receives one line per program and reason that keeps its calls from replaying. Depending on the
  // reason, the line has the addresses of static inputs that moved, the number of graphs at a
  // limit, the leases around the call, or the extents that are too large. There is also one line
  // per static input that calls copy from then on, and per program whose recording captured no
  // work, because it launched on another stream. Null: no lines. Called under the lane's lock, so
  // it must not call the session.
  std::function<void(const std::string& line)> log;
  // The clock for recordings: nanoseconds that never go back; null: a steady clock. It gives
  // NodeInfo::record_ns, which eviction weighs. Called on the thread that records.
  std::function<int64_t()> now_ns;
};

// Errors: kInvalidArgument a number is outside its range.
absl::Status ValidateOptions(const SessionOptions& options);

}  // namespace coppice
