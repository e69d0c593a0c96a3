// A session per trial, in which each run begins as the first did.

#include "tools/package/claim_trial.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr int kDrawsMax = 10'000;
constexpr int64_t kSizesLeast = 8;  // Sizes of a symbol to draw from, if it has so many.

constexpr std::array kEveryPoison = {Poison::kNan, Poison::kPattern, Poison::kNoise};
constexpr std::array kNoPoison = {Poison::kOff};

std::span<const Poison> PoisonsOf(const std::map<std::string, PaddingClaim>& claims) {
  const bool all_fill = std::ranges::all_of(
      claims, [](const auto& claim) { return claim.second.padding == PaddingContents::kFill; });
  if (all_fill) return kNoPoison;
  return kEveryPoison;
}

}  // namespace

absl::StatusOr<SizeDrawer> SizeDrawer::Create(const package::Program& program,
                                              int64_t size_max,
                                              uint64_t seed) {
  SizeDrawer drawer(program, size_max, seed);
  const std::vector<std::string> names = program.names();
  for (const std::string& guard : program.guards) {
    COPPICE_ASSIGN_OR_RETURN(Expression parsed, Expression::Parse(guard, names));
    drawer.guards_.push_back(std::move(parsed));
  }
  return drawer;
}

int64_t SizeDrawer::DrawSize(const package::Symbol& symbol) {
  const int64_t step = std::max<int64_t>(symbol.multiple_of, 1);
  const int64_t least = std::max<int64_t>(symbol.min, symbol.exclude_01 ? 2 : 1);
  const int64_t first = (least + step - 1) / step;
  const int64_t last = std::max(size_max_ / step, first + kSizesLeast - 1);
  return step * std::uniform_int_distribution(
                    first, std::max(first, std::min(last, symbol.max / step)))(random_);
}

bool SizeDrawer::Allowed(const std::vector<int64_t>& extents, std::vector<int64_t> scalars) const {
  for (size_t i = 0; i < extents.size(); ++i) {
    const package::Symbol& symbol = program_.symbols[i];
    if (extents[i] < symbol.min || extents[i] > symbol.max) return false;
    if (symbol.scalar >= 0) scalars[static_cast<size_t>(symbol.scalar)] = extents[i];
  }
  const std::vector<int64_t> values = ValuesOf(program_, extents, scalars);
  return std::ranges::all_of(guards_, [&](const Expression& guard) {
    const Computed value = guard.Evaluate(values);
    return value.fault == ArithmeticFault::kNone && value.value != 0;
  });
}

absl::StatusOr<SizePair> SizeDrawer::Draw(std::span<const int> padded,
                                          std::vector<int64_t> scalars) {
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    SizePair sizes;
    for (const package::Symbol& symbol : program_.symbols)
      sizes.real.push_back(DrawSize(symbol));
    sizes.padded = sizes.real;
    bool larger = true;
    for (const int index : padded) {
      const auto i = static_cast<size_t>(index);
      sizes.padded[i] = DrawSize(program_.symbols[i]);
      if (sizes.padded[i] < sizes.real[i]) std::swap(sizes.padded[i], sizes.real[i]);
      larger &= sizes.padded[i] > sizes.real[i];
    }
    if (larger && Allowed(sizes.real, scalars) && Allowed(sizes.padded, scalars)) return sizes;
  }
  return InvalidArgument(
      "program '{}': {} draws found no sizes that its symbols and guards allow; give a larger "
      "--size-max",
      program_.name, kDrawsMax);
}

absl::StatusOr<std::unique_ptr<ClaimTrials>> ClaimTrials::Create(
    const Options& options,
    const package::Program& program,
    const std::vector<HostArray>& statics) {
  std::unique_ptr<ClaimTrials> trials(new ClaimTrials(options, program, statics));
  COPPICE_RETURN_IF_ERROR(trials->OpenDevice());
  return trials;
}

absl::Status ClaimTrials::OpenDevice() {
  device_.reset();  // There is one emulator at a time.
  COPPICE_ASSIGN_OR_RETURN(package::Package package,
                           PackageDevice::OpenPackage(options_.package, {}));
  COPPICE_ASSIGN_OR_RETURN(device_, PackageDevice::Create(options_.device));
  COPPICE_RETURN_IF_ERROR(device_->Load(std::move(package)));
  return device_->TakeConstants(options_.program, options_.constants);
}

