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
// where it lies, if it lies as the bucket would have it, or staged, if only its padding has to be
// filled, and is that call's child: its graph is planned around all outputs of the path that are
// leased. So is a call inside a ChainScope. Every other call is a root: its graph begins at the
// window's start and writes over whatever was borrowed there. Graphs are found by what they were
// planned around, not by history, so that a loop settles on a few:
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
// end: if it was destroyed before, the next that needs its order fails with kFailedPrecondition,
// having waited for the whole context, and what follows runs on another stream. A recording in the
// background holds no lock that a call waits for.
//
// Captures. A session never records an event on a stream that captures, which would change that
// capture: while the stream that a lane ran on last captures, a call on another stream and whatever
// waits for the lane's work fail with kFailedPrecondition, and leave the capture as it was. No
// other thread may begin a capture on such a stream during a call of the session, nor any thread
// while a recording is under way in the background: WaitForRecordings before. On a thread that
// captures another stream in global or thread-local mode, a replay fails with kAborted and has
// broken that capture, because the launch of a graph counts as unsafe there
// (runtime/tables/capture_legality.documented.tsv says how far that is known). It runs if that
// capture is relaxed, and on any other thread.
//
// After a sticky device error, Run, Warm and Trim return that error for ever.
//
// coppice throws nothing itself. If the host runs out of memory, std::bad_alloc passes through a
// call, which may have run the program or not; it leaks nothing and leaves no open capture, and the
// session goes on.
//
// Units: bytes, nanoseconds, elements where named so.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/call.h"
#include "coppice/graphs/chain_scope.h"
#include "coppice/graphs/lease.h"
#include "coppice/graphs/metrics.h"
#include "coppice/graphs/package_program.h"
#include "coppice/graphs/profile.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/rebucket.h"
#include "coppice/graphs/session_memory.h"
#include "coppice/graphs/session_options.h"
#include "coppice/graphs/session_stats.h"
#include "coppice/runtime/stream.h"

namespace coppice {

namespace package {
class LoadedPackage;
}  // namespace package

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

  // Adds a program of a package, which outlives it: until Unregister has returned, which waits for
  // calls that run it but not for Plan and SaveProfile, or the session has ended. Nothing of it is
  // run, and no bucket has to be warmed up: what it does at any extents is known.
  //
  // Errors: kNotFound         the package has no such program;
  //         kInvalidArgument  as ValidateSpec; its name and variant are taken; a policy or
  //                           a claim of no symbol, or a policy of one whose padding nobody claims
  //                           anything about; a constant or a function that is missing or does not
  //                           fit;
  //         kUnimplemented    a child with seeds, scalars or outputs that are aliases;
  //         otherwise as SessionMemory::AddConstant.
  absl::StatusOr<const Program*> Register(const package::LoadedPackage& package,
                                          const std::string& program,
                                          PackageProgramOptions options);

  // The program of this name and variant, or null. Cost: O(programs); look it up once.
  const Program* Find(const std::string& name, const std::string& variant = {}) const;
  // What `program` was registered with; its policies are those of that time.
  static const ProgramSpec& SpecOf(const Program& program);

  // Makes `program` as it was registered, but for its bindings, its policies and what was observed
  // of it: no call replays what was recorded of it before, every bucket warms up anew, what refused
  // it refuses it no more; `auto` symbols have seen no extent, static inputs that moved too often
  // are part of the key again, reasons are logged again. Graphs are dropped as soon as nobody runs
  // them or leases their outputs, which stay right meanwhile. Waits for the lanes' work and for
  // recordings in the background; other threads may call the program meanwhile.
  //
  // Errors: kInvalidArgument another session's; kFailedPrecondition it was unregistered; otherwise
  // the driver's, as of Evict: the program was reset all the same, and its graphs go with later
  // calls of their lanes that do not replay.
  absl::Status Reset(const Program& program);

  // Ends `program`: its name and variant may be registered again, its bindings end, its callable is
  // destroyed and its graphs are dropped, as by Reset. Calls that run meanwhile succeed or fail
  // with kFailedPrecondition. So does whatever comes with `program` later: the object, without its
  // callable, lives as long as the session, and so do the leases of its calls. What Include put
  // into a capture of the caller's stays there. Errors: as Reset.
  absl::Status Unregister(const Program& program);

