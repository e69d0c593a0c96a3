// A session: wraps programs so that each call replays the graph of its shape bucket.
//
//   call ─► bucket ─► node ─► stage inputs ─► launch graph ─► lease of the outputs
//
// The first call of a bucket warms the program up (and its result is that call's result), the
// second records the graph and launches it, every later one replays. All nodes of a lane share one
// window of memory: the pool is as large as the largest bucket, in whatever order buckets arrive.
//
//   auto session = *Session::Create(context, {});
//   const Program* program = *session->Register(spec, callable);
//   const Binding* weights = *session->Bind(*program, static_inputs);
//   const Tensor inputs[] = {tokens};
//   Lease lease = *session->Run(
//       {.program = program, .binding = weights, .inputs = inputs, .stream = stream});
//
// Paths. A call whose input is an output of an earlier one of the path, still leased, reads it
// where it lies (if it lies as the bucket would have it; else it is staged) and is that call's
// child: its graph is planned around all outputs of the path that are leased. So is a call inside a
// ChainScope. Every other call is a root: its graph begins at the window's start
// and writes over whatever was borrowed there. Graphs are found by what they were planned around,
// not by history, so that a loop settles on a few:
//
//   f(x)        root                     y1 at 0
//   f(y1)       around y1                y2 behind it
//   f(y2)       around y2 (y1 dropped)   y3 at 0, and f(y3) is the graph of f(y1) again
//
// An input in the session's memory that nobody leases, or that was written over, is an error. So is
// an output of another lane, unless a ReadScope on the call's stream is open on it.
//
// Threads: any method from any thread. Calls on one lane run one after another; calls on different
// lanes at the same time, then also of one callable. The calling thread must have the session's
// context current. A stream given to a lane must live until the lane's next call, or its session's
// end. A recording in the background holds no lock that a call waits for.
//
// Captures. A session never records an event on a stream that captures, which would change that
// capture: while the stream that a lane ran on last captures, a call on another stream and whatever
// waits for the lane's work fail with kFailedPrecondition, and leave the capture as it was. No
// other thread may begin a capture on such a stream during a call of the session, nor any thread
// while a recording is under way in the background: WaitForRecordings before.
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
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
#include "coppice/graphs/trace.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/stream.h"

