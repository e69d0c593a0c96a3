// What a session holds, and the paths a call can take under its lane's lock. Private to graphs/.
//
// Threads: the methods run under the lock of the lane they are given, unless they say otherwise.

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/pool.h"
#include "coppice/graphs/session.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/stream.h"

#include "graphs/background_recorder.h"
#include "graphs/call_shape.h"
#include "graphs/lane.h"
#include "graphs/node.h"
#include "graphs/recorder.h"
#include "graphs/staging_layout.h"
#include "graphs/tracer.h"

namespace coppice {

namespace internal {

struct Constant {
  DeviceAddress address = 0;
  int64_t bytes = 0;
  ConstantSource source;
};

struct SavedBytes {
  DeviceAddress address = 0;
  std::vector<std::byte> bytes;
};

}  // namespace internal

struct Session::State {
  // One call on its way: what was found out about it so far.
  struct Request {
    const Call& call;
    internal::CallShape shape;
    internal::RandomState random{};
    const internal::StaticVersion* statics = nullptr;
    bool child = false;  // What lane.scratch says about its surroundings counts.
    bool known_place =
        true;  // The surroundings are interned; else no node was planned around them.
    // What launching its node is to the caller: the graph may have been recorded for this call.
    Path path = Path::kReplay;
    Reason reason = Reason::kNone;
    const internal::Surroundings* surroundings = nullptr;
  };

  State(const Context& session_context,
        SessionOptions session_options,
        std::unique_ptr<internal::Tracer> session_tracer,
        std::unique_ptr<Pool> session_pool,
        StagingKernels kernels);

  // What a call is going to do, and why.
  struct Decision {
    absl::Status status;  // What refuses it.
    Path path = Path::kReplay;
    Reason reason = Reason::kNone;
    bool evict = false;      // Another graph must go first.
    bool at_bucket = false;  // An eager run at the padded extents, as other ranks have it.
  };

  // Before the lane is locked.
  absl::Status Prepare(const Session& session, internal::Observe observe, Request& request) const;
  internal::RandomState NextRandom(const Program& program);
  std::vector<const Program*> Programs() const;

  // The way of a call: session_state.cc.
  absl::StatusOr<Lease> RunInLane(Request& request, internal::Lane& lane);
  absl::StatusOr<Lease> Replay(const Request& request, internal::Lane& lane, internal::Node& node);
  absl::Status CheckHeld(const Request& request,
                         const internal::Lane& lane,
                         const internal::Node& node) const;
  absl::Status Stage(const Request& request, internal::InputLayout& layout) const;
  static void Overwrite(const Request& request,
                        internal::Lane& lane,
                        const internal::Node& node,
                        const internal::Slot* again);
  absl::Status StagePoisoned(const Request& request, const internal::InputLayout& layout) const;
  absl::Status Launch(const Request& request,
                      internal::Lane& lane,
                      internal::Node& node,
                      const internal::Slot* again);
  absl::Status PoisonOverwritten(CuStream stream,
                                 const internal::Lane& lane,
                                 const std::vector<internal::Region>& footprint) const;

  // Which way: session_decide.cc. Changes nothing.
  internal::Node* FindNode(const Request& request, const internal::Lane& lane) const;
  internal::Bucket* FindBucket(const Request& request, const internal::Lane& lane) const;
  Decision Decide(const Request& request,
                  const internal::Lane& lane,
                  const internal::Node* node) const;
  Decision DecideToRecord(const Request& request, const internal::Lane& lane) const;
  Reason ReasonForRecording(const Request& request, const internal::Bucket* bucket) const;
  // The reason's name, and which static inputs moved or how many graphs there are.
  std::string DescribeReason(const Request& request,
                             const internal::Lane& lane,
                             Reason reason) const;

  // Where its inputs lie: session_place.cc.
  absl::Status CheckInputs(const Request& request) const;
  absl::Status FindPlace(Request& request, internal::Lane& lane) const;
  // FindPlace of a call that is about to run, of which an open chain takes note.
  absl::Status Place(Request& request, internal::Lane& lane) const;
  absl::Status CheckAddresses(const Call& call) const;

