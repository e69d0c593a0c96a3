// A runner for what is asked for, and one for each way that it is compared with.

#include "tools/package/package_run.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/package/compare_runs.h"
#include "tools/package/package_run_report.h"
#include "tools/package/program_runner.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr int64_t kRingBytes = 256 * kMiB;  // Of a case.
constexpr std::array kPoisons = {Poison::kNan, Poison::kPattern, Poison::kNoise};

// Ends the command with this exit code, having said why.
struct Failure {
  ExitCode code = kExitUsage;
  absl::Status status;
};

// Everything of one run of the command.
class PackageRunJob {
 public:
  explicit PackageRunJob(const PackageRunOptions& options) : options_(options) {}

  std::optional<Failure> Run(const Console& console);
  const PackageRunReport& report() const { return report_; }

 private:
  absl::Status Prepare();
  absl::Status MakeRunners();
  std::optional<Failure> RunCalls(const Console& console);
  absl::Status RunSet(const CallSet& set, int64_t index, int64_t call);
  void Compare(const RunOutcome& outcome, const char* way, int64_t set, int64_t call);
  absl::Status SaveCase() const;
  absl::Status WriteOutputs();
  absl::Status WriteOne(const std::filesystem::path& folder,
                        const std::string& name,
                        const HostArray& array);
  void Fill();

  const PackageRunOptions& options_;
  PackageRunReport report_;
  std::unique_ptr<PackageDevice> device_;
  RunnerOptions runner_options_;
  std::vector<CallSet> sets_;
  std::vector<HostArray> statics_;
  std::unique_ptr<ProgramRunner> runner_;
  std::unique_ptr<ProgramRunner> reference_;              // Null: nothing is compared.
  std::vector<std::unique_ptr<ProgramRunner>> poisoned_;  // Of kPoisons, or none.
  std::optional<RunOutcome> expected_;
  std::vector<RunOutcome> last_;  // Per set.
};

std::optional<Failure> PackageRunJob::Run(const Console& console) {
  if (const absl::Status status = Prepare(); !status.ok()) {
    // Files that cannot be opened have the code of their errno.
    return Failure{device_ == nullptr ? kExitUsage : ExitCodeOf(status), status};
  }
  std::optional<Failure> failure = RunCalls(console);
  if (const absl::Status status = SaveCase(); !status.ok()) return Failure{kExitOutput, status};
  if (failure) {
    Fill();
    return failure;
  }
  if (const absl::Status status = WriteOutputs(); !status.ok()) return Failure{kExitOutput, status};
  Fill();
  return std::nullopt;
}

absl::Status PackageRunJob::Prepare() {
  COPPICE_ASSIGN_OR_RETURN(package::Package package,
                           PackageDevice::OpenPackage(options_.package, options_.trusted_keys));
  COPPICE_ASSIGN_OR_RETURN(runner_options_.program,
                           FindProgram(package.manifest(), options_.program));
  const package::Program& program =
      package.manifest().programs[static_cast<size_t>(runner_options_.program)];
  COPPICE_ASSIGN_OR_RETURN(runner_options_.claims, ParseClaims(program, options_.claims));
  COPPICE_ASSIGN_OR_RETURN(runner_options_.policies,
                           ParsePolicies(program, options_.policies, runner_options_.claims));
  COPPICE_ASSIGN_OR_RETURN(sets_, MakeCallSets(program, options_.sets));
  COPPICE_ASSIGN_OR_RETURN(statics_, MakeStatics(program, options_.statics));
  PackageDeviceOptions device;
  device.choice = options_.device;
  device.emulator.seed = options_.seed;
  device.emulator.strictness = options_.checks;
  COPPICE_ASSIGN_OR_RETURN(device_, PackageDevice::Create(device));
  COPPICE_RETURN_IF_ERROR(device_->Load(std::move(package)));
  COPPICE_RETURN_IF_ERROR(device_->TakeConstants(runner_options_.program, options_.constants));
  return MakeRunners();
}

absl::Status PackageRunJob::MakeRunners() {
  if (options_.verify || options_.poison) runner_options_.variant_timing = VariantTiming::kNever;
  RunnerOptions recorded = runner_options_;
  if (!options_.case_path.empty())
    recorded.recorder = {.ring_bytes = kRingBytes, .outputs = true, .static_bytes_max = kMiB};
  COPPICE_ASSIGN_OR_RETURN(runner_, ProgramRunner::Create(*device_, recorded, statics_));
  if (options_.verify || options_.poison) {
    RunnerOptions eager = runner_options_;
    eager.stance = Stance::kEager;
    COPPICE_ASSIGN_OR_RETURN(reference_, ProgramRunner::Create(*device_, eager, statics_));
  }
  for (size_t i = 0; options_.poison && i < kPoisons.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(poisoned_.emplace_back(),
                             ProgramRunner::Create(*device_, runner_options_, statics_));
  }
  return absl::OkStatus();
}

std::optional<Failure> PackageRunJob::RunCalls(const Console& console) {
  for (size_t set = 0; set < sets_.size(); ++set) {
    for (int64_t call = 1; call <= options_.calls; ++call) {
      if (console.stopped()) return Failure{kExitStopped, absl::CancelledError(kStopped)};
      const absl::Status status = RunSet(sets_[set], static_cast<int64_t>(set), call);
      if (!status.ok())
        return Failure{ExitCodeOf(status), MakeError(status.code(), "set {}, call {}: {}", set + 1,
                                                     call, MessageOf(status))};
    }
  }
  return std::nullopt;
}