namespace coppice {

// A registered program, and one set of its static inputs and outputs; made by a session, valid
// while it lives.
class Program;
class Binding;

// What a session may do about graphs.
enum class Stance : uint8_t {
  kRecord,      // Warm up, record and replay.
  kReplayOnly,  // Replay what is recorded; everything else runs eagerly.
  kEager,       // No graphs.
  kStrict,      // Replay; a call that cannot is an error that says why, and runs nothing.
};

// What a call does that would need one graph too many.
enum class OnLimit : uint8_t {
  kEager,
  kError,
  kEvict,  // Drops the graph of the same program and lane that is worth least: long unused, large
           // in bytes and cheap to record again. Never one in flight or with leased outputs; eager
           // if all are.
};

// What one rank of several would do with a call, and then what all of them do.
struct RankVote {
  const Program* program = nullptr;
  std::span<int64_t> bucket;  // Padded extent of each symbol. Agreed: the maximum over the ranks.
  Path path = Path::kReplay;  // Agreed: the lowest, in the order eager, warm-up, record, replay.
  // Agreed: whether all ranks proposed this bucket. If not, all vote again, on what they can do in
  // the agreed one.
  bool unanimous = true;
};

struct SessionOptions {
  int lanes = 1;                // Windows that may run at the same time. >= 1.
  int64_t window_bytes = 0;     // Virtual size of a lane's windows; 0: device memory.
  int64_t workspace_bytes = 0;  // Per lane, for libraries; 0: none.
  int64_t copy_out_bytes = 0;   // Per lane, mapped at once, for OutputMode::kCopyOut; 0: none.
  int graphs_per_program_max = 1024;   // Per lane. >= 0.
  int rerecords_per_bucket_max = 128;  // Because a static input moved; those beyond count as graphs
                                       // over the limit. >= 0.
  OnLimit on_limit = OnLimit::kEager;
  // Bytes that the session may hold at once: its windows, its graphs (an estimate) and what the
  // application reports; 0: no budget. Eager and node windows that are idle are unmapped first, and
  // mapped again when they are needed; a recording that still lacks room does what `on_budget`
  // says. A program that does not fit even without graphs fails with kResourceExhausted.
  int64_t budget_bytes = 0;
  OnLimit on_budget = OnLimit::kEvict;  // kEvict drops graphs of any program, idle lanes' too.
  Stance stance = Stance::kRecord;
  int warmup_runs = 1;  // Calls of a bucket that run before it is recorded. >= 1.
  // Records programs that are `thread_safe` on a thread of the session; calls run eagerly
  // meanwhile.
  bool record_in_background = false;
  // Times live calls both ways until the faster one is known, per graph: at least 20 of each,
  // medians, Welch's t-test at p < 0.01 before a graph is given up; again after 10,000 calls.
  bool gate = false;
  // For tests: captures every program twice when it is recorded, the second time with other values
  // in what is not in the key, and once more at the graph's first replay; refuses the bucket if a
  // kernel's parameters differ: an error that names kernel, parameter and bytes. The padding of a
  // parameter's struct counts, so zero it. Needs a driver of CUDA 12.4.
  bool audit_keys = false;
  // For tests: asks the driver at every call whether the memory of each static input and of each
  // buffer to write into is still the allocation it was; one driver call each.
  bool check_addresses = false;
  // For tests: a graph's call first fills all that the graph writes with 0xCB bytes, so that
  // whoever kept a pointer to what lay there sees it. One driver call per stretch of memory.
  bool poison_expired = false;
  // Receives one line per (program, reason) that keeps a call from replaying, with the addresses of
  // static inputs that moved and the number of graphs at a limit, and one per static input that is
  // copied from then on; null: nobody. Called under the lane's lock, so it must not call the
  // session.
  std::function<void(const std::string& line)> log;
  // For programs whose ranks must take the same path, because they launch collectives: called by
  // every call before it runs, under the lane's lock, with this rank's vote; sets it to what was
  // agreed. `barrier` is called before a call that was agreed to record, also by ranks that have
  // the graph. Null: a rank of its own.
  std::function<absl::Status(RankVote& vote)> vote;
  std::function<absl::Status()> barrier;
  // Writes what happens to a file, on a thread of the session. A file that cannot be written later
  // on ends the trace, for one line to `log` from that thread.
  TraceOptions trace;
};

// Where a call's outputs go.
enum class OutputMode : uint8_t {
  kBorrow,     // They stay in the lane's window; see lease.h.
  kCopyOut,    // Copied behind the graph to memory of the lane's own; needs copy_out_bytes.
  kWriteInto,  // Copied behind the graph into Call::targets.
};

// One request. The spans are read during Run only.
struct Call {
  const Program* program = nullptr;
  const Binding* binding = nullptr;  // Null only if the program binds nothing.
  std::span<const Tensor> inputs;    // The copied inputs, in spec order, at real extents.
  std::span<const int64_t> scalars;  // All scalars, in spec order.
  CuStream stream = nullptr;         // Any stream of the context but the legacy one; not capturing.
  int lane = 0;
  Poison poison = Poison::kOff;  // For tests of padding: overrides every fill.
  OutputMode output_mode = OutputMode::kBorrow;
  std::span<const Tensor>
      targets{};  // For kWriteInto: one dense tensor per output, at real extents.
};

// One recorded graph, or a warm bucket that has none; for people and tools.
struct NodeInfo {
  std::string program;
  std::string variant;
  std::vector<int64_t> bucket;  // Padded extent of each symbol.
  int lane = 0;
  bool recorded = false;     // False: warmed up only.
  int64_t plan_height = 0;   // Bytes.
  int64_t live_bytes = 0;    // Most bytes live at once, those around it included, from the
                             // validator's sweep: no plan is lower.
  int64_t around_bytes = 0;  // Bytes of the live outputs it was planned around; 0 for a root.
  const char* plan_method = "";
  int64_t graphs = 0;       // CUDA graphs: 1, and one more for each break.
  int64_t graph_nodes = 0;  // Nodes of the CUDA graphs.
  int64_t exec_bytes = 0;   // Device memory of the graphs; an estimate, see graph_memory.h.
  int64_t record_ns = 0;    // Host time of the recording, driver included.
  int64_t replays = 0;      // Launches of the graph.
};

// What Run would do with a call.
struct Explanation {
  absl::Status status;  // Run's error, such as the first guard that fails; OK if it would run.
  Path path = Path::kReplay;
  Reason reason = Reason::kNone;
  std::optional<NodeInfo> node;  // That would replay.
  std::string text;              // One line for people.
};

struct SessionStats {
  int64_t calls = 0;                            // Sum of `paths`.
  std::array<int64_t, kPathCount> paths{};      // By Path.
  std::array<int64_t, kReasonCount> reasons{};  // By Reason, calls that did not replay.
  int64_t captures_retried = 0;                 // Recordings broken from outside, tried again.
  int64_t recordings = 0;                       // Graphs recorded, Warm's included.
  int64_t evictions = 0;                        // Graphs dropped for room.
  int64_t remaps = 0;                           // Replays that had to map their memory again.
  int64_t inputs_in_place = 0;                  // Inputs read where an earlier call left them.
  int64_t inputs_demoted = 0;   // Static inputs that moved too often and are copied.
  int64_t stream_switches = 0;  // Calls that had to wait for the lane's last stream.
  int64_t real_elements = 0;    // Staged elements the callers brought ...
  int64_t padded_elements = 0;  // ... and what they were padded to.
};

// Fills the host bytes that it is given with a constant's contents. Called under the locks of
// lanes, so it must not call the session.
using ConstantSource = std::function<absl::Status(std::span<std::byte> bytes)>;

// What becomes of constants while a session is suspended.
enum class SuspendedConstants : uint8_t {
  kKeep,    // They stay on the device.
  kSave,    // They are copied to the host, and back.
  kReload,  // They are dropped; their sources fill them again.
};

struct SuspendOptions {
  SuspendedConstants constants = SuspendedConstants::kSave;
  bool refuse_leases = false;  // Fail if outputs are leased, instead of saving them on the host.
  bool drop_graphs = false;    // Also drop graphs without leased outputs; their buckets stay warm.
};

// The idle memory of one lane, lent to whoever holds this. Calls on the lane are refused meanwhile.
// Ends before its session.
class [[nodiscard]] Loan {
 public:
  Loan(Loan&& other) noexcept
      : lane_(std::exchange(other.lane_, nullptr)), data_(other.data_), bytes_(other.bytes_) {}
  Loan& operator=(Loan&&) = delete;
  // Requires: what the borrower did with the memory has run on the device.
  ~Loan();

