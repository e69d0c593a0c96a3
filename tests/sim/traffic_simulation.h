// The inside of the world of simulated traffic: what traffic_world.h runs, in three sources. Calls
// are in traffic_calls.cc, memory that comes and goes in traffic_memory.cc, everything else is in
// traffic_simulation.cc.
//
// Threads: one.

#pragma once

#include "coppice/graphs/session.h"

#include "tests/sim/traffic_model.h"
#include "tests/sim/traffic_package.h"
#include "tests/sim/traffic_programs.h"
#include "tests/sim/traffic_world.h"

namespace coppice {

inline constexpr int64_t kGraphBytesMax = 128 * kKiB;  // Of what is recorded of any bucket.

// What a call without a graph takes, and what a recording takes.
inline constexpr MemoryKind kCallWindows[] = {MemoryKind::kStaging, MemoryKind::kEager,
                                              MemoryKind::kPlan};
inline constexpr std::span<const MemoryKind> kEagerWindows = std::span(kCallWindows).first(2);
inline constexpr std::span<const MemoryKind> kReplayWindows = std::span(kCallWindows).last(1);

class TrafficSimulation {
 public:
  TrafficSimulation(const TrafficOptions& options, PlantedDefect planted);

  // Does all of it, or until something goes wrong, and closes the session.
  TrafficReport Run(const std::vector<TrafficOperation>& operations);

 private:
  // A program of the session, and the sets of static tensors it may be bound to. The last set is
  // scratch for Warm.
  struct Registered {
    TrafficProgram spec;
    TrafficSymbol symbol;  // Of all of its symbols.
    bool packaged = false;
    const Program* registered = nullptr;
    std::vector<StaticSet> sets;
    int64_t last_set = 0;
  };

  // What the contract says about how a call may end.
  struct Verdict {
    std::vector<absl::StatusCode> must;  // Not empty: it fails, with one of these or of `may`.
    std::vector<absl::StatusCode> may;
  };

  // A call on its way: what goes in, and what the model says comes out.
  struct Attempt {
    const TrafficOperation& operation;
    Registered& program;
    const TrafficProgram& spec;
    int lane;
    CuStream stream;
    int64_t n = 0;
    int64_t m = 0;
    std::array<int64_t, 2> scalars{};
    std::optional<ReadScope> scope{};  // On the first input.
    Tensor count{};                    // Of n in device memory, if it has an address ...
    int64_t known = 0;                 // ... and what it says; n else.
    std::vector<CallInput> inputs{};
    std::vector<Tensor> tensors{};
    const Binding* binding = nullptr;
    StaticSet* set = nullptr;
    std::vector<CallerBuffer*> targets{};
    std::vector<Tensor> target_tensors{};
    Verdict verdict{};
    Made* donated = nullptr;       // Whose lease is given away.
    std::array<Bytes, 2> after{};  // What the inputs hold then.
    Bytes bound{};                 // What the static input holds then.
    std::vector<Bytes> outputs{};

    bool counted() const { return count.data != 0; }
    // Whether what a program computes behind the count is known, too.
    bool knows_padding() const {
      return !counted() || (spec.claim == PaddingContents::kRowIndependent &&
                            spec.fill.kind != FillKind::kUndefined &&
                            (spec.needs_fill || operation.padding == 0));
    }
    // Elements that mean something of each row of an output.
    int64_t KnownOf(int output) const {
      const int64_t length = LengthOf(spec, output, extents());
      return knows_padding() || spec.fixed_output(output) ? length : std::min(length, known);
    }
    TrafficExtents extents() const { return {.n = n, .m = m}; }
    Call AsCall() const;
  };

  void Do(const TrafficOperation& operation);

  // The first failure counts.
  void Fail(const std::string& kind, const std::string& text);
  // A method of the session that only a fault makes fail.
  void Expect(const char* what, const absl::Status& status);

  const Program* Register(const Registered& program);
  Registered& ProgramOf(const TrafficOperation& operation) {
    return programs_[static_cast<size_t>(operation.program) % programs_.size()];
  }
  int LaneOf(const TrafficOperation& operation) const {
    return static_cast<int>(operation.lane % options_.lanes);
  }
  Made* FindMade(int64_t id);

  void Inject(const TrafficOperation& operation);
  // Whether the fault that is set has happened since this was asked last.
  bool TookFault();

