// `coppice tune score`: what a policy wastes on other traffic, per bucket.

#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/score_buckets.h"

#include "tools/support/text_table.h"
#include "tools/tune/tune.h"
#include "tools/tune/tune_joint.h"
#include "tools/tune/tune_traffic.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

struct ScoreReport {
  std::string name;
  int64_t maximum = 0;
  Traffic traffic;
  PolicyScore score;
};

absl::StatusOr<ScoreReport> Score(const TuneScoreOptions& options, const Console& console) {
  if (options.limit.size() > 1)
    return InvalidArgument("--limit has {} numbers for one column; give --limit N",
                           options.limit.size());
  ScoreReport report;
  COPPICE_ASSIGN_OR_RETURN(const BucketCost cost, ReadCost(options.traffic.cost));
  COPPICE_ASSIGN_OR_RETURN(report.traffic, ReadTraffic(options.traffic, console));
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy policy,
                           ReadPolicy(options.policy, options.limit.empty() ? 0 : options.limit[0],
                                      report.traffic.histogram.largest()));
  COPPICE_RETURN_IF_ERROR(
      CheckSums(options.traffic, report.traffic.histogram, cost, policy.maximum()));
  report.name = options.policy;
  report.maximum = policy.maximum();
  report.score = ScoreBuckets(report.traffic.histogram, policy, cost);
  return report;
}

double WasteOf(const BucketScore& bucket) {
  return bucket.real_cost > 0 ? 100 * (bucket.cost - bucket.real_cost) / bucket.real_cost : 0;
}

Json JsonOf(const ScoreReport& report) {
  const PolicyScore& score = report.score;
  Json buckets = Json::array();
  Json per_bucket = Json::array();
  for (const BucketScore& bucket : score.per_bucket) {
    buckets.push_back(bucket.bucket);
    per_bucket.push_back({{"bucket", bucket.bucket},
                          {"calls", bucket.calls},
                          {"cost", bucket.cost},
                          {"real_cost", bucket.real_cost},
                          {"waste_pct", WasteOf(bucket)}});
  }
  Json worst = Json::array();
  for (const SizeLoss& loss : score.worst) {
    worst.push_back(
        {{"size", loss.size}, {"bucket", loss.bucket}, {"calls", loss.calls}, {"cost", loss.cost}});
  }
  return {{"policy", report.name},
          {"limit", report.maximum},
          {"buckets", buckets},
          {"waste_pct", score.waste_pct},
          {"calls", score.calls},
          {"calls_beyond", score.beyond},
          {"calls_refused", score.refused},
          {"rows_without_value", report.traffic.without_value},
          {"per_bucket", per_bucket},
          {"worst_sizes", worst}};
}

void PrintReport(const ScoreReport& report, std::FILE* out) {
  const PolicyScore& score = report.score;
  Print(out, "{}: {} buckets up to {}, waste {:.2f} % over {} calls\n", report.name, score.buckets,
        report.maximum, score.waste_pct, score.calls);
  if (score.beyond > 0) Print(out, "calls above all buckets: {}\n", score.beyond);
  if (score.refused > 0) Print(out, "calls that the policy's guard refuses: {}\n", score.refused);
  if (report.traffic.without_value > 0)
    Print(out, "not counted: {} without a value\n", Counted(report.traffic.without_value, "row"));
  TextTable table("rrrr", {"bucket", "calls", "waste", "of all padding"});
  const double padding = score.cost - score.real_cost;
  for (const BucketScore& bucket : score.per_bucket) {
    const double share = padding > 0 ? 100 * (bucket.cost - bucket.real_cost) / padding : 0;
    table.Add({fmt::format("{}", bucket.bucket), fmt::format("{:.0f}", bucket.calls),
               fmt::format("{:.2f} %", WasteOf(bucket)), fmt::format("{:.1f} %", share)});
  }
  Print(out, "\n{}", table.Format());
}

}  // namespace

ExitCode TuneScore(const TuneScoreOptions& options, const Console& console) {
  if (options.traffic.columns.size() == 2) return TuneScoreJoint(options, console);
  const absl::StatusOr<ScoreReport> report = Score(options, console);
  if (!report.ok()) return FailTune(console, "tune score", report.status());
  if (options.json) {
    Print(console.out, "{}\n", JsonOf(*report).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    PrintReport(*report, console.out);
  }
  return kExitOk;
}

}  // namespace coppice