  // Its outputs: session_outputs.cc.
  // Counts the call, says once per program why it did not replay, and makes the lease without
  // outputs.
  Lease MakeLease(const Request& request, internal::Lane& lane, Path path, Reason reason) const {
    ++lane.stats.calls;
    ++lane.stats.paths[static_cast<size_t>(path)];
    if (reason != Reason::kNone) [[unlikely]] {
      ++lane.stats.reasons[static_cast<size_t>(reason)];
      if (IsNews(*request.call.program, reason))
        Log(*request.call.program, DescribeReason(request, lane, reason));
    }
    Lease lease;
    lease.path_ = path;
    lease.reason_ = reason;
    return lease;
  }
  // Tell the trace, which there is, what a call did.
  void TraceCall(const Request& request,
                 internal::Lane& lane,
                 const Decision& decision,
                 const internal::InputLayout& layout) const;
  void TraceReplay(const Request& request,
                   internal::Lane& lane,
                   const internal::Node& node,
                   internal::Slot* again) const;
  absl::Status CheckTargets(const Request& request) const;
  absl::Status ReserveCopyOut(const Request& request,
                              internal::Lane& lane,
                              internal::Region& copy_out) const;
  absl::Status CopyBehind(const Request& request,
                          internal::Lane& lane,
                          OutputMode mode,
                          const internal::OutputTable& outputs,
                          const internal::InputLayout& layout,
                          internal::Region copy_out,
                          Lease& lease);
  static void Describe(const Request& request, const internal::Lane& lane, internal::Slot& slot) {
    slot.program = request.call.program;
    slot.call = lane.calls;
    for (size_t i = 0; i < slot.program->spec.symbols.size(); ++i)
      slot.extents[i] = request.shape.real[i];
  }
  static internal::Slot& TakeSlot(const Request& request,
                                  internal::Lane& lane,
                                  internal::Slot::Kind kind);
  static void GiveWindow(const Request& request,
                         internal::Lane& lane,
                         internal::Node& node,
                         Lease& lease);
  static void GiveIncluded(const Request& request,
                           internal::Lane& lane,
                           internal::OutputTable outputs,
                           Lease& lease);
  static void GiveEager(const Request& request,
                        internal::Lane& lane,
                        internal::OutputTable outputs,
                        std::vector<DeviceAddress> allocations,
                        Lease& lease);

  // Everything that may be slow: session_slow.cc.
  absl::StatusOr<Lease> RunUnusual(Request& request, internal::Lane& lane, internal::Node* node);
  absl::StatusOr<Lease> RunWithoutGraph(const Request& request,
                                        internal::Lane& lane,
                                        const Decision& decision);
  // The bucket of the call, made if there is none.
  internal::Bucket& BucketFor(const Request& request, const internal::Lane& lane) const;
  absl::StatusOr<Lease> RecordAndReplay(Request& request,
                                        internal::Lane& lane,
                                        const Decision& decision);
  absl::StatusOr<std::unique_ptr<internal::Node>> MakeNode(const Request& request,
                                                           internal::Lane& lane,
                                                           internal::Bucket& bucket,
                                                           Reason reason);
  // What a recording's outcome means for its bucket. OK with a reason other than kNone: the call
  // runs eagerly.
  absl::Status Settle(absl::Status recorded,
                      internal::Lane& lane,
                      internal::Bucket& bucket,
                      Reason& reason) const;
  static internal::Node& Publish(std::unique_ptr<internal::Node> node,
                                 internal::Lane& lane,
                                 const Program& program);
  absl::Status Audit(const Request& request, internal::Lane& lane, internal::Node& node);
  static absl::Status ReserveStaging(const Program& program, int64_t bytes, internal::Lane& lane);
  absl::StatusOr<bool> MapAgain(internal::Lane& lane, const internal::Node& node);
  void RecordJob(internal::BackgroundRecorder::Job& job, CuStream stream);
  static NodeInfo InfoOf(const Request& request, const internal::Lane& lane);
  absl::Status CheckWarm(const Session& session,
                         const Program& program,
                         const Binding* binding,
                         std::span<const int64_t> scalars,
                         const WarmOptions& warm);
  absl::Status WarmBucket(const Call& call,
                          const internal::CallShape& shape,
                          const Binding* scratch,
                          internal::Lane& lane);
  internal::RunRequest RunRequestOf(const Call& call,
                                    std::span<const int64_t> extents,
                                    const internal::InputLayout& layout,
                                    CuStream stream,
                                    const internal::Lane& lane) const;

