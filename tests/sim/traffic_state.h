// What a script's run keeps: the session, the model beside it, every lease that was made and what
// it must show, and the first failure. TrafficWorld drives it.
//
// Units: as in traffic_script.h. Threads: one.

#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"

#include "tests/sim/traffic_model.h"
#include "tests/sim/traffic_programs.h"
#include "tests/sim/traffic_world.h"

namespace coppice {

Emulator::Options EmulatorOptionsOf(const TrafficOptions& options);
SessionOptions SessionOptionsOf(const TrafficOptions& options);

class TrafficState {
 protected:
  using Operation = TrafficOperation;
  using StatusCode = absl::StatusCode;

  TrafficState(const TrafficOptions& options, PlantedDefect planted)
      : options_(options),
        planted_(planted),
        device_(EmulatorOptionsOf(options), DriverLedger::Options()),
        host_(device_),
        traffic_(host_.driver()),
        session_(*Session::Create(device_.context(), SessionOptionsOf(options))) {
    const TrafficSymbol symbol{.kind = static_cast<SymbolKind>(options.symbol_kind),
                               .exclude_01 = options.exclude_01 != 0};
    for (const TrafficProgram& program : TrafficPrograms()) {
      programs_.push_back({.spec = &program,
                           .registered = *session_->Register(SpecOf(program, symbol),
                                                             CallableOf(program, traffic_)),
                           .policy = *PaddingPolicy::Parse(program.policy, kLargestExtent),
                           .sets = {}});
      for (int64_t set = 0; program.binds() && set <= kTrafficStatics; ++set)
        programs_.back().sets.push_back(host_.MakeStatics(program, set));
    }
  }

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
    std::vector<StatusCode> must;  // Not empty: it must fail, with one of these or of `may`.
    std::vector<StatusCode> may;
  };

  // The first failure counts.
  void Fail(const std::string& kind, const std::string& text) {
    if (failure_.empty())
      failure_ = fmt::format("{}: {}\n  at: {}", kind, text, now_ ? TextOf(*now_) : "the end");
  }

  // A method of the session that only a fault makes fail.
  void Expect(const char* what, const absl::Status& status) {
    if (TookFault() || status.ok()) return;
    Fail(fmt::format("{} failed", what), status.ToString());
  }

  Registered& ProgramOf(const Operation& operation) {
    return programs_[static_cast<size_t>(operation.program) % programs_.size()];
  }
  int LaneOf(const Operation& operation) const {
    return static_cast<int>(operation.lane % options_.lanes);
  }
  Made* FindMade(int64_t id) {
    const auto found = made_.find(id);
    return found == made_.end() ? nullptr : &found->second;
  }

  // --- Faults.

  void Inject(const Operation& operation) {
    // Not kInvalidValue, which ends an enumeration of parameters.
    constexpr CuResult kResults[] = {CuResult::kOutOfMemory, CuResult::kInvalidHandle,
                                     CuResult::kNotSupported};
    device_.ledger().ClearFaults();
    device_.ledger().Inject({.nth = std::max<int64_t>(operation.nth, 1),
                             .result = kResults[static_cast<size_t>(operation.value) % 3]});
    fault_at_ = device_.ledger().calls() + std::max<int64_t>(operation.nth, 1);
  }

  // Whether the fault that is set has happened since this was asked last.
  bool TookFault() {
    if (!fault_at_ || device_.ledger().calls() < *fault_at_) return false;
    fault_at_.reset();
    return true;
  }

  // --- Leases.

  void Keep(const Operation& operation,
            const TrafficProgram& spec,
            int lane,
            Lease lease,
            const std::vector<Buffer*>& targets,
            StaticSet* set,
            int64_t n,
            std::vector<Words> outputs) {
    const bool graph = lease.path() == Path::kReplay || lease.path() == Path::kRecord;
    Loose(FindMade(operation.id));
    made_.erase(operation.id);
    Made& made = made_[operation.id];
    made.mode = static_cast<OutputMode>(operation.mode);
    made.window = graph && made.mode == OutputMode::kBorrow;
    if (!graph && made.mode == OutputMode::kCopyOut) made.mode = OutputMode::kBorrow;
    made.in_path = made.window;
    made.lane = lane;
    made.lease = std::move(lease);
    absl::StatusOr<ReadScope> scope = made.lease.Read(host_.stream(operation.stream));
    if (!scope.ok()) return Fail("lost", scope.status().ToString());
    for (int i = 0; i < spec.outputs; ++i) {
      MadeOutput& output = made.outputs.emplace_back();
      output.tensor = scope->output(i);
      const bool bound = spec.static_output(i);
      output.rows = bound ? 1 : spec.rows;
      output.n = bound ? kStaticElements : n;
      output.shared = bound                                 ? set->output.get()
                      : made.mode == OutputMode::kWriteInto ? targets[static_cast<size_t>(i)]
                                                            : nullptr;
      if (output.shared != nullptr) {
        std::ranges::copy(outputs[static_cast<size_t>(i)], output.shared->values.begin());
      } else {
        output.own = std::move(outputs[static_cast<size_t>(i)]);
      }
      const Tensor wanted = DenseOf(spec, i, output.tensor.data, output.n);
      if (output.tensor.sizes != wanted.sizes)
        Fail("view", fmt::format("output {} has other sizes than the call", i));
    }
  }

