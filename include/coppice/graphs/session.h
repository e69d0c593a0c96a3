// A session: wraps programs so that each call replays the graph of its shape bucket.
//
//   call ─► bucket ─► node ─► stage inputs ─► launch graph ─► lease of the outputs
//
// The first call of a key warms the program up (and its result is that call's result), the second
// records the graph and launches it, every later one replays. All nodes of a lane share one window
// of memory: the pool is as large as the largest bucket, in whatever order buckets arrive.
//
//   auto session = *Session::Create(context, {});
//   const Program* program = *session->Register(spec, callable);
//   const Binding* weights = *session->Bind(*program, static_inputs);
//   const Tensor inputs[] = {tokens};
//   Lease lease = *session->Run(
//       {.program = program, .binding = weights, .inputs = inputs, .stream = stream});
//
// Threads: any method from any thread. Calls on one lane run one after another; calls on different
// lanes at the same time, then also of one callable. The calling thread must have the session's
// context current. A stream given to a lane must live until the lane's next call, or its session's
// end.
//
// After a sticky device error, Run, Warm and Trim return that error for ever.
//
// coppice throws nothing itself. If the host runs out of memory, std::bad_alloc passes through a
// call, which may have run the program or not; it leaks nothing and leaves no open capture, and the
// session goes on.
//
// Units: bytes, nanoseconds, elements where named so.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/pool.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/lease.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/stream.h"

namespace coppice {

// A registered program and one set of its static inputs; made by a session, valid while it lives.
class Program;
class Binding;

// What a session may do about graphs.
enum class Stance : uint8_t {
  kRecord,      // Warm up, record and replay.
  kReplayOnly,  // Replay what is recorded; everything else runs eagerly.
  kEager,       // No graphs.
};

// What a call does that would need one graph too many.
enum class OnLimit : uint8_t { kEager, kError };

struct SessionOptions {
  int lanes = 1;                      // Windows that may run at the same time. >= 1.
  int64_t window_bytes = 0;           // Virtual size of a lane's windows; 0: device memory.
  int64_t workspace_bytes = 0;        // Per lane, for libraries; 0: none.
  int graphs_per_program_max = 1024;  // Per lane. >= 0.
  OnLimit on_limit = OnLimit::kEager;
  Stance stance = Stance::kRecord;
  // For tests: a call that expires the outputs of a graph first fills them with 0xCB bytes, so that
  // whoever kept a pointer sees it. One driver call per output.
  bool poison_expired = false;
  // Receives one line per (program, reason) that keeps a call from replaying; null: nobody.
  // Called under the lane's lock, so it must not call the session.
  std::function<void(const std::string& line)> log;
};

// One request. The spans are read during Run only.
struct Call {
  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null only if the program has no static input.
  std::span<const Tensor> inputs;    // The copied inputs, in spec order, at real extents.
  std::span<const int64_t> scalars;  // All scalars, in spec order.
  CuStream stream = nullptr;         // Any stream of the context but the legacy one; not capturing.
  int lane = 0;
  Poison poison = Poison::kOff;  // For tests of padding: overrides every fill.
};

// One recorded graph, for people and tools.
struct NodeInfo {
  std::string program;
  std::vector<int64_t> bucket;  // Padded extent of each symbol.
  int lane = 0;
  bool recorded = false;    // False: warmed up only.
  int64_t plan_height = 0;  // Bytes.
  int64_t live_bytes = 0;  // Most bytes live at once, from the validator's sweep: no plan is lower.
  const char* plan_method = "";
  int64_t graph_nodes = 0;  // Nodes of the CUDA graph.
  int64_t record_ns = 0;    // Host time of the recording, driver included.
  int64_t replays = 0;      // Launches of the graph.
};

struct SessionStats {
  int64_t calls = 0;                            // Sum of `paths`.
  std::array<int64_t, kPathCount> paths{};      // By Path.
  std::array<int64_t, kReasonCount> reasons{};  // By Reason, calls that did not replay.
  int64_t captures_retried = 0;                 // Recordings broken from outside, tried again.
  int64_t stream_switches = 0;  // Calls that had to wait for the lane's last stream.
  int64_t real_elements = 0;    // Staged elements the callers brought ...
  int64_t padded_elements = 0;  // ... and what they were padded to.
};

class Session {
 public:
  // Makes a session on `context`, which must outlive it.
  // Errors: kInvalidArgument an option; otherwise the driver's.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Context& context,
                                                         const SessionOptions& options);
  // Waits for the work in flight, then releases everything. Requires: no call is running, no
  // eager lease or scope is left (checked).
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Adds a program. Errors: kInvalidArgument as ValidateSpec, or the name is taken.
  absl::StatusOr<const Program*> Register(ProgramSpec spec, Callable callable);

  // Binds the static inputs of `program`, in spec order. Equal addresses give the same binding, so
  // that nodes recorded for them are found again.
  //
  // Errors: kInvalidArgument  wrong count, dtype, sizes or a null address; not dense; or an input
  // that
  //                           lies in a window of this session, where nodes overwrite it.
  absl::StatusOr<const Binding*> Bind(const Program& program,
                                      std::span<const Tensor> static_inputs);

  // Runs the program once and returns a lease of its outputs. On a hit: no heap allocation, no lock
  // but the lane's, and one driver call, or two if anything is staged.
  //
  // Errors: kInvalidArgument     the call does not fit the program's spec: what, and where;
  //         kOutOfRange          over the largest bucket, and the symbol says error;
  //         kFailedPrecondition  a ReadScope is open on the lane;
  //         kResourceExhausted   not even the eager path fits; or the graph limit, under
  //         OnLimit::kError; the callable's own error, if it fails outside a capture; after a
  //         sticky device error, that error for ever.
  absl::StatusOr<Lease> Run(const Call& call);

  struct WarmOptions {
    // Static inputs for the warm-up runs. Required if the program mutates a static input.
    // Must differ from the binding warmed then.
    const Binding* scratch = nullptr;
    int lane = 0;
    // Called after each bucket with (done, total); null: nobody. Must not call the session.
    std::function<void(int64_t done, int64_t total)> progress;
  };

  // Records `buckets` (one padded extent per symbol each) ahead of traffic, in the order given, on
  // inputs of zeros. Buckets recorded already are skipped. Waits for the device; trims the eager
  // window.
  //
  // Errors: kInvalidArgument    an extent that is no bucket, scalars that do not fit;
  //         kFailedPrecondition the program mutates static inputs and there is no scratch; the
  //                             stance forbids recording; or a bucket could not be recorded.
  absl::Status Warm(const Program& program,
                    const Binding* binding,
                    std::span<const std::vector<int64_t>> buckets,
                    std::span<const int64_t> scalars,
                    const WarmOptions& options);

  // Releases physical memory of the eager windows that no lease holds. Waits for the lanes' work.
  absl::Status Trim();

  SessionStats stats() const;           // Cost: O(lanes), takes each lane's lock.
  std::vector<NodeInfo> nodes() const;  // In order of creation per lane. Allocates.
  const Pool& pool() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace coppice