  // Binds the static inputs of `program`, in spec order, then its static outputs. Equal addresses
  // give the same binding, so that graphs recorded for them are found again.
  //
  // An input that misses its alignment, or has moved in too many recordings
  // (LimitOptions::static_moves_max), is copied by every call instead of being part of the key,
  // unless the program mutates it or its strides put elements onto each other.
  //
  // Errors: kInvalidArgument  wrong count, dtype, sizes, strides or a null address; one that lies
  //                           in a window of this session, where graphs write; or a misaligned one
  //                           that cannot be copied;
  //         kFailedPrecondition  the program was unregistered.
  absl::StatusOr<const Binding*> Bind(const Program& program, std::span<const Tensor> statics);

  // Ends a binding, before its memory is freed: drops the graphs that nobody else can use and waits
  // for the lanes' work, so that nothing uses the memory once this returns. A later call with it is
  // refused with kFailedPrecondition, and Bind makes it valid again, until bindings have ended 1024
  // times more: it is gone then. Waits for recordings in the background. Errors: kInvalidArgument
  // another session's; otherwise the driver's.
  absl::Status Unbind(const Binding& binding);

  // Runs the program once and returns a lease of its outputs. On a hit: no heap allocation, no lock
  // but the lane's, and one driver call, or two if anything is staged; one more if outputs or
  // mutated inputs are copied behind the graph, four more if the lane ran on another stream last.
  //
  // Errors: kInvalidArgument     the call does not fit the program's spec, or a guard fails: what,
  //                              and where; a stream that does not exist;
  //         kOutOfRange          over the largest bucket, and the symbol says error;
  //         kFailedPrecondition  it would write over outputs that a ReadScope holds; an input that
  //                              is stale; an unbound binding or an unregistered program; under
  //                              Stance::kStrict, no replay;
  //                              the session is suspended, or the lane lent; the stream captures
  //                              (a replay on the lane's last stream finds out by its launch, which
  //                              breaks the capture: kAborted), or the lane's last one, or that was
  //                              destroyed; under checks.addresses, an address of no allocation;
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

  // What Run would do with `call` if nothing were in flight, as what a lane has not seen complete
  // counts, limits included: where no graph may go for another one, and where a budget has no room
  // to map a graph's memory again. Not known before a run: how much memory a recording takes, or a
  // run without a graph, so that Run may fail with kResourceExhausted where this says OK; which
  // outputs under a scope a graph to come will write over; that a static input has moved once too
  // often; what a gate and other ranks choose; the order of streams. Changes nothing but what
  // nobody can use any more, and runs nothing. Allocates.
  Explanation Explain(const Call& call) const;

  // Opens a chain on a lane. Errors: kInvalidArgument no such lane; kFailedPrecondition the lane
  // has one already.
  absl::StatusOr<ChainScope> Chain(int lane = 0);

  // Records `buckets` (one padded extent per symbol each) ahead of traffic, as roots, the one with
  // the most elements first, on inputs of zeros. Buckets recorded already are skipped. Of a scalar
  // that a symbol is bound to, no value counts. Waits for the device; trims the eager window.
  //
  // Errors: kInvalidArgument    an extent that is no bucket, two that are none together, or with
  //                             which an expression is negative or has no value, or strides put
  //                             elements onto each other; scalars or a binding that do not fit;
  //         kFailedPrecondition a callable mutates static inputs and there is no scratch; the
  //                             stance forbids recording; a bucket could not be recorded, or is
  //                             being recorded in the background; the session is suspended, or the
  //                             lane lent;
  //         kResourceExhausted  no room for a bucket, or for its graph; a tensor larger there than
  //                             any device; graphs_per_program_max; or the budget does not hold
  //                             all graphs at once: how many it holds.
  absl::Status Warm(const Program& program,
                    const Binding* binding,
                    std::span<const std::vector<int64_t>> buckets,
                    std::span<const int64_t> scalars,
                    const WarmOptions& options);

  // Plans `buckets` of a program of a package as Warm would record them, in this order, all inputs
  // staged. Maps and runs nothing. Errors: kFailedPrecondition a callable, whose allocations a run
  // has to show; otherwise as Warm.
  absl::StatusOr<std::vector<PlannedBucket>> Plan(const Program& program,
                                                  std::span<const std::vector<int64_t>> buckets,
                                                  std::span<const int64_t> scalars) const;

