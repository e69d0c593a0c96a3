// Kinds of padding from the strongest to the weakest, of one symbol after another.

#include "tools/package/package_claim.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/float_format.h"
#include "coppice/base/status.h"

#include "tools/package/claim_report.h"
#include "tools/package/claim_trial.h"
#include "tools/package/first_step.h"
#include "tools/package/given_value.h"
#include "tools/package/package_rewrite.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr size_t kFollowed = 8;  // Buckets in which the padding of a symbol is followed.

// Kinds of padding that a symbol may stand, the strongest first. Row independence is another word
// for one of the others where all inputs that are padded have floats, or none has.
std::vector<PaddingContents> KindsOf(const package::Program& program, int symbol) {
  const auto is_padded = [symbol](const package::Amount& size) {
    return size.expression &&
           std::ranges::count(size.expression->Reads(), static_cast<size_t>(symbol)) > 0;
  };
  bool floats = false;
  bool others = false;
  for (const int index : program.inputs) {
    const package::Buffer& buffer = program.buffers[static_cast<size_t>(index)];
    if (std::ranges::any_of(buffer.shape, is_padded))
      (FloatFormat::Of(buffer.dtype) ? floats : others) = true;
  }
  std::vector<PaddingContents> kinds = {PaddingContents::kAny};
  if (floats && others) kinds.push_back(PaddingContents::kRowIndependent);
  kinds.insert(kinds.end(), {PaddingContents::kFinite, PaddingContents::kFill});
  return kinds;
}

std::optional<double> FractionIn(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && value < 1e30 ? std::optional(value) : std::nullopt;
}

// Everything of one run of the command.
class ClaimSearch {
 public:
  explicit ClaimSearch(const PackageClaimOptions& options) : options_(options) {}

  absl::Status Run(const Console& console);
  const ClaimReport& report() const { return report_; }

 private:
  absl::Status Prepare();
  absl::StatusOr<std::vector<int64_t>> GivenScalars() const;
  absl::StatusOr<std::vector<Trial>> MakeTrials(const std::vector<int>& padded);
  absl::StatusOr<CallSet> DrawSet(const SizePair& sizes);
  absl::StatusOr<SymbolFound> Search(int symbol);
  absl::Status TryTogether();
  // Where the padding of the first trials gets.
  std::string FollowTrials(const std::vector<Trial>& trials) const;
  std::string NameStep(const Trial& trial,
                       const TrialFailure& failure,
                       PaddingContents contents,
                       const Equality& equal) const;

  const package::Program& program() const {
    return package_->manifest().programs[static_cast<size_t>(index_)];
  }

  const PackageClaimOptions& options_;
  ClaimReport report_;
  std::optional<package::Package> package_;
  int index_ = 0;
  std::vector<HostArray> statics_;
  std::map<std::string, GivenValue> given_;
  std::unique_ptr<ClaimTrials> trials_;
  uint64_t drawn_ = 0;  // Sets.
};

