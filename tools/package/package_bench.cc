// Each stage by itself, the driver's share from its ledger.

#include "tools/package/package_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/bench/instruction_counter.h"
#include "tools/package/package_run.h"
#include "tools/package/program_runner.h"
#include "tools/ptx/ptx.h"
#include "tools/support/statistics.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// Of one stage, a figure per repetition.
struct StageSamples {
  std::string name;
  int64_t graph_nodes = 0;  // Of recordings: of each.
  std::vector<double> us;
  std::vector<double> driver_us;
  std::vector<double> instructions;  // Empty: they cannot be counted here.

  // The last figure is of so many calls: keeps one call's share.
  void PerCall(int64_t calls) {
    for (std::vector<double>* const figures : {&us, &driver_us, &instructions}) {
      if (!figures->empty()) figures->back() /= static_cast<double>(calls);
    }
  }
};

constexpr int64_t kHostCalls = 1000;  // Of a batch.

class PackageBenchJob {
 public:
  explicit PackageBenchJob(const PackageBenchOptions& options) : options_(options) {}

  absl::Status Run(const Console& console);
  std::string Text() const;
  std::string JsonText() const;

 private:
  // Does a piece of work and adds what it took.
  absl::Status Measure(StageSamples& stage, const std::function<absl::Status()>& work) {
    const int64_t driver_before = device_ == nullptr ? 0 : device_->driver_ns();
    const int64_t counted_before = counter_ ? counter_->Read() : 0;
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = work();
    const auto end = std::chrono::steady_clock::now();
    if (counter_)
      stage.instructions.push_back(static_cast<double>(counter_->Read() - counted_before));
    stage.us.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
    const int64_t driver_after = device_ == nullptr ? 0 : device_->driver_ns();
    stage.driver_us.push_back(static_cast<double>(driver_after - driver_before) / 1000);
    return status;
  }

  std::array<const StageSamples*, 11> stages() const {
    return {&open_,       &verify_, &load_, &register_,   &plan_,       &record_,
            &first_call_, &replay_, &host_, &exact_same_, &exact_other_};
  }

  absl::Status Open();
  absl::Status LoadAndRecord();
  absl::Status TimeHost(const std::vector<CallSet>& sets,
                        RunnerOptions runner_options,
                        const std::vector<HostArray>& statics);
  absl::Status RecordBuckets(const std::vector<CallSet>& sets,
                             const RunnerOptions& runner_options,
                             const std::vector<HostArray>& statics);
  absl::StatusOr<std::vector<std::vector<int64_t>>> BucketsOf(
      const package::Program& program) const;
  absl::StatusOr<std::vector<CallSet>> SetsOf(
      const package::Program& program, const std::vector<std::vector<int64_t>>& buckets) const;

  const PackageBenchOptions& options_;
  std::optional<InstructionCounter> counter_ = InstructionCounter::Open();
  std::unique_ptr<PackageDevice> device_;
  std::vector<std::vector<int64_t>> buckets_;  // The largest first.
  double own_us_per_100_nodes_ = 0;
  StageSamples open_{.name = "open"};
  StageSamples verify_{.name = "verify"};
  StageSamples load_{.name = "load"};
  StageSamples register_{.name = "register"};
  StageSamples plan_{.name = "plan"};
  StageSamples record_{.name = "record"};
  StageSamples first_call_{.name = "first_call"};
  StageSamples replay_{.name = "replay"};
  StageSamples host_{.name = "host"};
  StageSamples exact_same_{.name = "host_exact_same"};
  StageSamples exact_other_{.name = "host_exact_other"};
};

absl::Status PackageBenchJob::Open() {
  for (int64_t i = 0; i < options_.repetitions; ++i) {
    std::optional<package::Package> package;
    COPPICE_RETURN_IF_ERROR(Measure(open_, [&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(package::Package opened,
                               package::Package::Open(options_.package, {}));
      package.emplace(std::move(opened));
      return absl::OkStatus();
    }));
    COPPICE_RETURN_IF_ERROR(Measure(verify_, [&] { return package->Verify(); }));
  }
  return absl::OkStatus();
}