  // Records what calls that feed each other need ahead of traffic: a prefill, a step of decode,
  // that step on its own output. Runs none of them; only a bucket that was never warmed runs once,
  // on zeros. Walks the steps in order and records the graph of each, planned around the outputs
  // that are held where it stands: as if each lease were held until the last step that reads it has
  // run, and a step that feeds itself came again until no other graph is needed. That is for calls
  // outside of a ChainScope, at the bucket's extents and below, whoever decides them. Graphs that
  // are there are skipped. Waits for the device; trims the eager window. `options.progress` gets
  // (step, steps) when a step is reached first; `options.scratch` is not looked at, as each step
  // has its own.
  //
  // Errors: as the other Warm; kInvalidArgument     no program; a feed of an input or a count that
  //                              there is not or that another feeds, from an output that there is
  //                              not, or that is static, of another dtype or rank, or too small;
  //                              from a step to come, or the first from itself;
  //         kFailedPrecondition  a ChainScope is open on the lane.
  absl::Status Warm(std::span<const WarmStep> steps, const WarmOptions& options);

  // Writes to `path` which buckets of its programs were launched how often: since it began, by
  // graphs that are there or were evicted, on all lanes, and in the profiles that it loaded. What
  // Reset and Unregister end is forgotten. Others find the file that was there until all of this
  // one is written. May run beside calls, each of whose lanes waits while it is looked at.
  //
  // Errors: by its errno, a file that cannot be written; otherwise the driver's.
  absl::Status SaveProfile(const std::string& path) const;

  // Records what a profile says ahead of traffic, as roots, as Warm would, one bucket after
  // another, with the lane's lock held for one at a time: first what saves traffic most, which is
  // launches times graph nodes. A run without a graph costs the host about the same for each of its
  // nodes and a replay costs it one launch, whatever is in the graph; that count is the same on
  // every machine, where times are not. Those of equal worth go in the order of the file. What
  // cannot be recorded is left out, and the result says why; what is there already stays. A bucket
  // that would pass a limit is left out, smaller ones after it are not. No graph goes for one of a
  // profile as far as the profile's bytes are right; the first that does ends the recording. Waits
  // for the device; trims the eager window. Counts are carried on: SaveProfile adds to them.
  //
  // Errors: by its errno, a file that cannot be read;
  //         kInvalidArgument     it is no profile, with the JSON pointer of what is wrong, has more
  //                              than 64 MiB, or lists inside each other without end; options: no
  //                              such lane, a negative limit, a binding of none of its programs;
  //         kUnimplemented       another major version;
  //         kFailedPrecondition  the session is suspended, or the lane lent;
  //         otherwise the driver's, if the device is lost. Nothing changed but for the last.
  absl::StatusOr<LoadedProfile> LoadProfile(const std::string& path,
                                            const LoadProfileOptions& options);

  // Replaces the policy of a symbol, by its index in the spec, for all calls from here on; records
  // nothing. Graphs of buckets that are gone are found no more, and dropped when they neither run
  // nor have leased outputs: by this, by Rebucket, or by later calls of their lanes that do not
  // replay. Waits for recordings in the background, and for calls under way. Where ranks vote, each
  // must do so at the same call.
  //
  // Errors: kInvalidArgument another session's program; no such symbol, or one that is never
  // padded, or in a joint policy; a policy that never pads, with another maximum than the
  // registered one, or with buckets that the symbol's bounds forbid; kFailedPrecondition the
  // program was unregistered; otherwise the driver's: the policy was replaced all the same.
  absl::Status SetPolicy(const Program& program, int symbol, PaddingPolicy policy);
  // The policy in force. Errors: kInvalidArgument, kFailedPrecondition as above. Allocates.
  absl::StatusOr<PaddingPolicy> GetPolicy(const Program& program, int symbol) const;