absl::StatusOr<Trial> ClaimTrials::Begin(SizePair sizes, CallSet set) const {
  const RunnerOptions options{
      .program = options_.program, .stance = Stance::kEager, .policies = {}, .claims = {}};
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> runner,
                           ProgramRunner::Create(*device_, options, statics_));
  Trial trial{.sizes = std::move(sizes), .set = std::move(set), .expected = {}};
  COPPICE_ASSIGN_OR_RETURN(trial.expected, runner->Run(trial.set));
  return trial;
}

absl::StatusOr<std::map<std::string, PaddingPolicy>> ClaimTrials::PoliciesFor(
    const SizePair& sizes) const {
  std::map<std::string, PaddingPolicy> policies;
  for (size_t i = 0; i < sizes.real.size(); ++i) {
    const package::Symbol& symbol = program_.symbols[i];
    const int64_t bucket[] = {sizes.padded[i]};
    COPPICE_ASSIGN_OR_RETURN(
        PaddingPolicy policy,
        sizes.padded[i] > sizes.real[i]
            ? PaddingPolicy::List(bucket, sizes.padded[i])
            : PaddingPolicy::Exact(std::clamp<int64_t>(symbol.max, 1, PaddingPolicy::kExtentMax)));
    policies.emplace(symbol.name, std::move(policy));
  }
  return policies;
}

absl::StatusOr<KindOutcome> ClaimTrials::Try(const std::vector<Trial>& trials,
                                             const std::map<std::string, PaddingClaim>& claims,
                                             const Equality& tolerance) {
  KindOutcome outcome;
  for (size_t i = 0; i < trials.size() && !outcome.tolerance; ++i)
    COPPICE_RETURN_IF_ERROR(TryOne(trials[i], claims, tolerance, outcome));
  if (outcome.tolerance && outcome.tolerance->fault) COPPICE_RETURN_IF_ERROR(OpenDevice());
  return outcome;
}

absl::Status ClaimTrials::TryOne(const Trial& trial,
                                 const std::map<std::string, PaddingClaim>& claims,
                                 const Equality& tolerance,
                                 KindOutcome& outcome) {
  RunnerOptions options{.program = options_.program, .claims = {claims.begin(), claims.end()}};
  COPPICE_ASSIGN_OR_RETURN(options.policies, PoliciesFor(trial.sizes));
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRunner> runner,
                           ProgramRunner::Create(*device_, options, statics_));
  for (const Poison poison : PoisonsOf(claims)) {
    COPPICE_RETURN_IF_ERROR(runner->Rewind(statics_));
    const absl::StatusOr<RunOutcome> ran = runner->Run(trial.set, poison);
    ++outcome.runs;
    const std::string fault = device_->chosen().fault();
    if (!ran.ok() && fault.empty()) return ran.status();
    const auto failure = [&](const Equality& equal) -> std::optional<TrialFailure> {
      if (!ran.ok()) return TrialFailure{trial.sizes, poison, fault, /*fault=*/true};
      if (ran->kind == RunKind::kEager)
        return TrialFailure{trial.sizes, poison,
                            fmt::format("it cannot be padded: {}", NameOf(ran->reason))};
      const auto differences = CompareRuns(program_, equal, trial.expected, *ran);
      if (differences.empty()) return std::nullopt;
      return TrialFailure{trial.sizes, poison, differences.front().text};
    };
    std::optional<TrialFailure> bits = failure(Equality());
    if (!bits) continue;
    if (!outcome.bits) outcome.bits = std::move(bits);
    outcome.tolerance = failure(tolerance);
    if (outcome.tolerance) return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::string PairText(const package::Program& program, const SizePair& sizes) {
  std::string text;
  for (size_t i = 0; i < sizes.real.size(); ++i) {
    text +=
        fmt::format("{}{}={}", text.empty() ? "" : ", ", program.symbols[i].name, sizes.real[i]);
    if (sizes.padded[i] != sizes.real[i]) text += fmt::format(" padded to {}", sizes.padded[i]);
  }
  return text;
}

}  // namespace coppice
