// `coppice tune`: reads, learns, compares with every preset, advises, writes.

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/padding_presets.h"
#include "coppice/padding/policy_document.h"
#include "coppice/padding/score_buckets.h"

#include "tools/support/text_file.h"
#include "tools/support/text_table.h"
#include "tools/tune/tune.h"
#include "tools/tune/tune_advice.h"
#include "tools/tune/tune_joint.h"
#include "tools/tune/tune_picture.h"
#include "tools/tune/tune_traffic.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

struct PresetScore {
  std::string name;
  PolicyScore score;
};

struct LearnReport {
  Traffic traffic;
  int64_t limit = 0;
  LearnedBuckets learned;
  std::optional<PaddingPolicy> policy;
  PolicyScore score;
  std::vector<PresetScore> presets;
  std::vector<std::string> advice;
};

absl::StatusOr<LearnReport> Learn(const TuneLearnOptions& options, const Console& console) {
  if (options.buckets == 0 && options.price == 0)
    return InvalidArgument("neither a count of buckets nor a price is given; give --buckets K");
  const bool pairs = std::any_of(options.forced.begin(), options.forced.end(),
                                 [](const JointSize& forced) { return forced.b > 0; });
  if (options.limit.size() > 1 || options.align.size() > 1 || options.max_ratio.size() > 1 ||
      options.max_gap.size() > 1 || pairs || options.product > 0)
    return InvalidArgument(
        "--limit A,B, --align A,B, --max-ratio A,B, --max-gap A,B, --force AxB and --product are "
        "for two columns; give one number each, or --column twice");
  LearnReport report;
  COPPICE_ASSIGN_OR_RETURN(const BucketCost cost, ReadCost(options.traffic.cost));
  COPPICE_ASSIGN_OR_RETURN(report.traffic, ReadTraffic(options.traffic, console));
  const SizeHistogram& histogram = report.traffic.histogram;
  report.limit =
      options.limit.empty() ? std::max<int64_t>(histogram.largest(), 1) : options.limit[0];
  COPPICE_RETURN_IF_ERROR(CheckSums(options.traffic, histogram, cost, report.limit));
  std::vector<int64_t> forced;
  for (const JointSize& each : options.forced)
    forced.push_back(each.a);
  const LearnOptions learn = {.limit = report.limit,
                              .count = options.buckets,
                              .price = static_cast<double>(options.price),
                              .align = options.align.empty() ? 1 : options.align[0],
                              .forced = forced,
                              .prior = options.prior,
                              .max_ratio = options.max_ratio.empty() ? 0 : options.max_ratio[0],
                              .max_gap = options.max_gap.empty() ? 0 : options.max_gap[0],
                              .cost = cost};
  COPPICE_ASSIGN_OR_RETURN(report.learned, LearnBuckets(histogram, learn));
  COPPICE_ASSIGN_OR_RETURN(report.policy,
                           PaddingPolicy::List(report.learned.buckets, report.limit));
  report.score = ScoreBuckets(histogram, *report.policy, cost);
  for (const PaddingPreset& preset : PaddingPresets()) {
    // One that this limit is too small for has no part.
    const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(preset.name, report.limit);
    if (policy.ok())
      report.presets.push_back({preset.name, ScoreBuckets(histogram, *policy, cost)});
  }
  report.advice = AdviseOn(histogram, learn, report.learned);
  return report;
}

Json JsonOf(const LearnReport& report) {
  Json presets = Json::array();
  for (const PresetScore& preset : report.presets) {
    presets.push_back({{"name", preset.name},
                       {"buckets", preset.score.buckets},
                       {"waste_pct", preset.score.waste_pct}});
  }
  Json worst = Json::array();
  for (const SizeLoss& loss : report.score.worst) {
    worst.push_back(
        {{"size", loss.size}, {"bucket", loss.bucket}, {"calls", loss.calls}, {"cost", loss.cost}});
  }
  return {{"buckets", report.learned.buckets},
          {"doublings", report.learned.doublings},
          {"waste_pct", report.learned.waste_pct},
          {"limit", report.limit},
          {"rows", report.traffic.rows},
          {"rows_without_value", report.traffic.without_value},
          {"calls", report.traffic.histogram.mass()},
          {"calls_beyond", report.learned.beyond},
          {"worst_sizes", worst},
          {"presets", presets},
          {"advice", report.advice}};
}