// The buckets that policies of one symbol at a time lead to, the others at their smallest.
absl::StatusOr<std::vector<std::vector<int64_t>>> PackageBenchJob::BucketsOf(
    const package::Program& program) const {
  COPPICE_ASSIGN_OR_RETURN(const auto policies, ParsePolicies(program, options_.policies, {}));
  std::vector<std::vector<int64_t>> sizes;
  std::vector<int64_t> least;
  for (const package::Symbol& symbol : program.symbols) {
    const int64_t first = std::max<int64_t>({symbol.min, symbol.exclude_01 ? 2 : 1, 1});
    std::vector<int64_t>& buckets = sizes.emplace_back();
    const auto given = policies.find(symbol.name);
    if (given != policies.end() && !given->second.is_exact()) buckets = given->second.buckets();
    if (given == policies.end() && symbol.claim) buckets = symbol.buckets;
    if (given == policies.end() && symbol.claim && symbol.buckets_pow2) {
      COPPICE_ASSIGN_OR_RETURN(
          const PaddingPolicy policy,
          PaddingPolicy::Pow2(std::min(symbol.max, PaddingPolicy::kExtentMax)));
      buckets = policy.buckets();
    }
    std::erase_if(buckets, [&](int64_t bucket) {
      return bucket < first || bucket > symbol.max || bucket % symbol.multiple_of != 0;
    });
    if (buckets.empty()) buckets = {symbol.hint >= 0 ? symbol.hint : first};
    least.push_back(buckets.front());
  }
  std::vector<std::vector<int64_t>> calls = {least};
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t j = 1; j < sizes[i].size(); ++j) {
      calls.push_back(least);
      calls.back()[i] = sizes[i][j];
    }
  }
  if (std::ssize(calls) > options_.buckets_max)
    calls.resize(static_cast<size_t>(options_.buckets_max));
  const auto product = [](const std::vector<int64_t>& extents) {
    return std::accumulate(extents.begin(), extents.end(), 1.0, std::multiplies<>());
  };
  std::ranges::stable_sort(calls, std::greater<>(), product);
  return calls;
}

absl::StatusOr<std::vector<CallSet>> PackageBenchJob::SetsOf(
    const package::Program& program, const std::vector<std::vector<int64_t>>& buckets) const {
  std::vector<CallSet> sets;
  for (const std::vector<int64_t>& extents : buckets) {
    CallSetTexts texts{.inputs = options_.inputs, .extents = {}, .folders = {}};
    for (size_t i = 0; i < extents.size(); ++i) {
      const package::Symbol& symbol = program.symbols[i];
      texts.extents.push_back(fmt::format("{}={}", symbol.name, extents[i]));
      if (symbol.scalar < 0) continue;
      const auto scalar = static_cast<size_t>(symbol.scalar);
      texts.inputs.push_back(fmt::format("{}={}", program.scalars[scalar].name, extents[i]));
    }
    COPPICE_ASSIGN_OR_RETURN(std::vector<CallSet> made, MakeCallSets(program, texts));
    sets.push_back(std::move(made.front()));
  }
  return sets;
}

absl::Status PackageBenchJob::LoadAndRecord() {
  PackageDeviceOptions options;
  options.choice = options_.device;
  options.time_driver = true;
  // What is wrong with kernels is not what is measured.
  options.emulator.strictness = Emulator::Strictness::All(false);
  COPPICE_ASSIGN_OR_RETURN(device_, PackageDevice::Create(options));
  RunnerOptions runner_options;
  for (int64_t i = 0; i < options_.repetitions; ++i) {
    COPPICE_ASSIGN_OR_RETURN(package::Package package,
                             PackageDevice::OpenPackage(options_.package, {}));
    COPPICE_RETURN_IF_ERROR(Measure(load_, [&] { return device_->Load(std::move(package)); }));
  }
  COPPICE_ASSIGN_OR_RETURN(runner_options.program,
                           FindProgram(device_->manifest(), options_.program));
  const package::Program& program =
      device_->manifest().programs[static_cast<size_t>(runner_options.program)];
  COPPICE_ASSIGN_OR_RETURN(runner_options.policies, ParsePolicies(program, options_.policies, {}));
  COPPICE_RETURN_IF_ERROR(device_->TakeConstants(runner_options.program, options_.constants));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<HostArray> statics,
                           MakeStatics(program, options_.statics));
  COPPICE_ASSIGN_OR_RETURN(buckets_, BucketsOf(program));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<CallSet> sets, SetsOf(program, buckets_));
  COPPICE_RETURN_IF_ERROR(RecordBuckets(sets, runner_options, statics));
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> runner,
                           ProgramRunner::Create(*device_, runner_options, statics));
  COPPICE_RETURN_IF_ERROR(runner->TimeCalls(
      sets, [&](const std::function<absl::Status()>& call) { return Measure(first_call_, call); }));
  const std::vector<CallSet> one(static_cast<size_t>(options_.repetitions), sets.back());
  COPPICE_RETURN_IF_ERROR(runner->TimeCalls(
      one, [&](const std::function<absl::Status()>& call) { return Measure(replay_, call); }));
  return TimeHost(sets, runner_options, statics);
}

