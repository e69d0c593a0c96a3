// Traffic, a sweep of choices, a session for each, and the best.

#include "tools/fit/fit.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/policy_document.h"
#include "coppice/padding/score_buckets.h"

#include "tools/fit/bucket_choice.h"
#include "tools/fit/fit_report.h"
#include "tools/fit/fit_traffic.h"
#include "tools/fit/recorded_package.h"
#include "tools/support/byte_text.h"
#include "tools/support/progress.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr int64_t kLaunchesOfAll = 1000;  // Of a profile: shares of the traffic in thousandths.
constexpr int kMeasuredSizes = 5;

// Bytes of a graph by bucket, between those that were recorded on a line.
class GraphBytesBySize {
 public:
  void Add(int64_t bucket, int64_t bytes) { known_[bucket] = static_cast<double>(bytes); }
  double At(int64_t bucket) const {
    const auto above = known_.lower_bound(bucket);
    if (above == known_.end()) return std::prev(above)->second;
    if (above == known_.begin() || above->first == bucket) return above->second;
    const auto below = std::prev(above);
    const double share = static_cast<double>(bucket - below->first) /
                         static_cast<double>(above->first - below->first);
    return std::lerp(below->second, above->second, share);
  }

 private:
  std::map<int64_t, double> known_;  // Never empty when it is asked.
};

// A few sizes up to the limit, each as many times the one before.
std::vector<int64_t> SampleSizes(const ProgramTraffic& traffic) {
  std::vector<int64_t> sizes = {traffic.limit};
  for (int i = 1; i < kMeasuredSizes; ++i) {
    const double share = static_cast<double>(i) / kMeasuredSizes;
    const auto size = static_cast<int64_t>(std::pow(static_cast<double>(traffic.limit), share));
    const int64_t aligned = std::max(size / traffic.align, int64_t{1}) * traffic.align;
    if (aligned >= traffic.sizes.counts().front().size && aligned < traffic.limit)
      sizes.push_back(aligned);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  return sizes;
}

// What graphs take at those, on all lanes.
absl::StatusOr<std::vector<GraphBytesBySize>> MeasureGraphs(
    RecordedPackage& package, const std::vector<ProgramTraffic>& programs, int64_t lanes) {
  RecordedPackage::Recording recording;
  for (const ProgramTraffic& traffic : programs) {
    recording.buckets.push_back(SampleSizes(traffic));
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy,
                             PaddingPolicy::List(recording.buckets.back(), traffic.limit));
    recording.policies.push_back(std::move(policy));
  }
  COPPICE_ASSIGN_OR_RETURN(const RecordedMemory memory, package.Record(programs, recording));
  std::vector<GraphBytesBySize> bytes(programs.size());
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::string& name =
        package.manifest().programs[static_cast<size_t>(programs[i].program)].name;
    for (const NodeInfo& node : memory.nodes)
      if (node.program == name)
        bytes[i].Add(node.bucket[static_cast<size_t>(programs[i].symbol)], node.exec_bytes * lanes);
  }
  return bytes;
}

absl::StatusOr<FitPoint> PointOf(const FitOptions& options,
                                 RecordedPackage& package,
                                 const std::vector<ProgramTraffic>& programs,
                                 BucketChoice choice) {
  FitPoint point;
  COPPICE_ASSIGN_OR_RETURN(point.memory, package.Record(programs, {.policies = choice.policies,
                                                                   .buckets = choice.buckets,
                                                                   .lanes = options.lanes,
                                                                   .exact = options.exact}));
  point.padding_pct =
      options.exact == ExactReplay::kAlways && point.memory.families > 0 ? 0 : choice.padding_pct();
  point.left_bytes = options.memory_bytes - options.weights_bytes -
                     package.given_constants_bytes() - point.memory.total();
  point.choice = std::move(choice);
  return point;
}

bool HasCalls(const package::Manifest& manifest, const std::vector<ProgramTraffic>& programs) {
  return std::ranges::any_of(programs, [&](const ProgramTraffic& traffic) {
    return std::ranges::any_of(
        manifest.programs[static_cast<size_t>(traffic.program)].steps,
        [](const auto& step) { return std::holds_alternative<package::CallStep>(step.action); });
  });
}

// What the figures leave out.
void NoteLeftOut(const package::Manifest& manifest, FitReport& report) {
  std::set<int> named;
  for (const ProgramTraffic& traffic : report.programs) {
    const package::Program& program = manifest.programs[static_cast<size_t>(traffic.program)];
    named.insert(traffic.program);
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (static_cast<int>(i) != traffic.symbol)
        report.fixed.push_back(
            fmt::format("{}.{} is {}", program.name, program.symbols[i].name, traffic.extents[i]));
  }
  for (size_t i = 0; i < manifest.programs.size(); ++i)
    if (!named.contains(static_cast<int>(i))) report.others.push_back(manifest.programs[i].name);
}

