// A session: runs programs so that each call replays the graph of its shape bucket.
//
//   call ─► bucket ─► node ─► stage inputs ─► launch graph ─► lease of the outputs
//
// The first call of a bucket warms the program up; that run gives the call's result. The second
// call records the graph and launches it. Every later call replays it. All nodes of a lane share
// one window of memory, so the pool is as large as the largest bucket, in any order of the buckets.
//
//   auto session = *Session::Create(context, {});
//   const Program* program = *session->Register(spec, callable);
//   const Binding* weights = *session->Bind(*program, static_inputs);
//   const Tensor inputs[] = {tokens};
//   Lease lease = *session->Run(
//       {.program = program, .binding = weights, .inputs = inputs, .stream = stream});
//
// Paths. A call is the child of an earlier call if its input is an output of that call that is
// still leased. It reads the output in place if the layout is that of its bucket; if only padding
// has to be filled, the output is staged. Its graph is planned around all leased outputs of the
// path. A call inside a ChainScope is a child, too. Every other call is a root: its graph begins at
// the window's start and writes over borrowed outputs there. Graphs are found by the outputs that
// they were planned around, not by history, so a loop needs only a few:
//
//   f(x)        root                     y1 at 0
//   f(y1)       around y1                y2 behind it
//   f(y2)       around y2 (y1 dropped)   y3 at 0, and f(y3) is the graph of f(y1) again
//
// An input in the session's memory is an error if it is not leased, or was written over. An output
// of another lane is an error, too, unless a ReadScope on the call's stream is open on it.
//
// Threads: any method from any thread. Calls on one lane run one after another. Calls on different
// lanes may run at the same time, even with the same callable. The calling thread must have the
// session's context current. A stream on which a lane runs must live until the lane's next call, or
// the session's end. If it is destroyed earlier, the next call that must be ordered after it waits
// for the whole context and fails with kFailedPrecondition; later calls run on other streams. A
// recording in the background holds no lock that a call waits for.
//
// Captures. A session never records an event on a stream that captures, because that would change
// the capture. If the stream that a lane ran on last captures, two things fail with
// kFailedPrecondition and leave the capture unchanged: a call on another stream, and any method
// that waits for the lane's work. No other thread may begin a capture on such a stream during a
// call of the session. No thread may begin one while a recording is under way in the background:
// call WaitForRecordings first. On a thread that captures another stream in global or thread-local
// mode, a replay breaks that capture and fails with kAborted, because CUDA does not allow the
// launch of a graph there (runtime/tables/capture_legality.documented.tsv has the sources). If that
// capture is relaxed, or on another thread, the replay runs.
//
// After a sticky device error (a fault after which every driver call fails), Run, Warm and Trim
// always return that error.
//
// coppice throws no exceptions itself. If the host runs out of memory, std::bad_alloc passes
// through a call, which may or may not have run the program. The call leaks nothing and leaves no
// open capture, and the session can still be used.
//
// Units: bytes, nanoseconds, elements where a name says so.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/call.h"
#include "coppice/graphs/chain_scope.h"
#include "coppice/graphs/flight_recorder.h"
#include "coppice/graphs/lease.h"
#include "coppice/graphs/metrics.h"
#include "coppice/graphs/package_program.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/rebucket.h"
#include "coppice/graphs/session_memory.h"
#include "coppice/graphs/session_options.h"
#include "coppice/graphs/session_stats.h"
#include "coppice/graphs/session_warming.h"
#include "coppice/graphs/trace.h"
#include "coppice/runtime/stream.h"

namespace coppice {

namespace package {
class LoadedPackage;
}  // namespace package

class Session {
 public:
  // Makes a session on `context`, which must outlive it. Errors: kInvalidArgument an option is out
  // of range; the code for the errno if the trace file cannot be made; otherwise the driver's.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Context& context,
                                                         const SessionOptions& options);
  // Waits for recordings and for the work in flight, then releases everything. Remaining leases
  // become empty. Requires: no call is running; no scope is open (checked); no stream that a lane
  // ran on last captures.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Adds a program. Errors: kInvalidArgument as ValidateSpec, or if its name and variant are taken.
  absl::StatusOr<const Program*> Register(ProgramSpec spec, Callable callable);

  // The same for a callable whose requests are known without running it. `dry_run` makes the
  // requests that `callable` makes, and nothing else. It gets Phase::kWarmUp, no stream, and
  // addresses without memory behind them; the steps that it passes to Break never run. No bucket
  // needs a warm-up, and SessionWarming::Plan plans the program. A recording whose requests differ
  // from those of `dry_run` ends like any recording that differs from its warm-up, and its bucket
  // is then warmed up.
  absl::StatusOr<const Program*> Register(ProgramSpec spec, Callable callable, Callable dry_run);