  // Ends the loan; the lane's next call waits, on the device, for the work queued on `stream` so
  // far. Errors: the driver's; the loan has ended all the same, and the host has waited.
  absl::Status Return(CuStream stream);

  DeviceAddress data() const { return data_; }  // Contents undefined.
  int64_t bytes() const { return bytes_; }

 private:
  friend class Session;
  Loan(internal::Lane* lane, DeviceAddress data, int64_t bytes)
      : lane_(lane), data_(data), bytes_(bytes) {}

  internal::Lane* lane_;  // Null once it ended or was moved from.
  DeviceAddress data_;
  int64_t bytes_;
};

// While it lives, calls on its lane are children of those before it in the scope: their graphs
// leave all leased outputs of the chain alone. The first is a root. Ends before its session.
class [[nodiscard]] ChainScope {
 public:
  ChainScope(ChainScope&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
  ChainScope& operator=(ChainScope&&) = delete;
  ~ChainScope();

 private:
  friend class Session;
  explicit ChainScope(internal::Lane* lane) : lane_(lane) {}

  internal::Lane* lane_;  // Null once moved from.
};

class Session {
 public:
  // Makes a session on `context`, which must outlive it.
  // Errors: kInvalidArgument an option; by its errno, a trace file that cannot be made; otherwise
  // the driver's.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Context& context,
                                                         const SessionOptions& options);
  // Waits for recordings and for the work in flight, then releases everything. Leases that are left
  // are empty from then on. Requires: no call is running; no scope is left (checked); no stream
  // that a lane ran on last captures.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Adds a program. Errors: kInvalidArgument as ValidateSpec, or its name and variant are taken.
  absl::StatusOr<const Program*> Register(ProgramSpec spec, Callable callable);