// Of the smallest bucket, or of the two smallest in turn, so that each call finds the executable
// set to other sizes than its own.
absl::Status PackageBenchJob::TimeHost(const std::vector<CallSet>& sets,
                                       RunnerOptions runner_options,
                                       const std::vector<HostArray>& statics) {
  if (sets.size() < 2) return absl::OkStatus();
  const std::vector<CallSet> one = {sets.back()};
  const std::vector<CallSet> two = {sets.back(), sets[sets.size() - 2]};
  runner_options.check_addresses = false;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> padded,
                           ProgramRunner::Create(*device_, runner_options, statics));
  runner_options.exact = ExactReplay::kAlways;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> exact,
                           ProgramRunner::Create(*device_, runner_options, statics));
  const auto untimed = [](const std::function<absl::Status()>& calls) { return calls(); };
  for (ProgramRunner* const runner : {padded.get(), exact.get()})
    COPPICE_RETURN_IF_ERROR(runner->TimeRounds(two, 2, untimed));
  device_->SwitchInstant();
  for (int64_t i = 0; i < options_.repetitions; ++i) {
    const auto time = [&](ProgramRunner& runner, const std::vector<CallSet>& turn,
                          StageSamples& stage) -> absl::Status {
      COPPICE_RETURN_IF_ERROR(runner.TimeRounds(turn, 1, untimed));
      const int64_t rounds = kHostCalls / std::ssize(turn);
      COPPICE_RETURN_IF_ERROR(runner.TimeRounds(
          turn, rounds,
          [&](const std::function<absl::Status()>& calls) { return Measure(stage, calls); }));
      stage.PerCall(kHostCalls);
      return absl::OkStatus();
    };
    COPPICE_RETURN_IF_ERROR(time(*padded, one, host_));
    COPPICE_RETURN_IF_ERROR(time(*exact, one, exact_same_));
    COPPICE_RETURN_IF_ERROR(time(*exact, two, exact_other_));
  }
  return absl::OkStatus();
}

// In a session of its own each time: plans all buckets, and then records them one by one.
absl::Status PackageBenchJob::RecordBuckets(const std::vector<CallSet>& sets,
                                            const RunnerOptions& runner_options,
                                            const std::vector<HostArray>& statics) {
  std::vector<double> own;
  for (int64_t i = 0; i < options_.repetitions; ++i) {
    std::unique_ptr<ProgramRunner> runner;
    COPPICE_RETURN_IF_ERROR(Measure(register_, [&]() -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(runner, ProgramRunner::Create(*device_, runner_options, statics));
      return absl::OkStatus();
    }));
    COPPICE_RETURN_IF_ERROR(
        Measure(plan_, [&] { return runner->Plan(buckets_, sets.front().scalars); }));
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      COPPICE_RETURN_IF_ERROR(
          Measure(record_, [&] { return runner->Record(buckets_[bucket], sets[bucket].scalars); }));
      const std::vector<NodeInfo> nodes = runner->session().nodes();
      const auto node = std::ranges::find(nodes, buckets_[bucket], &NodeInfo::bucket);
      if (node == nodes.end() || node->graph_nodes == 0) continue;
      record_.graph_nodes = node->graph_nodes;
      own.push_back((record_.us.back() - record_.driver_us.back()) * 100 /
                    static_cast<double>(node->graph_nodes));
    }
  }
  own_us_per_100_nodes_ = Median(own);
  return absl::OkStatus();
}

absl::Status PackageBenchJob::Run(const Console& console) {
  COPPICE_RETURN_IF_ERROR(Open());
  if (console.stopped()) return absl::CancelledError(kStopped);
  return LoadAndRecord();
}

std::string PackageBenchJob::Text() const {
  TextTable table("lrrrr", {"stage", "samples", "us", "in the driver", "instructions"});
  for (const StageSamples* const stage : stages()) {
    table.Add({stage->name, fmt::format("{}", stage->us.size()),
               fmt::format("{:.1f}", Median(stage->us)),
               fmt::format("{:.1f}", Median(stage->driver_us)),
               stage->instructions.empty() ? "not counted"
                                           : fmt::format("{:.0f}", Median(stage->instructions))});
  }
  return table.Format() +
         fmt::format("  {}, graphs of {}; recording 100 nodes takes {:.1f} us outside the driver\n",
                     Counted(std::ssize(buckets_), "bucket"), Counted(record_.graph_nodes, "node"),
                     own_us_per_100_nodes_);
}

std::string PackageBenchJob::JsonText() const {
  nlohmann::ordered_json measured;
  for (const StageSamples* const stage : stages()) {
    measured[stage->name] = {
        {"samples", stage->us.size()},
        {"us", Median(stage->us)},
        {"driver_us", Median(stage->driver_us)},
        {"instructions", stage->instructions.empty()
                             ? nlohmann::ordered_json(nullptr)
                             : nlohmann::ordered_json(Median(stage->instructions))}};
  }
  return FormatJson({{"package", options_.package},
                     {"device", device_->Name()},
                     {"device_kind", device_->chosen().kind()},
                     {"stages", measured},
                     {"buckets", buckets_.size()},
                     {"graph_nodes", record_.graph_nodes},
                     {"own_us_per_100_nodes", own_us_per_100_nodes_}});
}

}  // namespace

ExitCode PackageBench(const PackageBenchOptions& options, const Console& console) {
  PackageBenchJob job(options);
  if (const absl::Status status = job.Run(console); !status.ok()) {
    Print(console.err, "coppice package bench: {}\n", MessageOf(status));
    return ExitCodeOf(status);
  }
  Print(console.out, "{}", options.json ? job.JsonText() : job.Text());
  return kExitOk;
}

}  // namespace coppice