  // Learns the buckets of an observed symbol anew and swaps them in if that saves enough; see
  // rebucket.h. Graphs of the new buckets are recorded first, one at a time: in the background if
  // options and program allow it, else with its lane's lock held meanwhile. The old ones serve
  // until all of them are there, and go then as by SetPolicy. None goes because of the graph limit.
  // What cannot be recorded leaves everything as it was, and the report says why. One thread at a
  // time; the next waits. Waits for the device if anything is recorded; trims the eager window
  // then.
  //
  // Errors: kInvalidArgument     as SetPolicy; a symbol that is not observed; options: a number
  //                              below 0, a cost that is not finite, what Relearn refuses, a
  //                              binding as Warm refuses it;
  //         kFailedPrecondition  the program was unregistered, the session is suspended, or a lane
  //                              lent; the stance forbids recording, or the callable mutates static
  //                              inputs and there is no scratch; ranks vote, and it is no dry run;
  //         otherwise the driver's.
  absl::StatusOr<RebucketReport> Rebucket(const Program& program,
                                          int symbol,
                                          const RebucketOptions& options);

  // What was observed of a symbol, as DecayingHistogram::ToJson writes it, and what it is to go on
  // from, whose half-life counts from then on. Calls meanwhile are in one of the two. Errors:
  // kInvalidArgument  as SetPolicy; a symbol that is not observed; as DecayingHistogram::Read, or
  // sizes up to another maximum than the policy's; kUnimplemented another version.
  absl::StatusOr<std::string> GetObserved(const Program& program, int symbol) const;
  absl::Status SetObserved(const Program& program, int symbol, std::string_view json);

  // What the session may do from the next call on.
  void SetStance(Stance stance);

  // The generator of all programs whose specs name none. A call advances it however it runs, unless
  // it is refused or fails.
  Generator& generator();
  // Restarts it at offset 0.
  void SetSeed(uint64_t seed);

  // Drops the graphs of `program`, or of all if null, but those with leased outputs; waits for the
  // lanes' work and for recordings in the background. Returns how many. Their buckets stay warm:
  // the next call records, for Reason::kEvicted. A bucket that could not be recorded is tried anew.
  // Errors: the driver's.
  absl::StatusOr<int64_t> Evict(const Program* program);

  // Waits until no recording is under way in the background.
  void WaitForRecordings();

  // Puts a mark of this name into the trace, at this time: where a phase of the application begins,
  // for whoever reads the trace. As many as there are moments; names may come again. Does nothing
  // without a trace. Cost: allocates.
  void Mark(std::string_view name);

  // Puts a request's times into the trace, which profilers make percentiles of. Does nothing
  // without a trace. Errors: kInvalidArgument times or tokens that RequestTimes does not allow.
  absl::Status NoteRequest(const RequestTimes& times);

  // Waits until the trace's file holds all that happened before. Does nothing without a trace.
  // Errors: by its errno, a write that failed since Create.
  absl::Status FlushTrace() const;

  // A node of those that nodes() and Explain tell of, as a drawing in Graphviz's language DOT: each
  // of its CUDA graphs a cluster of graph nodes and edges, kernels by name with grid, block and
  // shared bytes; the host code of breaks between them; and a note of its tensors, with addresses
  // and bytes, and of every buffer of its plan. Needs SessionOptions::keep_drawings.
  //
  // Errors: kFailedPrecondition the session keeps no drawings; kNotFound a bucket without a graph,
  // or one that was dropped since.
  absl::StatusOr<std::string> Dump(const NodeInfo& node) const;

  // A page of all figures of this session for Prometheus: see metrics.h. Also after a sticky error
  // and while the session is suspended; makes no driver call and changes nothing. Each lane's
  // figures are of one moment, at which its lock is held, those of memory of another. Cost:
  // O(graphs), allocates; each lane's calls wait meanwhile for about 30 ns per graph of it.
  std::string MetricsText(MetricsFormat format = MetricsFormat::kPrometheus) const;

  SessionStats stats() const;           // Cost: O(lanes), takes each lane's lock.
  std::vector<NodeInfo> nodes() const;  // In order of creation per lane. Allocates.
  // Of the programs that are registered, by bucket; they stay when the program is reset. Allocates.
  std::vector<KernelVariant> variants() const;

  // What its memory holds, and how it comes and goes. Lives as long as the session.
  SessionMemory& memory() { return *memory_; }
  const SessionMemory& memory() const { return *memory_; }

 private:
  explicit Session(std::unique_ptr<internal::SessionParts> parts);

  const std::unique_ptr<internal::SessionParts> parts_;
  const std::unique_ptr<SessionMemory> memory_;
};

}  // namespace coppice