  // The program of this name and variant, or null. Cost: O(programs); look it up once.
  const Program* Find(const std::string& name, const std::string& variant = {}) const;

  // Binds the static inputs of `program`, in spec order, then its static outputs. Equal addresses
  // give the same binding, so that graphs recorded for them are found again.
  //
  // An input that misses its alignment, or has moved in too many re-records (4), is copied by every
  // call instead of being part of the key, unless the program mutates it or it stages
  // kCopyInputsMax inputs already.
  //
  // Errors: kInvalidArgument  wrong count, dtype, sizes or a null address; not dense; one that lies
  //                           in a window of this session, where graphs write; or a misaligned one
  //                           that cannot be copied.
  absl::StatusOr<const Binding*> Bind(const Program& program, std::span<const Tensor> statics);

  // Ends a binding, before its memory is freed: drops the graphs that nobody else can use and waits
  // for the lanes' work. A later call with it is refused with kFailedPrecondition; Bind makes it
  // valid again. Errors: kInvalidArgument another session's; otherwise the driver's.
  absl::Status Unbind(const Binding& binding);

  // Runs the program once and returns a lease of its outputs. On a hit: no heap allocation, no lock
  // but the lane's, and one driver call, or two if anything is staged; one more if outputs or
  // mutated inputs are copied behind the graph, four more if the lane ran on another stream last.
  //
  // Errors: kInvalidArgument     the call does not fit the program's spec, or a guard fails: what,
  //                              and where;
  //         kOutOfRange          over the largest bucket, and the symbol says error;
  //         kFailedPrecondition  it would write over outputs that a ReadScope holds; an input that
  //                              is stale; an unbound binding; under Stance::kStrict, no replay;
  //                              the session is suspended, or the lane lent; the stream captures
  //                              (a replay on the lane's last stream finds out by its launch, which
  //                              breaks the capture: kAborted);
  //         kResourceExhausted   not even the eager path fits: the program may have run in part; no
  //                              room to copy out; under Stance::kStrict, none for the memory of
  //                              the graph; or the graph limit or the budget, under
  //                              OnLimit::kError;
  // the callable's own error, if it fails outside a capture; after a sticky device error, that
  // error for ever.
  absl::StatusOr<Lease> Run(const Call& call);

  // Adds the program to the capture that `call.stream` is in, as a child graph in the order of that
  // stream, at this call's extents and inputs. Its memory is its own, for as long as the session
  // lives, so that the caller may replay his graph as often as he likes; the outputs are written by
  // every launch of it. The bucket must be warm. The inputs must not lie in a lane's window.
  //
  // Errors: kFailedPrecondition  the stream does not capture, or the bucket was never warmed up;
  //         otherwise as Run, or kAborted if the capture is invalid.
  absl::StatusOr<Lease> Include(const Call& call);

  // What Run would do with `call`, as far as that does not depend on whether a budget has room.
  // Changes nothing and runs nothing. Allocates.
  Explanation Explain(const Call& call) const;

  // Opens a chain on a lane. Errors: kInvalidArgument no such lane; kFailedPrecondition the lane
  // has one already.
  absl::StatusOr<ChainScope> Chain(int lane = 0);

  struct WarmOptions {
    // Static inputs for the warm-up runs. Required if the program mutates a static input.
    // Must differ from the binding warmed then.
    const Binding* scratch = nullptr;
    int lane = 0;
    // Called after each bucket with (done, total); null: nobody. Must not call the session.
    std::function<void(int64_t done, int64_t total)> progress;
  };