// Which bound no choice keeps, and by how much.
std::string WhyNone(const FitOptions& options,
                    const std::vector<ChoiceFigures>& figures,
                    const ChoiceBounds& bounds) {
  const auto best = [&](auto value) {
    return std::ranges::max(figures | std::views::transform(value));
  };
  const double replays = best([](const ChoiceFigures& each) { return each.replay_pct; });
  if (replays < bounds.replays_min)
    return fmt::format(
        "only {:.1f} % of the calls have a bucket; give a larger --limit, or a --replays-min of "
        "less than {:g}",
        replays, bounds.replays_min);
  const double padding = -best([](const ChoiceFigures& each) { return -each.padding_pct; });
  if (options.goal != FitGoal::kPadding && padding > bounds.padding_max)
    return fmt::format(
        "no choice pads less than {:.1f} %; give more --buckets, or a larger --padding-max than "
        "{:g}",
        padding, bounds.padding_max);
  int64_t left = std::numeric_limits<int64_t>::min();
  for (const ChoiceFigures& each : figures)
    if (options.goal == FitGoal::kPadding || each.padding_pct <= bounds.padding_max)
      left = std::max(left, each.left_bytes);
  return fmt::format(
      "the best choice lacks {} of memory; give more --memory, less --weights, a smaller --limit "
      "or fewer --lanes",
      FormatBytes(bounds.left_min - left));
}

absl::Status AddLadders(const FitOptions& options,
                        RecordedPackage& package,
                        const std::vector<SizedProgram>& sized,
                        FitReport& report) {
  for (const std::string& ladder : options.ladders) {
    absl::StatusOr<BucketChoice> choice = ChoiceOf(ladder, sized);
    if (!choice.ok())
      return InvalidArgument("--compare {}: {}", ladder, MessageOf(choice.status()));
    absl::StatusOr<FitPoint> point = PointOf(options, package, report.programs, *std::move(choice));
    // A multiple that the package asks for, or a limit of graphs: others are shown all the same.
    if (point.ok())
      report.points.push_back(*std::move(point));
    else
      report.unfit.push_back(fmt::format("{}: {}", ladder, MessageOf(point.status())));
  }
  return absl::OkStatus();
}

absl::StatusOr<FitReport> Find(const FitOptions& options,
                               RecordedPackage& package,
                               const Console& console) {
  FitReport report;
  COPPICE_ASSIGN_OR_RETURN(report.programs, ReadFitTraffic(package.manifest(), options, console));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<GraphBytesBySize> bytes,
                           MeasureGraphs(package, report.programs, options.lanes));
  std::vector<SizedProgram> sized;
  for (size_t i = 0; i < report.programs.size(); ++i) {
    const ProgramTraffic& traffic = report.programs[i];
    sized.push_back({.name = traffic.name,
                     .sizes = traffic.sizes,
                     .limit = traffic.limit,
                     .align = traffic.align,
                     .graph_bytes = [&, i](int64_t bucket) { return bytes[i].At(bucket); }});
  }
  COPPICE_ASSIGN_OR_RETURN(
      std::vector<BucketChoice> choices,
      ChooseBuckets(sized, {.buckets_max = options.buckets_max, .prior = options.prior}));
  Progress progress(console.err, /*enabled=*/true, "record");
  std::vector<ChoiceFigures> figures;
  for (BucketChoice& choice : choices) {
    progress.Update(std::ssize(figures), std::ssize(choices));
    if (console.stopped()) return absl::CancelledError(kStopped);
    COPPICE_ASSIGN_OR_RETURN(FitPoint point,
                             PointOf(options, package, report.programs, std::move(choice)));
    figures.push_back({.padding_pct = point.padding_pct,
                       .replay_pct = point.choice.replay_pct(),
                       .left_bytes = point.left_bytes,
                       .graphs = point.memory.graphs()});
    report.points.push_back(std::move(point));
  }
  const ChoiceBounds bounds = {.padding_max = options.padding_max,
                               .replays_min = options.replays_min,
                               .left_min = options.kv_tokens_min * options.kv_bytes_per_token};
  report.best = BestOf(figures, options.goal, bounds);
  if (!report.best) report.why_none = WhyNone(options, figures, bounds);
  COPPICE_RETURN_IF_ERROR(AddLadders(options, package, sized, report));
  report.given_constants_bytes = package.given_constants_bytes();
  report.static_bytes = package.static_bytes();
  report.has_calls = HasCalls(package.manifest(), report.programs);
  NoteLeftOut(package.manifest(), report);
  return report;
}

