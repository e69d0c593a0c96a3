// The inside of the world of simulated traffic: what traffic_world.h runs, in two sources. Calls
// are in traffic_calls.cc, everything else is in traffic_simulation.cc.
//
// Threads: one.

#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coppice/graphs/session.h"

#include "tests/sim/traffic_model.h"
#include "tests/sim/traffic_programs.h"
#include "tests/sim/traffic_world.h"

namespace coppice {

class TrafficSimulation {
 public:
  TrafficSimulation(const TrafficOptions& options, PlantedDefect planted);

  // Does all of it, or until something goes wrong, and closes the session.
  TrafficReport Run(const std::vector<TrafficOperation>& operations);

 private:
  // A program of the session, and the sets of static tensors it may be bound to. The last set is
  // scratch for Warm.
  struct Registered {
    const TrafficProgram* spec = nullptr;
    const Program* registered = nullptr;
    PaddingPolicy policy;
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
    std::optional<ReadScope> scope{};  // On the first input.
    std::vector<CallInput> inputs{};
    std::vector<Tensor> tensors{};
    const Binding* binding = nullptr;
    StaticSet* set = nullptr;
    std::vector<Buffer*> targets{};
    std::vector<Tensor> target_tensors{};
    Verdict verdict{};
    std::array<Words, 2> after{};  // What the inputs hold then.
    Words bound{};                 // What the static input holds then.
    std::vector<Words> outputs{};

    Call AsCall() const;
  };

  void Do(const TrafficOperation& operation);

  // The first failure counts.
  void Fail(const std::string& kind, const std::string& text);
  // A method of the session that only a fault makes fail.
  void Expect(const char* what, const absl::Status& status);

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
  bool ChooseStatics(Attempt& attempt);
  bool ChooseTargets(Attempt& attempt);
  CallInput FreshInput(const Attempt& attempt, int64_t data, int64_t n);
  CallInput ViewOf(const Attempt& attempt, Made& made, size_t output, int64_t skip, int64_t n);
  CallInput ChooseInput(Attempt& attempt);
  CallInput ChooseOther(Attempt& attempt);
  void Judge(const Made& made, bool scoped, Attempt& attempt) const;
  void AddLimits(Attempt& attempt) const;
  void Compute(Attempt& attempt) const;
  bool AnyScope(int lane) const;
  void CheckRefusal(const absl::Status& status, const Verdict& verdict);
  void CheckPath(Path path);
  void CheckExplanation(const Explanation& explanation,
                        const absl::StatusOr<Lease>& lease,
                        bool scopes);
  void NoteGraph(Path path, int lane, bool child);
  void Mutate(const CallInput& input, const Words& values);
  void Settle(Attempt& attempt);
  void Keep(Attempt& attempt, Lease lease);
  void Plant(const Attempt& attempt, Words& output);

  // Leases.
  bool CheckRead(const Made& made, const absl::Status& status);
  void QueueReads(Made& made, CuStream stream);
  void Read(const TrafficOperation& operation);
  void Hold(const TrafficOperation& operation);
  void Loose(Made* made);
  void Drop(const TrafficOperation& operation);
  void Release(const TrafficOperation& operation);
  void OpenChain(int lane);

  // Bindings, and what a session does ahead of calls.
  const Binding* BindingOf(Registered& program, int64_t index, bool again);
  void Unbind(const TrafficOperation& operation);
  void Warm(const TrafficOperation& operation);
  void SetSeed(uint64_t seed);

  void Synchronize();
  void Close();
  void CheckStats();

  const TrafficOptions options_;
  const PlantedDefect planted_;
  TestDevice device_;
  TrafficHost host_;
  TrafficDevice traffic_;
  std::unique_ptr<Session> session_;
  std::vector<Registered> programs_;
  std::array<std::optional<ChainScope>, kTrafficLanes> chains_;
  std::map<int64_t, Made> made_;  // By the id of the call.
  Stance stance_ = Stance::kRecord;
  uint64_t seed_ = 0;
  int64_t offset_ = 0;
  std::optional<int64_t> fault_at_;  // The ledger's count when the fault that is set happens.
  const TrafficOperation* now_ = nullptr;
  TrafficReport report_;
};

}  // namespace coppice