  // Adds a program of a package. The package must live until Unregister has returned (which waits
  // for running calls, but not for Plan and SaveProfile), or the session has ended. Register runs
  // nothing, and no bucket needs a warm-up, because the package says what the program does at any
  // extents.
  //
  // Errors: kNotFound         the package has no such program;
  //         kInvalidArgument  as ValidateSpec; its name and variant are taken; a policy or a
  //                           claim names no symbol; a symbol has a policy but no claim; a
  //                           constant or a function is missing or does not fit;
  //         kUnimplemented    a child program has seeds, scalars or outputs that are aliases;
  //         otherwise as SessionMemory::AddConstant.
  absl::StatusOr<const Program*> Register(const package::LoadedPackage& package,
                                          const std::string& program,
                                          PackageProgramOptions options);

  // The program of this name and variant, or null. Cost: O(programs); look it up once.
  const Program* Find(const std::string& name, const std::string& variant = {}) const;
  // The spec that `program` was registered with; later changes of policies are not in it.
  static const ProgramSpec& SpecOf(const Program& program);

  // Brings `program` back to the state after Register, except for its bindings, its policies and
  // its observed sizes. No call replays an earlier recording; every bucket warms up again; a bucket
  // that could not be recorded is tried again; `auto` symbols forget the extents that they have
  // seen; static inputs that moved too often are part of the key again; reasons are logged again.
  // Graphs are dropped as soon as none of their runs is in flight and their outputs are not leased;
  // until then the outputs stay valid. Waits for the lanes' work and for recordings in the
  // background; other threads may call the program meanwhile.
  //
  // Errors: kInvalidArgument the program is another session's; kFailedPrecondition it was
  // unregistered; otherwise the driver's, as for Evict. After a driver error the program is reset
  // nevertheless, and its graphs are dropped by later calls of their lanes that do not replay.
  absl::Status Reset(const Program& program);

  // Ends `program`: its name and variant may be registered again, its bindings end, its callable is
  // destroyed and its graphs are dropped, as by Reset. Calls that run meanwhile succeed or fail
  // with kFailedPrecondition; later uses of `program` fail with that code. The object, without its
  // callable, lives as long as the session, and so do the leases of its calls. Graphs that Include
  // put into the caller's captures stay there. Errors: as Reset.
  absl::Status Unregister(const Program& program);

  // Binds the static inputs of `program`, in spec order, then its static outputs. Equal addresses
  // give the same binding, so graphs recorded for them are found again.
  //
  // An input that is not aligned as its spec says, or that has moved in too many recordings
  // (LimitOptions::static_moves_max), is copied by every call instead of being part of the key,
  // unless the program mutates it or its elements overlap.
  //
  // Errors: kInvalidArgument  wrong count, dtype, sizes or strides; an address is null, or lies in
  //                           a window of this session, where graphs write; a misaligned tensor
  //                           cannot be copied;
  //         kFailedPrecondition  the program was unregistered.
  absl::StatusOr<const Binding*> Bind(const Program& program, std::span<const Tensor> statics);

  // Ends a binding. Call it before its memory is freed: it drops the graphs that only this binding
  // can use and waits for the lanes' work, so nothing uses the memory after it returns. A later
  // call with the binding is refused with kFailedPrecondition. Bind makes it valid again, unless
  // Unbind was called 1024 times after that: then the object is gone. Waits for recordings in the
  // background.
  // Errors: kInvalidArgument the binding is another session's; otherwise the driver's.
  absl::Status Unbind(const Binding& binding);

  // Runs the program once and returns a lease of its outputs. A replay makes no heap allocation,
  // takes only the lane's lock, and makes one driver call, or two if anything is staged. It makes
  // one more if outputs or mutated inputs are copied after the graph, and four more if the lane ran
  // on another stream last.
  //
  // Errors: kInvalidArgument     the call does not fit the program's spec, or a guard fails (the
  //                              message says what and where); the stream does not exist;
  //         kOutOfRange          an extent is over the largest bucket, and its symbol has
  //                              OverMaximum::kError;
  //         kFailedPrecondition  the call would write over outputs that a ReadScope holds; an input
  //                              is stale; the binding was unbound, or the program unregistered;
  //                              under Stance::kStrict, the call cannot replay; the session is
  //                              suspended, or the lane is lent; the call's stream, or the stream
  //                              of the lane's last call, captures (a replay on the lane's last
  //                              stream notices only at its launch, which breaks the capture:
  //                              kAborted); the lane's last stream was destroyed; with
  //                              checks.addresses, an address is in no allocation;
  //         kResourceExhausted   not even the eager path fits (the program may have run in part);
  //                              no room to copy out; under Stance::kStrict, no room for the memory
  //                              of the graph; the graph limit or the budget is reached, with
  //                              OnLimit::kError;
  //         the callable's own error, if it fails outside a capture;
  //         after a sticky device error, always that error.
  absl::StatusOr<Lease> Run(const Call& call);