absl::Status ClaimSearch::Prepare() {
  COPPICE_ASSIGN_OR_RETURN(package::Package package,
                           PackageDevice::OpenPackage(options_.package, {}));
  package_.emplace(std::move(package));
  COPPICE_ASSIGN_OR_RETURN(index_, FindProgram(package_->manifest(), options_.program));
  report_.path = package_->path();
  report_.program = program().name;
  COPPICE_ASSIGN_OR_RETURN(statics_, MakeStatics(program(), options_.statics));
  for (const std::string& text : options_.inputs) {
    COPPICE_ASSIGN_OR_RETURN(GivenValue value, ParseGivenValue(text));
    if (value.kind == GivenValue::Kind::kFile)
      return InvalidArgument(
          "{}: sizes vary between runs, so no file fits; give random:SEED or random:SEED:LOW:HIGH",
          text);
    const std::string name = value.name;
    given_[name] = std::move(value);
  }
  ClaimTrials::Options trials{.package = options_.package,
                              .program = index_,
                              .constants = options_.constants,
                              .device = {}};
  trials.device.choice = options_.device;
  trials.device.emulator.seed = options_.seed;
  // What kernels do wrong is what `coppice package run` says.
  trials.device.emulator.strictness.kernel_race = false;
  COPPICE_ASSIGN_OR_RETURN(trials_, ClaimTrials::Create(trials, program(), statics_));
  report_.device_kind = trials_->device().chosen().kind();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ClaimSearch::GivenScalars() const {
  std::vector<int64_t> scalars;
  for (size_t i = 0; i < program().scalars.size(); ++i) {
    const std::string& name = program().scalars[i].name;
    const auto given = given_.find(name);
    const bool is_size = std::ranges::any_of(program().symbols, [&](const package::Symbol& symbol) {
      return symbol.scalar == static_cast<int>(i);
    });
    if (given == given_.end() && !is_size)
      return InvalidArgument(
          "scalar '{}' of program '{}' has no value; give one, such as --input {}=5", name,
          program().name, name);
    scalars.push_back(
        given == given_.end() || given->second.numbers.empty() ? 0 : given->second.numbers[0]);
  }
  return scalars;
}

absl::StatusOr<CallSet> ClaimSearch::DrawSet(const SizePair& sizes) {
  CallSetTexts texts;
  const uint64_t draw = drawn_++;
  COPPICE_ASSIGN_OR_RETURN(std::vector<int64_t> scalars, GivenScalars());
  for (size_t i = 0; i < sizes.real.size(); ++i) {
    const package::Symbol& symbol = program().symbols[i];
    if (symbol.scalar >= 0) scalars[static_cast<size_t>(symbol.scalar)] = sizes.real[i];
    texts.extents.push_back(fmt::format("{}={}", symbol.name, sizes.real[i]));
  }
  for (size_t i = 0; i < scalars.size(); ++i)
    texts.inputs.push_back(fmt::format("{}={}", program().scalars[i].name, scalars[i]));
  uint64_t index = 0;
  for (const std::string& name : InputNames(program(), /*static_ones=*/false)) {
    const auto given = given_.find(name);
    if (given != given_.end() && given->second.kind == GivenValue::Kind::kZeros) {
      texts.inputs.push_back(name + "=zeros");
      continue;
    }
    DrawnRange range = given == given_.end() ? DrawnRange() : given->second.range;
    const package::Buffer& buffer =
        *std::ranges::find(program().buffers, name, &package::Buffer::name);
    // A maximum shows a fill of 0 where all that lives is below it, a minimum where it is above.
    if (!range.low && FloatFormat::Of(buffer.dtype)) {
      constexpr std::array kRanges = {std::pair(-1, 1), std::pair(-2, -1), std::pair(1, 2)};
      std::tie(range.low, range.high) = kRanges[draw % kRanges.size()];
    }
    const uint64_t seed = SplitMixWord(options_.seed + range.seed, 1000 * draw + index++);
    std::string text = fmt::format("{}=random:{}", name, seed);
    if (range.low) text += fmt::format(":{}:", *range.low);
    if (range.high) text += fmt::format("{}", *range.high);
    texts.inputs.push_back(text + (given == given_.end() ? "" : given->second.high));
  }
  // So that names which the program has not are refused.
  for (const auto& [name, value] : given_) {
    const auto same = [&](const std::string& text) { return text.starts_with(name + "="); };
    if (std::ranges::none_of(texts.inputs, same)) texts.inputs.push_back(name + "=zeros");
  }
  COPPICE_ASSIGN_OR_RETURN(std::vector<CallSet> sets, MakeCallSets(program(), texts));
  return std::move(sets.front());
}

absl::StatusOr<std::vector<Trial>> ClaimSearch::MakeTrials(const std::vector<int>& padded) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> scalars, GivenScalars());
  uint64_t seed = options_.seed;
  for (const int symbol : padded)
    seed = SplitMixWord(seed, static_cast<uint64_t>(symbol));
  COPPICE_ASSIGN_OR_RETURN(SizeDrawer drawer,
                           SizeDrawer::Create(program(), options_.size_max, seed));
  std::vector<Trial> trials;
  for (int64_t i = 0; i < options_.pairs; ++i) {
    COPPICE_ASSIGN_OR_RETURN(SizePair sizes, drawer.Draw(padded, scalars));
    COPPICE_ASSIGN_OR_RETURN(CallSet set, DrawSet(sizes));
    COPPICE_ASSIGN_OR_RETURN(trials.emplace_back(),
                             trials_->Begin(std::move(sizes), std::move(set)));
  }
  return trials;
}

std::string ClaimSearch::NameStep(const Trial& trial,
                                  const TrialFailure& failure,
                                  PaddingContents contents,
                                  const Equality& equal) const {
  if (failure.fault) return "the kernel that the fault names";
  const absl::StatusOr<DifferingStep> step = FirstDifferingStep(trials_->device(), index_,
                                                                {.sizes = trial.sizes,
                                                                 .set = trial.set,
                                                                 .poison = failure.poison,
                                                                 .contents = contents,
                                                                 .equal = equal,
                                                                 .follows = options_.explain},
                                                                statics_);
  return step.ok() ? step->text : fmt::format("an unknown step: {}", MessageOf(step.status()));
}

std::string ClaimSearch::FollowTrials(const std::vector<Trial>& trials) const {
  std::map<std::vector<int64_t>, const Trial*> by_bucket;
  for (const Trial& trial : trials)
    by_bucket.emplace(trial.sizes.padded, &trial);
  // The smallest ones, because to follow padding takes long.
  std::vector<const Trial*> smallest;
  for (const auto& [bucket, trial] : by_bucket)
    smallest.push_back(trial);
  std::ranges::stable_sort(smallest, {}, [](const Trial* trial) {
    return std::reduce(trial->sizes.padded.begin(), trial->sizes.padded.end());
  });
  smallest.resize(std::min(smallest.size(), kFollowed));
  std::string text;
  for (const Trial* const each : smallest) {
    const Trial& trial = *each;
    const absl::StatusOr<PaddingPath> path = FollowPadding(
        trials_->device(), index_, {.sizes = trial.sizes, .set = trial.set, .equal = {}}, statics_);
    if (!path.ok()) return "padding cannot be followed: " + MessageOf(path.status());
    text = fmt::format("{}: {}", PairText(program(), trial.sizes), TextOf(*path));
    if (path->reaches_output) return text;
  }
  return fmt::format("{} ({} followed)", text, Counted(std::ssize(smallest), "bucket"));
}