absl::Status PackageRunJob::RunSet(const CallSet& set, int64_t index, int64_t call) {
  expected_.reset();
  if (reference_ != nullptr) {
    COPPICE_ASSIGN_OR_RETURN(expected_, reference_->Run(set));
  }
  COPPICE_ASSIGN_OR_RETURN(RunOutcome outcome, runner_->Run(set));
  Compare(outcome, "", index, call);
  for (size_t i = 0; i < poisoned_.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(const RunOutcome poisoned, poisoned_[i]->Run(set, kPoisons[i]));
    Compare(poisoned, NameOf(kPoisons[i]), index, call);
  }
  RanCall ran{.set = index + 1, .call = call, .extents = set.extents, .outcome = {}};
  ran.outcome.kind = outcome.kind;
  ran.outcome.reason = outcome.reason;
  ran.outcome.bucket = outcome.bucket;
  report_.calls.push_back(std::move(ran));
  last_.resize(static_cast<size_t>(index) + 1);
  last_.back() = std::move(outcome);
  return absl::OkStatus();
}

void PackageRunJob::Compare(const RunOutcome& outcome, const char* way, int64_t set, int64_t call) {
  if (!expected_) return;
  const package::Program& program = runner_->program();
  report_.compared += std::ssize(outcome.outputs) + std::ssize(outcome.mutated);
  const Equality equal = EqualityOfProgram(program, runner_options_.claims);
  for (const Difference& difference : CompareRuns(program, equal, *expected_, outcome))
    report_.mismatches.push_back(fmt::format("set {}, call {}{}{}: {}", set + 1, call,
                                             *way == 0 ? "" : ", padding of ", way,
                                             difference.text));
}

// Also after a fault, which is what people want a case of.
absl::Status PackageRunJob::SaveCase() const {
  if (options_.case_path.empty()) return absl::OkStatus();
  const std::string& why =
      report_.mismatches.empty() ? "coppice package run" : report_.mismatches.front();
  return runner_->session().recorder().Save(options_.case_path, why, {});
}

absl::Status PackageRunJob::WriteOne(const std::filesystem::path& folder,
                                     const std::string& name,
                                     const HostArray& array) {
  const std::string path = folder / (FileNameOf(name) + ".npy");
  COPPICE_RETURN_IF_ERROR(WriteArray(path, array));
  report_.files.push_back(path);
  return absl::OkStatus();
}

absl::Status PackageRunJob::WriteOutputs() {
  if (options_.output_dir.empty()) return absl::OkStatus();
  const package::Program& program = runner_->program();
  const std::vector<std::string> mutated = MutatedNames(program);
  for (size_t set = 0; set < last_.size(); ++set) {
    std::filesystem::path folder = options_.output_dir;
    if (last_.size() > 1) folder /= fmt::format("{}", set + 1);
    COPPICE_RETURN_IF_ERROR(MakeFolder(folder.string()));
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const auto buffer = static_cast<size_t>(program.outputs[i]);
      COPPICE_RETURN_IF_ERROR(
          WriteOne(folder, program.buffers[buffer].name, last_[set].outputs[i]));
    }
    for (size_t i = 0; i < mutated.size(); ++i)
      COPPICE_RETURN_IF_ERROR(WriteOne(folder, mutated[i], last_[set].mutated[i]));
  }
  COPPICE_ASSIGN_OR_RETURN(const std::vector<HostArray> statics, runner_->ReadStatics());
  size_t next = 0;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (!buffer.is_static) continue;
    const HostArray& array = statics[next++];
    if (buffer.mutated) COPPICE_RETURN_IF_ERROR(WriteOne(options_.output_dir, buffer.name, array));
  }
  return absl::OkStatus();
}

void PackageRunJob::Fill() {
  const package::Package& package = device_->loaded().package();
  report_.path = package.path();
  report_.sha256 = package.manifest().sha256;
  report_.program = runner_->program().name;
  report_.device = device_->Name();
  report_.device_kind = device_->chosen().kind();
  for (const package::Symbol& symbol : runner_->program().symbols)
    report_.symbols.push_back(symbol.name);
  report_.kernels = ChosenTargets(device_->loaded(), runner_options_.program);
  report_.nodes = runner_->session().nodes();
  report_.variants = runner_->session().variants();
  const MemoryUsage usage = runner_->session().memory().usage();
  report_.pool_bytes = usage.height;
  report_.pool_mapped = usage.of(MemoryKind::kPlan);
  report_.findings = device_->chosen().reports();
  report_.fault = device_->chosen().fault();
}

}  // namespace

ExitCode PackageRun(const PackageRunOptions& options, const Console& console) {
  PackageRunJob job(options);
  const std::optional<Failure> failure = job.Run(console);
  if (failure) {
    if (!job.report().fault.empty())
      Print(console.err, "coppice package run: fault: {}\n", job.report().fault);
    for (const std::string& line : job.report().findings)
      Print(console.err, "coppice package run: finding: {}\n", line);
    Print(console.err, "coppice package run: {}\n", MessageOf(failure->status));
    return failure->code;
  }
  const PackageRunReport& report = job.report();
  Print(console.out, "{}", options.json ? FormatReportJson(report) : FormatReport(report));
  if (!report.findings.empty()) return kExitDevice;
  return report.mismatches.empty() ? kExitOk : kExitMismatch;
}

}  // namespace coppice