  // Calls.
  void RunCall(const TrafficOperation& operation);
  void Include(const TrafficOperation& operation);
  // Chooses what the call takes and where it puts it. False: a fault or a failure came before, or
  // the call has no one right answer.
  bool Prepare(Attempt& attempt);
  void ChooseCount(Attempt& attempt);
  bool ChooseStatics(Attempt& attempt);
  bool ChooseTargets(Attempt& attempt);
  // Input `index`, of the caller's.
  CallInput FreshInput(const Attempt& attempt, int index, int64_t n);
  CallInput ViewOf(const Attempt& attempt, Made& made, size_t output, int64_t skip, int64_t n);
  static bool Matches(const MadeOutput& output, const Attempt& attempt, int index);
  static bool Unordered(const Made& made, const Attempt& attempt);
  CallInput ChooseInput(Attempt& attempt);
  CallInput ChooseOther(Attempt& attempt);
  static int64_t SecondOf(const TrafficProgram& spec, const TrafficOperation& operation);
  static std::array<int64_t, 2> ScalarsOf(const TrafficProgram& spec,
                                          const TrafficOperation& operation);
  void Judge(const Made& made, size_t output, bool scoped, int64_t n, Attempt& attempt) const;
  void AddLimits(Attempt& attempt) const;
  void Compute(Attempt& attempt) const;
  bool AnyScope(int lane) const;
  void CheckRefusal(const absl::Status& status, const Attempt& attempt);
  void CheckPath(RunKind path);
  void CheckExplanation(const Explanation& explanation,
                        const absl::StatusOr<Lease>& lease,
                        bool scopes);
  void NoteGraph(RunKind path, int lane, bool child);
  void Mutate(const CallInput& input, const Bytes& values);
  void Settle(Attempt& attempt);
  void Keep(Attempt& attempt, Lease lease);
  void Plant(const Attempt& attempt, Bytes& output);

  // Leases.
  bool CheckRead(const Made& made, const absl::Status& status);
  void QueueReads(Made& made, CuStream stream);
  void Read(const TrafficOperation& operation);
  void Hold(const TrafficOperation& operation);
  void Loose(Made* made);
  void Drop(const TrafficOperation& operation);
  void Release(const TrafficOperation& operation);
  void Split(const TrafficOperation& operation);
  void OpenChain(int lane);

  // Bindings, and what a session does ahead of calls.
  const Binding* BindingOf(Registered& program, int64_t index, bool again);
  void Unbind(const TrafficOperation& operation);
  void Reset(const TrafficOperation& operation);
  bool AtGraphLimit(const TrafficProgram& program, int lane) const;
  void Warm(const TrafficOperation& operation);
  void Rebucket(const TrafficOperation& operation);
  void SetPolicy(const TrafficOperation& operation);
  // The least bucket of a symbol that holds an extent, if any does.
  std::optional<int64_t> BucketOf(const Registered& program, int symbol, int64_t extent) const {
    return session_->policies().GetPolicy(*program.registered, symbol)->Find(extent);
  }
  void SettleRandomNumbers();
  void SetSeed(uint64_t seed);

  // Memory.
  // Calls cannot use the lane's memory: the session is suspended, or the lane lent.
  bool Absent(int lane) const {
    return suspended_ || loans_[static_cast<size_t>(lane)].has_value();
  }
  // Whether leases stand in the way of an operation on a lane: any, or those of its plan window.
  Verdict JudgeLeases(int lane, bool window_only) const;
  // Fails unless the operation ended as it must, or may.
  void CheckRefused(const char* what, const absl::Status& status, const Verdict& verdict);
  void PlaceConstant(DType dtype, CallerBuffer& buffer);
  void Suspend(const TrafficOperation& operation);
  void Resume();
  void Lend(const TrafficOperation& operation);
  void Return(const TrafficOperation& operation);
  void Scrub(const TrafficOperation& operation);
  void TellExternal(const TrafficOperation& operation);
  void Trim();
  // Whether what is mapped of a window cannot go, because of a lease or a loan.
  bool Stays(int lane, MemoryKind kind) const;
  // Whether the budget may have no room for `windows` of `lane` and `bytes` more, though all that
  // can go is gone.
  bool MayLack(int lane, std::span<const MemoryKind> windows, int64_t bytes) const;
  void CheckMemory();

  void Synchronize();
  void Close();
  void CheckStats();

  const TrafficOptions options_;
  const PlantedDefect planted_;
  TestDevice device_;
  TrafficHost host_;
  TrafficDevice traffic_;
  std::optional<TrafficPackage> package_;
  std::unique_ptr<Session> session_;
  const SessionMemory& memory_;  // Of the session. Its usage() would take back what leases gave up.
  std::vector<Registered> programs_;
  std::array<std::optional<ChainScope>, kTrafficLanes> chains_;
  std::map<int64_t, Made> made_;  // By the id of the call.
  std::array<std::optional<Loan>, kTrafficLanes> loans_;
  std::array<CuStream, kTrafficLanes> borrowers_{};  // Of the loans, where they work.
  bool suspended_ = false;
  int64_t released_ = 0;  // Bytes of windows that Resume is to map.
  int64_t external_ = 0;  // What the budget was told of.
  bool waited_ = false;   // Nothing is in flight: the last operation waited for everything.
  Stance stance_ = Stance::kRecord;
  uint64_t seed_ = 0;
  int64_t offset_ = 0;
  int64_t faults_seen_ = 0;  // The ledger's count when a fault was last asked for.
  bool faulted_ = false;     // One has happened at some time.
  const TrafficOperation* now_ = nullptr;
  TrafficReport report_;
};

}  // namespace coppice