  // Limits and static inputs: session_limits.cc.
  bool OverLimit(const Request& request,
                 const internal::Lane& lane,
                 const internal::Bucket* bucket,
                 Reason reason) const;
  // Drops the graph of the lane that is worth least, of `program` or of all if null. False if there
  // is none that may go.
  absl::StatusOr<bool> EvictOne(const Program* program, internal::Lane& lane) const;
  static int64_t EvictIdle(const Program& program,
                           internal::Lane& lane,
                           const internal::StaticVersion* version);
  // Whether a static input has moved so often that it is copied from here on: look again then.
  bool DemoteMoved(const Request& request, internal::Lane& lane);
  static bool CanDemote(const Program& program, size_t index);
  static absl::StatusOr<const internal::StaticVersion*> VersionOf(
      const Program& program, const std::vector<Tensor>& tensors);

  // What memory comes and goes: session_memory.cc.
  // Frees bytes of the budget for `lane`, whose lock is held: idle memory first, then graphs, if
  // the options allow. OK if it has found some; errors: kResourceExhausted, or the driver's.
  absl::Status MakeRoom(internal::Lane& lane, int64_t bytes, MemoryKind need);
  // Takes physical memory that is idle from the lane's windows, but for its node window unless
  // `nodes`. Waits for the lane's work.
  absl::Status FreeIdle(internal::Lane& lane, bool nodes) const;
  // Locks all lanes when no recording is under way.
  std::vector<std::unique_lock<std::mutex>> LockIdle() const;
  absl::Status CheckSuspendable(const SuspendOptions& suspend) const;
  // Copies what must survive a suspension to the host, and back. Under all lanes' locks.
  absl::Status Save(const SuspendOptions& suspend);
  absl::Status Restore();
  absl::Status Fill(const internal::Constant& constant);
  enum class Direction : uint8_t { kToHost, kToDevice };
  absl::Status Transfer(Direction direction, internal::SavedBytes& copy);
  absl::Status TransferOrStrand(Direction direction, internal::SavedBytes& copy);
  void MarkSuspended(bool suspended);

  // Modes that a plain session does not have: session_modes.cc.
  absl::Status AskRanks(const Request& request,
                        std::span<int64_t> bucket,
                        const Decision& decision,
                        RankVote& vote) const;
  absl::Status Vote(Request& request, internal::Lane& lane, Decision& decision) const;
  absl::StatusOr<Lease> RunTimed(const Request& request,
                                 internal::Lane& lane,
                                 internal::Node& node);

  // The caller's captures: session_include.cc.
  absl::StatusOr<Lease> Include(Request& request, internal::Lane& lane);
  absl::StatusOr<DeviceAddress> KeepMemory(internal::Lane& lane, int64_t bytes);

  absl::Status Remember(absl::Status status);
  absl::Status Poison();  // The first sticky error; OK if there was none.
  // Whether the log is to hear of this reason, which is so once per program.
  bool IsNews(const Program& program, Reason reason) const;
  void Log(const Program& program, const std::string& why) const;
  bool gated(const Program& program) const {
    return program.spec.gate == GateMode::kOn ||
           (program.spec.gate == GateMode::kSession && options.gate);
  }

  const Context& context;
  const Driver& driver;
  const SessionOptions options;
  const std::unique_ptr<internal::Tracer> tracer;  // Null without a trace; outlives who tells it.
  const std::unique_ptr<Pool> pool;
  const StagingKernels staging;
  std::vector<std::unique_ptr<internal::Lane>> lanes;

  std::atomic<Stance> stance;
  std::atomic<uint64_t> seed{0};
  std::atomic<bool> poisoned{false};  // Set once, after `poison` is.
  mutable std::mutex mutex;           // Guards what is below.
  absl::Status poison;                // The first sticky error.
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::unique_ptr<Binding>> bindings;

  std::vector<DeviceMemory> included;  // Windows of what the caller's captures include.

  // Under the first lane's lock, which a suspension holds with all others.
  std::vector<internal::Constant> constants;
  int64_t external_bytes = 0;
  std::vector<internal::SavedBytes> saved;
  SuspendedConstants suspended_constants = SuspendedConstants::kSave;
  std::vector<std::vector<std::byte>> stranded;  // Host memory that a copy may still use.

  std::unique_ptr<internal::BackgroundRecorder> background;  // If the options ask for one.
};

}  // namespace coppice