// What a size that costs much costs of all padding.
double ShareOf(const SizeLoss& loss, const PolicyScore& score) {
  return 100 * loss.cost / (score.cost - score.real_cost);
}

void PrintReport(const LearnReport& report, std::FILE* out) {
  const Traffic& traffic = report.traffic;
  Print(out, "{} calls of {} sizes, {} to {}", traffic.histogram.mass(),
        traffic.histogram.counts().size(), traffic.histogram.counts().front().size,
        traffic.histogram.largest());
  if (traffic.weighed) Print(out, ", in {} weighted rows", traffic.rows);
  if (traffic.without_value > 0)
    Print(out, "; not counted: {} without a value", Counted(traffic.without_value, "row"));
  const std::span<const int64_t> buckets = report.learned.buckets;
  const auto doublings = static_cast<size_t>(report.learned.doublings);
  Print(out, "\n\n{}: {}\n", Counted(std::ssize(buckets) - report.learned.doublings, "bucket"),
        ShortList(buckets.first(buckets.size() - doublings)));
  if (doublings > 0)
    Print(out, "{} more, for sizes above all of these: {}\n", doublings,
          ShortList(buckets.last(doublings)));
  Print(out, "expected waste {:.2f} %\n\n", report.learned.waste_pct);

  TextTable presets("lrr", {"on the same traffic", "buckets", "waste"});
  presets.Add({"these", fmt::format("{}", report.score.buckets),
               fmt::format("{:.2f} %", report.score.waste_pct)});
  for (const PresetScore& preset : report.presets)
    presets.Add({preset.name, fmt::format("{}", preset.score.buckets),
                 fmt::format("{:.2f} %", preset.score.waste_pct)});
  Print(out, "{}\n", presets.Format());

  if (!report.score.worst.empty()) {
    TextTable worst("rrrr", {"size", "bucket", "calls", "of all padding"});
    for (const SizeLoss& loss : report.score.worst)
      worst.Add({fmt::format("{}", loss.size), fmt::format("{}", loss.bucket),
                 fmt::format("{:.0f}", loss.calls),
                 fmt::format("{:.1f} %", ShareOf(loss, report.score))});
    Print(out, "{}\n", worst.Format());
  }
  for (const std::string& advice : report.advice)
    Print(out, "{}\n", advice);
}

absl::Status WriteTargets(const TuneLearnOptions& options, const LearnReport& report) {
  if (!options.output.empty()) {
    const PolicyDocument document = {.policy = *report.policy,
                                     .learned = LearnedFrom{.waste_pct = report.learned.waste_pct,
                                                            .mass = report.learned.mass,
                                                            .limit = report.limit}};
    COPPICE_RETURN_IF_ERROR(WriteTextFile(options.output, WritePolicyDocument(document) + "\n"));
  }
  if (options.plot.empty()) return absl::OkStatus();
  return WriteTextFile(options.plot,
                       DrawBuckets(report.traffic.histogram, report.score,
                                   {.name = options.traffic.columns[0], .limit = report.limit}));
}

}  // namespace

ExitCode TuneLearn(const TuneLearnOptions& options, const Console& console) {
  std::vector<std::string> inputs = options.traffic.files;
  inputs.push_back(options.traffic.cost);
  const std::vector<std::string> outputs = {options.output, options.plot};
  if (const absl::Status status = CheckOutputs(inputs, outputs); !status.ok())
    return FailTune(console, "tune", status);
  if (options.traffic.columns.size() == 2) return TuneLearnJoint(options, console);
  const absl::StatusOr<LearnReport> report = Learn(options, console);
  if (!report.ok()) return FailTune(console, "tune", report.status());
  if (options.json) {
    Print(console.out, "{}\n", JsonOf(*report).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    PrintReport(*report, console.out);
  }
  if (const absl::Status status = WriteTargets(options, *report); !status.ok())
    return FailTune(console, "tune", status, kExitOutput);
  return kExitOk;
}

}  // namespace coppice