absl::StatusOr<SymbolFound> ClaimSearch::Search(int symbol) {
  const package::Symbol& described = program().symbols[static_cast<size_t>(symbol)];
  SymbolFound found{.symbol = described.name, .said = described.claim};
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Trial> trials, MakeTrials({symbol}));
  if (options_.explain) found.path = FollowTrials(trials);
  std::optional<PaddingClaim> within;  // The strongest that holds within the tolerance.
  for (const PaddingContents kind : KindsOf(program(), symbol)) {
    const std::map<std::string, PaddingClaim> claims = {{described.name, {.padding = kind}}};
    COPPICE_ASSIGN_OR_RETURN(const KindOutcome outcome,
                             trials_->Try(trials, claims, options_.tolerance));
    KindTried tried{.padding = kind, .runs = outcome.runs};
    const std::optional<TrialFailure>& worst = outcome.tolerance ? outcome.tolerance : outcome.bits;
    tried.holds_bits = !outcome.bits;
    tried.holds_tolerance = !outcome.tolerance;
    if (worst) {
      tried.sizes = PairText(program(), worst->sizes);
      tried.poison = NameOf(worst->poison);
      tried.failure = worst->text;
      const auto trial = std::ranges::find_if(trials, [&](const Trial& each) {
        return each.sizes.real == worst->sizes.real && each.sizes.padded == worst->sizes.padded;
      });
      tried.step =
          NameStep(*trial, *worst, kind, outcome.tolerance ? options_.tolerance : Equality());
    }
    found.tried.push_back(std::move(tried));
    if (!outcome.bits) {
      found.claim = PaddingClaim{.padding = kind, .equal = {}};
      return found;
    }
    if (!outcome.tolerance && !within)
      within = PaddingClaim{.padding = kind, .equal = options_.tolerance};
  }
  found.claim = within;
  return found;
}

absl::Status ClaimSearch::TryTogether() {
  std::map<std::string, PaddingClaim> claims;
  std::vector<int> padded;
  Equality tolerance;
  for (size_t i = 0; i < report_.symbols.size(); ++i) {
    const SymbolFound& found = report_.symbols[i];
    if (!found.claim) continue;
    padded.push_back(static_cast<int>(i));
    claims[found.symbol] = *found.claim;
    tolerance = Joined(tolerance, found.claim->equal);
  }
  if (padded.size() < 2) return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Trial> trials, MakeTrials(padded));
  COPPICE_ASSIGN_OR_RETURN(const KindOutcome outcome, trials_->Try(trials, claims, tolerance));
  report_.together_runs = outcome.runs;
  if (outcome.tolerance)
    report_.together =
        fmt::format("{}, padding of {}: {}", PairText(program(), outcome.tolerance->sizes),
                    NameOf(outcome.tolerance->poison), outcome.tolerance->text);
  return absl::OkStatus();
}

absl::Status ClaimSearch::Run(const Console& console) {
  COPPICE_RETURN_IF_ERROR(Prepare());
  for (int i = 0; i < static_cast<int>(program().symbols.size()); ++i) {
    if (console.stopped()) return absl::CancelledError(kStopped);
    COPPICE_ASSIGN_OR_RETURN(SymbolFound found, Search(i));
    report_.symbols.push_back(std::move(found));
  }
  COPPICE_RETURN_IF_ERROR(TryTogether());
  if (!options_.write || !report_.together.empty()) return absl::OkStatus();
  std::map<std::string, std::optional<PaddingClaim>> claims;
  for (const SymbolFound& found : report_.symbols)
    claims[found.symbol] = found.claim;
  COPPICE_RETURN_IF_ERROR(WriteClaims(*package_, program().name, claims));
  report_.written = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Equality> ParseTolerance(const std::string& text) {
  const size_t colon = text.find(':');
  const std::optional<double> absolute = FractionIn(std::string_view(text).substr(0, colon));
  const std::optional<double> relative =
      colon == std::string::npos ? 0 : FractionIn(std::string_view(text).substr(colon + 1));
  if (absolute && relative) return Equality{false, *absolute, *relative};
  return InvalidArgument(
      "'{}' is not a tolerance; give ABSOLUTE or ABSOLUTE:RELATIVE, such as 1e-05:1e-03", text);
}

ExitCode PackageClaim(const PackageClaimOptions& options, const Console& console) {
  ClaimSearch search(options);
  if (const absl::Status status = search.Run(console); !status.ok()) {
    Print(console.err, "coppice package claim: {}\n", MessageOf(status));
    return ExitCodeOf(status);
  }
  const ClaimReport& report = search.report();
  Print(console.out, "{}", options.json ? FormatClaimsJson(report) : FormatClaims(report));
  return ClaimsTooMuch(report) ? kExitMismatch : kExitOk;
}

}  // namespace coppice