  // Records `buckets` (one padded extent per symbol each) ahead of traffic, as roots, the one with
  // the most elements first, on inputs of zeros. Graphs of children are recorded by traffic.
  // Buckets recorded already are skipped. Waits for the device; trims the eager window.
  //
  // Errors: kInvalidArgument    an extent that is no bucket, scalars that do not fit;
  //         kFailedPrecondition the program mutates static inputs and there is no scratch; the
  //                             stance forbids recording; a bucket could not be recorded; the
  //                             session is suspended, or the lane lent;
  //         kResourceExhausted  no room for a bucket, or for its graph.
  absl::Status Warm(const Program& program,
                    const Binding* binding,
                    std::span<const std::vector<int64_t>> buckets,
                    std::span<const int64_t> scalars,
                    const WarmOptions& options);

  // What the session may do from the next call on.
  void SetStance(Stance stance);

  // Restarts the random state of all programs at offset 0. A program's offset grows by its
  // random_numbers_per_call with every call, however that runs.
  void SetSeed(uint64_t seed);

  // Drops the graphs of `program`, or of all if null, but those with leased outputs; waits for the
  // lanes' work. Returns how many. Their buckets stay warm: the next call records, for
  // Reason::kEvicted. Errors: the driver's.
  absl::StatusOr<int64_t> Evict(const Program* program);

  // Waits until no recording is under way in the background.
  void WaitForRecordings();

  // Releases physical memory that no lease holds: of the eager windows, of the node windows above
  // every graph, and spare handles. Waits for the lanes' work.
  absl::Status Trim();

  // Places a constant of these sizes in the session's memory, for as long as the session lives, and
  // fills it from `source`, which is kept for Suspend. Programs may bind it as a static input.
  // Waits for the device. Errors: kInvalidArgument  sizes that are negative, too many or without
  // bytes, or no source; kFailedPrecondition while suspended; kResourceExhausted; the source's; the
  // driver's.
  absl::StatusOr<Tensor> AddConstant(DType dtype,
                                     std::span<const int64_t> sizes,
                                     ConstantSource source);

  // Tells the budget what the application itself holds on the device; ask before allocating. Graphs
  // may go for it. Errors: kInvalidArgument if negative; kResourceExhausted if the budget has no
  // such room: what was told before counts on.
  absl::Status SetExternalBytes(int64_t bytes);

  // Gives the physical memory of all windows back to the device, until Resume. Waits for recordings
  // and for the lanes' work. Leased outputs keep their leases and contents, but cannot be read
  // meanwhile; every call fails. Graphs, and with them their estimated bytes, stay unless asked to
  // go.
  //
  // Errors: kFailedPrecondition  suspended already, a read scope open, a lane lent, or, with
  //                              refuse_leases, outputs leased: nothing was done;
  //         otherwise the driver's: the session is as before, or suspended if its memory cannot be
  //         mapped again.
  absl::Status Suspend(const SuspendOptions& options);
  // Maps the memory again, at the same addresses, and fills what Suspend saved or dropped; then
  // every graph replays as before. Waits for the device. Errors: kFailedPrecondition if not
  // suspended; kResourceExhausted without room, for which no graph goes; the sources' or the
  // driver's: still suspended then.
  absl::Status Resume();

  // Lends the mapped memory of a lane's node window while nothing of the lane is in flight and
  // nobody leases what lies there. Errors: kFailedPrecondition if that is not so, or the lane is
  // lent or suspended; kInvalidArgument no such lane; the driver's.
  absl::StatusOr<Loan> Lend(int lane = 0);

  // Zeroes all memory of a lane's windows, in the order of `stream` and of the lane's calls, so
  // that the next caller finds nothing of the last one. Errors: kFailedPrecondition if outputs
  // there are leased, the lane is lent or suspended, or the stream captures; kInvalidArgument no
  // such lane; the driver's.
  absl::Status Scrub(CuStream stream, int lane = 0);

  // Waits until the trace's file holds all that happened before. Does nothing without a trace.
  // Errors: by its errno, a write that failed since Create.
  absl::Status FlushTrace() const;

  SessionStats stats() const;           // Cost: O(lanes), takes each lane's lock.
  std::vector<NodeInfo> nodes() const;  // In order of creation per lane. Allocates.
  const Pool& pool() const;             // Its figures count no bytes of leases dropped before.

 private:
  friend class ChainScope;
  struct State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace coppice