// A profile that was made ahead is of no device.
absl::Status ForgetDevice(const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "a profile"));
  nlohmann::json profile = nlohmann::json::parse(text);
  profile.erase("device");
  return WriteTextFile(path, profile.dump());
}

std::string ProfilePath(const FitOptions& options) {
  return (std::filesystem::path(options.write) / "profile.json").string();
}

std::string PolicyPath(const FitOptions& options, const ProgramTraffic& traffic) {
  return (std::filesystem::path(options.write) / (traffic.name + ".json")).string();
}

// Policies, and a profile in which each bucket has its share of the calls.
absl::Status WriteBest(const FitOptions& options,
                       RecordedPackage& package,
                       const FitReport& report) {
  const FitPoint& best = report.points[*report.best];
  COPPICE_RETURN_IF_ERROR(MakeFolder(options.write));
  RecordedPackage::Recording recording{.policies = best.choice.policies,
                                       .buckets = best.choice.buckets,
                                       .lanes = options.lanes,
                                       .exact = options.exact};
  for (size_t i = 0; i < report.programs.size(); ++i) {
    const ProgramTraffic& traffic = report.programs[i];
    PolicyDocument document{.policy = best.choice.policies[i]};
    COPPICE_RETURN_IF_ERROR(
        WriteTextFile(PolicyPath(options, traffic), WritePolicyDocument(document) + "\n"));
    std::map<int64_t, double> calls;
    for (const BucketScore& bucket :
         ScoreBuckets(traffic.sizes, best.choice.policies[i]).per_bucket)
      calls[bucket.bucket] = bucket.calls;
    std::vector<int64_t>& launches = recording.launches.emplace_back();
    for (const int64_t bucket : best.choice.buckets[i])
      launches.push_back(
          static_cast<int64_t>(std::ceil(kLaunchesOfAll * calls[bucket] / best.choice.calls)));
  }
  recording.profile = ProfilePath(options);
  COPPICE_RETURN_IF_ERROR(package.Record(report.programs, recording).status());
  return ForgetDevice(recording.profile);
}

// That nothing is written over what was read, or into the package.
absl::Status CheckFiles(const FitOptions& options, const std::vector<ProgramTraffic>& programs) {
  std::vector<std::string> inputs = options.traffic;
  inputs.push_back(options.package);
  std::vector<std::string> outputs = {options.plot};
  if (!options.write.empty()) {
    outputs.push_back(ProfilePath(options));
    for (const ProgramTraffic& traffic : programs)
      outputs.push_back(PolicyPath(options, traffic));
  }
  COPPICE_RETURN_IF_ERROR(CheckOutputs(inputs, outputs));
  std::error_code error;
  const std::filesystem::path package = std::filesystem::weakly_canonical(options.package, error);
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    const std::filesystem::path path = std::filesystem::weakly_canonical(output, error);
    if (std::ranges::mismatch(package, path).in1 == package.end())
      return InvalidArgument("{} lies in the package {}; write it elsewhere", output,
                             options.package);
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const FitOptions& options) {
  if (options.kv_tokens_min > 0 && options.kv_bytes_per_token == 0)
    return InvalidArgument(
        "--kv-tokens-min {} needs the bytes per token; give --kv-bytes-per-token too",
        options.kv_tokens_min);
  return absl::OkStatus();
}

ExitCode FailFit(const Console& console, const absl::Status& status) {
  Print(console.err, "coppice fit: {}\n", MessageOf(status));
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return kExitStopped;
    case absl::StatusCode::kFailedPrecondition:
      return kExitOutput;
    default:
      return kExitUsage;
  }
}

}  // namespace

ExitCode Fit(const FitOptions& options, const Console& console) {
  if (const absl::Status checked = CheckTokens(options); !checked.ok())
    return FailFit(console, checked);
  const auto package = RecordedPackage::Open(options.package, options.trusted_keys);
  if (!package.ok()) return FailFit(console, InvalidArgument("{}", MessageOf(package.status())));
  const absl::StatusOr<FitReport> report = Find(options, **package, console);
  if (!report.ok()) return FailFit(console, report.status());
  if (const absl::Status files = CheckFiles(options, report->programs); !files.ok())
    return FailFit(console, files);
  if (!options.plot.empty())
    if (const absl::Status written = WriteTextFile(options.plot, DrawFit(*report)); !written.ok())
      return FailFit(console, written);
  if (!options.write.empty() && report->best)
    if (const absl::Status written = WriteBest(options, **package, *report); !written.ok())
      return FailFit(console, written);
  (options.json ? PrintFitJson : PrintFit)(options, *report, console.out);
  const bool asked = options.check || !options.write.empty();
  return asked && !report->best ? kExitMismatch : kExitOk;
}

}  // namespace coppice