  // Adds the program to the capture that `call.stream` is in, as a child graph in the order of that
  // stream, at this call's extents and inputs. The child has its own memory as long as the session
  // lives, so the caller may launch the captured graph any number of times; every launch writes the
  // outputs. The bucket must be warm. The inputs must not lie in a lane's window.
  //
  // Errors: kFailedPrecondition  the stream does not capture, or the bucket was never warmed up;
  //         otherwise as Run, or kAborted if the capture is invalid.
  absl::StatusOr<Lease> Include(const Call& call);

  // What Run would do with `call` if nothing were in flight. (For Run, work that the lane has not
  // yet seen complete counts as in flight.) The limits are taken into account: whether a graph may
  // be dropped for another one, and whether the budget has room to map a graph's memory again. Some
  // things are not known before a run: how much memory a recording or an eager run takes (so Run
  // may fail with kResourceExhausted although this says OK); which outputs under a scope a new
  // graph would write over; whether a static input has moved too often; the choices of the gate and
  // of other ranks; the order of streams. Runs nothing, and changes only objects that no call can
  // use any more. Allocates.
  Explanation Explain(const Call& call) const;

  // Opens a chain on a lane. Errors: kInvalidArgument there is no such lane; kFailedPrecondition
  // the lane already has a chain.
  absl::StatusOr<ChainScope> Chain(int lane = 0);

  // What the session may do from the next call on.
  void SetStance(Stance stance);

  // The generator of all programs whose specs name none. Every call advances it, unless it is
  // refused or fails.
  Generator& generator();
  // Restarts that generator with this seed, at offset 0.
  void SetSeed(uint64_t seed);

  // Drops the graphs of `program`, or of all programs if null, except those with leased outputs.
  // Returns how many. Waits for the lanes' work and for recordings in the background. The buckets
  // stay warm: their next call records, with Reason::kEvicted. A bucket that could not be recorded
  // is tried again. Errors: the driver's.
  absl::StatusOr<int64_t> Evict(const Program* program);

  // Waits until no recording is under way in the background.
  void WaitForRecordings();

  // A node from nodes() or Explain as a drawing in Graphviz's language DOT. Each of its CUDA graphs
  // is a cluster of graph nodes and edges, with the name, grid, block and shared bytes of each
  // kernel; the host code of breaks is between the clusters. A note lists its tensors, with
  // addresses and bytes, and every buffer of its plan. Needs SessionOptions::keep_drawings.
  //
  // Errors: kFailedPrecondition the session keeps no drawings; kNotFound the bucket has no graph,
  // or its graph was dropped since.
  absl::StatusOr<std::string> Dump(const NodeInfo& node) const;

  // A page of all figures of this session for Prometheus: see metrics.h. The method makes no driver
  // call and changes nothing. It also works after a sticky error and while the session is
  // suspended. The figures of each lane are read together, under its lock; those of memory are read
  // at another moment. Cost: O(graphs), allocates; calls of a lane wait about 30 ns for each of its
  // graphs.
  std::string MetricsText(MetricsFormat format = MetricsFormat::kPrometheus) const;

  SessionStats stats() const;           // Cost: O(lanes), takes each lane's lock.
  std::vector<NodeInfo> nodes() const;  // In order of creation per lane. Allocates.
  // The kernel variants of the registered programs, by bucket. A reset of a program keeps its
  // variants. Allocates.
  std::vector<KernelVariant> variants() const;

  // The session's other interfaces, each in its own header. They live as long as the session.
  SessionMemory& memory() { return *memory_; }
  const SessionMemory& memory() const { return *memory_; }
  SessionWarming& warming() { return warming_; }
  const SessionWarming& warming() const { return warming_; }
  SessionPolicies& policies() { return policies_; }
  const SessionPolicies& policies() const { return policies_; }
  SessionTrace& trace() { return trace_; }
  const SessionTrace& trace() const { return trace_; }
  SessionRecorder& recorder() { return recorder_; }
  const SessionRecorder& recorder() const { return recorder_; }

 private:
  explicit Session(std::unique_ptr<internal::SessionParts> parts);

  const std::unique_ptr<internal::SessionParts> parts_;
  const std::unique_ptr<SessionMemory> memory_;
  SessionWarming warming_{*parts_};
  SessionPolicies policies_{*parts_};
  SessionTrace trace_{*parts_};
  SessionRecorder recorder_{*parts_};
};

}  // namespace coppice