  // Whether reading a lease went as it may.
  bool CheckRead(const Made& made, const absl::Status& status) {
    if (TookFault() || status.ok()) return true;
    if (status.code() == StatusCode::kFailedPrecondition && !made.sure) return true;
    Fail("lost", status.ToString());
    return false;
  }

  void QueueReads(Made& made, CuStream stream) {
    for (size_t i = 0; !made.unknown && i < made.outputs.size(); ++i) {
      if (made.outputs[i].shared != nullptr) host_.Order(*made.outputs[i].shared, stream);
      host_.QueueRead(made.outputs[i], stream, fmt::format("{}, output {}", TextOf(*now_), i));
    }
  }

  void Read(const Operation& operation) {
    Made* made = FindMade(operation.id);
    if (made == nullptr || !made->held) return;
    const CuStream stream = host_.stream(operation.stream);
    const absl::StatusOr<ReadScope> scope = made->lease.Read(stream);
    if (CheckRead(*made, scope.status()) && scope.ok()) QueueReads(*made, stream);
  }

  void Hold(const Operation& operation) {
    Made* made = FindMade(operation.id);
    if (made == nullptr || !made->held || made->scope) return;
    made->scope_stream = host_.stream(operation.stream);
    absl::StatusOr<ReadScope> scope = made->lease.Read(made->scope_stream);
    if (CheckRead(*made, scope.status()) && scope.ok()) made->scope.emplace(*std::move(scope));
  }

  void Loose(Made* made) {
    if (made == nullptr || !made->scope) return;
    QueueReads(*made, made->scope_stream);
    made->scope.reset();
    (void)TookFault();
  }

  void Drop(const Operation& operation) {
    Made* made = FindMade(operation.id);
    if (made == nullptr || !made->held || made->scope) return;
    made->lease.Release();
    made->held = false;
  }

  void Release(const Operation& operation) {
    Made* made = FindMade(operation.id);
    if (made == nullptr || !made->held || made->scope) return;
    const CuStream stream = host_.stream(operation.stream);
    bool readable = false;
    {
      const absl::StatusOr<ReadScope> scope = made->lease.Read(stream);
      if (!CheckRead(*made, scope.status())) return;
      readable = scope.ok();
    }
    if (readable) QueueReads(*made, stream);
    made->held = false;
    Expect("release", made->lease.Release(stream));
  }

  void OpenChain(int lane) {
    std::optional<ChainScope>& chain = chains_[static_cast<size_t>(lane)];
    absl::StatusOr<ChainScope> opened = session_->Chain(lane);
    if (opened.ok() == chain.has_value())
      return Fail("chain", "a lane has one chain at a time, and can have one");
    if (!opened.ok()) return;
    chain.emplace(*std::move(opened));
    for (auto& [id, made] : made_) {
      if (made.lane == lane) made.in_path = false;
    }
  }

  // --- The end.

  void Synchronize() {
    host_.Synchronize();
    const std::string wrong = host_.CheckReads();
    if (!wrong.empty()) Fail("wrong bytes", wrong);
    const std::vector<std::string> reports = device_.emulator().reports();
    if (!reports.empty()) Fail("reported", reports[0]);
  }

  void Close() {
    device_.ledger().ClearFaults();
    for (auto& [id, made] : made_)
      Loose(&made);
    for (std::optional<ChainScope>& chain : chains_)
      chain.reset();
    Synchronize();
    now_ = nullptr;
    CheckStats();
    if (options_.outlive == 0) made_.clear();
    session_.reset();
    for (const auto& [id, made] : made_) {
      if (made.lease.Read(host_.stream(0)).status().code() != StatusCode::kFailedPrecondition)
        Fail("read", "a lease was read after its session was gone");
    }
    made_.clear();
  }

  void CheckStats() {
    const SessionStats stats = session_->stats();
    int64_t calls = 0;
    int64_t replays = 0;
    for (size_t path = 0; path < stats.paths.size(); ++path)
      calls += stats.paths[path];
    for (const int64_t count : stats.reasons)
      replays -= count;
    if (calls != stats.calls || replays + calls != stats.paths[static_cast<size_t>(Path::kReplay)])
      Fail("stats", "paths and reasons do not add up to the calls");
  }

  const TrafficOptions options_;
  const PlantedDefect planted_;
  TestDevice device_;
  TrafficHost host_;
  const TrafficDevice traffic_;
  std::unique_ptr<Session> session_;
  std::vector<Registered> programs_;
  std::array<std::optional<ChainScope>, kTrafficLanes> chains_;
  std::map<int64_t, Made> made_;  // By the id of the call.
  Stance stance_ = Stance::kRecord;
  uint64_t seed_ = 0;
  int64_t offset_ = 0;
  std::optional<int64_t> fault_at_;  // The ledger's count when the fault that is set happens.
  const Operation* now_ = nullptr;
  std::string failure_;
};

}  // namespace coppice
