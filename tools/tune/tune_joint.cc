// Two symbols at once: what is one number for a column is a pair here.

#include "tools/tune/tune_joint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/padding/joint_buckets.h"
#include "coppice/padding/joint_document.h"

#include "tools/support/text_file.h"
#include "tools/support/text_table.h"
#include "tools/tune/joint_picture.h"
#include "tools/tune/tune_traffic.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

// Pairs of ladders that servers use, by JointPolicy::Parse.
constexpr std::array kGrids = {"pow2/pow2", "pow2/hpu-exponential", "linear:1/geometric:1.25:1",
                               "geometric:1.25:1/geometric:1.25:1"};

struct GridScore {
  std::string name;
  int64_t count = 0;
  double waste_pct = 0;
};

absl::StatusOr<JointSize> PairOf(const std::vector<int64_t>& numbers,
                                 const char* option,
                                 JointSize otherwise) {
  if (numbers.empty()) return otherwise;
  if (numbers.size() == 2) return JointSize{.a = numbers[0], .b = numbers[1]};
  return InvalidArgument("{} has {} for two columns; give {} A,B", option,
                         Counted(std::ssize(numbers), "number"), option);
}

JointSize LargestOf(const JointHistogram& histogram) {
  JointSize largest = {.a = 1, .b = 1};
  for (const JointCount& each : histogram.counts()) {
    largest.a = std::max(largest.a, each.size.a);
    largest.b = std::max(largest.b, each.size.b);
  }
  return largest;
}

// That what all calls cost, padded up to `limit` at most, is a number, and their waste as well.
absl::Status CheckPairSums(const TrafficOptions& options,
                           const JointHistogram& histogram,
                           const JointCost& cost,
                           JointSize limit) {
  // Where nobody has looked at the limit yet, its elements may be more than an integer holds.
  const JointSize most = {.a = std::min(limit.a, PaddingPolicy::kExtentMax),
                          .b = std::min(limit.b, PaddingPolicy::kExtentMax)};
  const auto cost_of = [&](JointSize size) {
    return cost ? cost(size) : static_cast<double>(size.elements());
  };
  double real = 0;
  for (const JointCount& each : histogram.counts())
    if (most.Holds(each.size)) real += each.count * cost_of(each.size);
  const double sum = 100 * histogram.mass() * cost_of(most);
  if (std::isfinite(sum) && (real == 0 || std::isfinite(sum / real))) return absl::OkStatus();
  return InvalidArgument(
      "{}: the cost of all {} calls of up to {}x{} may be {} with padding and {} without, which is "
      "out of range; give {}",
      options.cost.empty() ? options.files[0] : options.cost, histogram.mass(), limit.a, limit.b,
      sum / 100, real,
      options.cost.empty() ? "smaller counts" : "smaller costs, or costs nearer to each other");
}

// Which calls have no bucket, and what would hold them.
std::vector<std::string> AdviseOnPairs(const JointHistogram& histogram,
                                       const JointOptions& learn,
                                       double beyond) {
  double above = 0;
  for (const JointCount& each : histogram.counts())
    if (!learn.limit.Holds(each.size)) above += each.count;
  std::vector<std::string> advice;
  const JointSize largest = LargestOf(histogram);
  if (above > 0)
    advice.push_back(
        fmt::format("{:.2f} % of the calls are above the limit and have no bucket: --limit {},{} "
                    "holds all calls.",
                    100 * above / histogram.mass(), std::max(largest.a, learn.limit.a),
                    std::max(largest.b, learn.limit.b)));
  // Sums of the same counts in the same order.
  if (learn.budget > 0 && beyond > above)
    advice.push_back(
        fmt::format("{:.2f} % of the calls are in no bucket of up to {} elements: a larger "
                    "--product holds more calls.",
                    100 * (beyond - above) / histogram.mass(), learn.budget));
  return advice;
}

// The same cap for both, or one for each.
absl::Status SetCaps(const TuneLearnOptions& options, JointOptions& learn) {
  const std::vector<double>& ratio = options.max_ratio;
  const std::vector<int64_t>& gap = options.max_gap;
  if (gap.empty() && ratio.empty()) return absl::OkStatus();
  if (ratio.empty())
    return InvalidArgument("--max-gap needs --max-ratio; give one, such as --max-ratio 1.25");
  if (gap.size() > 2)
    return InvalidArgument("--max-gap has {} numbers for two columns; give one or two", gap.size());
  learn.cap_a.max_ratio = ratio.front();
  learn.cap_b.max_ratio = ratio.back();
  if (gap.empty()) return absl::OkStatus();
  // One number is for what is capped.
  if (gap.size() == 2 || learn.cap_a.max_ratio > 0) learn.cap_a.max_gap = gap.front();
  if (gap.size() == 2 || learn.cap_b.max_ratio > 0) learn.cap_b.max_gap = gap.back();
  return absl::OkStatus();
}

absl::StatusOr<JointOptions> JointOptionsOf(const TuneLearnOptions& options,
                                            const JointHistogram& histogram,
                                            const JointCost& cost) {
  if (options.buckets == 0 && options.price == 0)
    return InvalidArgument("neither a count of buckets nor a price is given; give --buckets K");
  for (const JointSize& forced : options.forced) {
    if (forced.b == 0)
      return InvalidArgument(
          "--force {}: the buckets of two columns are pairs; give a pair such as {}x128", forced.a,
          forced.a);
  }
  JointOptions learn = {.count = options.buckets,
                        .price = static_cast<double>(options.price),
                        .budget = options.product,
                        .forced = options.forced,
                        .prior = options.prior,
                        .cost = cost};
  COPPICE_ASSIGN_OR_RETURN(learn.limit, PairOf(options.limit, "--limit", LargestOf(histogram)));
  COPPICE_ASSIGN_OR_RETURN(learn.align, PairOf(options.align, "--align", {.a = 1, .b = 1}));
  COPPICE_RETURN_IF_ERROR(SetCaps(options, learn));
  return learn;
}

std::vector<GridScore> ScoreGrids(const JointHistogram& histogram,
                                  JointSize limit,
                                  const JointCost& cost) {
  std::vector<GridScore> scores;
  for (const char* name : kGrids) {
    const absl::StatusOr<JointPolicy> grid = JointPolicy::Parse(name, limit);
    if (!grid.ok()) continue;
    scores.push_back({.name = name,
                      .count = grid->count(),
                      .waste_pct = ScoreJoint(histogram, *grid, cost).waste_pct});
  }
  return scores;
}

Json JsonOf(const std::vector<JointSize>& buckets) {
  Json pairs = Json::array();
  for (const JointSize& bucket : buckets)
    pairs.push_back({bucket.a, bucket.b});
  return pairs;
}

void PrintJson(const Json& json, const Console& console) {
  Print(console.out, "{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

// What of a histogram is scored, per bucket.
struct JointCell {
  JointSize bucket;
  double calls = 0;
  double cost = 0;
  double real_cost = 0;
};

std::vector<JointCell> JointCellsOf(const JointHistogram& histogram,
                                    const JointPolicy& policy,
                                    const JointCost& cost) {
  const auto cost_of = [&cost](JointSize size) {
    return cost ? cost(size) : static_cast<double>(size.elements());
  };
  std::vector<JointCell> cells;
  for (const JointSize& bucket : policy.buckets())
    cells.push_back({.bucket = bucket});
  std::sort(cells.begin(), cells.end(),
            [](const JointCell& a, const JointCell& b) { return a.bucket < b.bucket; });
  for (const JointCount& each : histogram.counts()) {
    const std::optional<JointSize> bucket = policy.Find(each.size.a, each.size.b);
    if (!bucket) continue;
    const auto cell = std::lower_bound(
        cells.begin(), cells.end(), *bucket,
        [](const JointCell& left, const JointSize& right) { return left.bucket < right; });
    cell->calls += each.count;
    cell->cost += each.count * cost_of(*bucket);
    cell->real_cost += each.count * cost_of(each.size);
  }
  return cells;
}

absl::StatusOr<JointPolicy> ReadJointPolicy(const TuneScoreOptions& options, JointSize largest) {
  if (NamesPolicyFile(options.policy)) {
    if (!options.limit.empty())
      return InvalidArgument("--limit is for a ladder, and {} has a limit of its own; omit --limit",
                             options.policy);
    COPPICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(options.policy, "a policy"));
    COPPICE_ASSIGN_OR_RETURN(JointDocument document, ReadJointDocument(text, options.policy));
    return std::move(document.policy);
  }
  COPPICE_ASSIGN_OR_RETURN(const JointSize limit, PairOf(options.limit, "--limit", largest));
  return JointPolicy::Parse(options.policy, limit);
}

void PrintLearned(const TuneLearnOptions& options,
                  const JointHistogram& histogram,
                  const JointOptions& learn,
                  const LearnedJoint& learned,
                  const Console& console) {
  const std::vector<GridScore> grids = ScoreGrids(histogram, learn.limit, learn.cost);
  const std::vector<JointSize> buckets = learned.policy.buckets();
  if (options.json) {
    Json presets = Json::array();
    for (const GridScore& grid : grids)
      presets.push_back(
          {{"name", grid.name}, {"buckets", grid.count}, {"waste_pct", grid.waste_pct}});
    PrintJson({{"buckets", JsonOf(buckets)},
               {"doublings", learned.doublings},
               {"waste_pct", learned.score.waste_pct},
               {"limit", {learn.limit.a, learn.limit.b}},
               {"calls", histogram.mass()},
               {"calls_beyond", learned.score.beyond},
               {"presets", presets}},
              console);
  } else {
    Print(console.out, "{} calls, {}, expected waste {:.2f} %\n", histogram.mass(),
          Counted(std::ssize(buckets) - learned.doublings, "bucket"), learned.score.waste_pct);
    if (learned.doublings > 0)
      Print(console.out, "{} more, for sizes above all of these\n", learned.doublings);
    Print(console.out, "\n");
    TextTable table("lrr", {"on the same traffic", "buckets", "waste"});
    table.Add({"these", fmt::format("{}", buckets.size()),
               fmt::format("{:.2f} %", learned.score.waste_pct)});
    for (const GridScore& grid : grids)
      table.Add(
          {grid.name, fmt::format("{}", grid.count), fmt::format("{:.2f} %", grid.waste_pct)});
    Print(console.out, "{}\n", table.Format());
    for (const JointSize& bucket : buckets)
      Print(console.out, "{}x{} ", bucket.a, bucket.b);
    Print(console.out, "\n");
    for (const std::string& advice : AdviseOnPairs(histogram, learn, learned.score.beyond))
      Print(console.out, "\n{}\n", advice);
  }
}

absl::Status LearnPairs(const TuneLearnOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const JointCost cost, ReadJointCost(options.traffic));
  COPPICE_ASSIGN_OR_RETURN(const JointHistogram histogram,
                           ReadJointTraffic(options.traffic, console));
  COPPICE_ASSIGN_OR_RETURN(const JointOptions learn, JointOptionsOf(options, histogram, cost));
  COPPICE_RETURN_IF_ERROR(CheckPairSums(options.traffic, histogram, cost, learn.limit));
  COPPICE_ASSIGN_OR_RETURN(const LearnedJoint learned, LearnJoint(histogram, learn));
  PrintLearned(options, histogram, learn, learned, console);
  if (!options.output.empty()) {
    const JointDocument document = {
        .policy = learned.policy,
        .learned =
            JointLearnedFrom{.waste_pct = learned.score.waste_pct, .mass = histogram.mass()}};
    COPPICE_RETURN_IF_ERROR(WriteTextFile(options.output, WriteJointDocument(document) + "\n"));
  }
  if (options.plot.empty()) return absl::OkStatus();
  return WriteTextFile(options.plot, DrawJoint(histogram, learned.policy,
                                               {.name_a = options.traffic.columns[0],
                                                .name_b = options.traffic.columns[1],
                                                .cost = cost}));
}

absl::Status ScorePairs(const TuneScoreOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const JointCost cost, ReadJointCost(options.traffic));
  COPPICE_ASSIGN_OR_RETURN(const JointHistogram histogram,
                           ReadJointTraffic(options.traffic, console));
  COPPICE_ASSIGN_OR_RETURN(const JointPolicy policy,
                           ReadJointPolicy(options, LargestOf(histogram)));
  COPPICE_RETURN_IF_ERROR(CheckPairSums(options.traffic, histogram, cost, policy.limit()));
  const JointScore score = ScoreJoint(histogram, policy, cost);
  const std::vector<JointCell> cells = JointCellsOf(histogram, policy, cost);
  if (options.json) {
    Json per_bucket = Json::array();
    for (const JointCell& cell : cells)
      per_bucket.push_back({{"bucket", {cell.bucket.a, cell.bucket.b}},
                            {"calls", cell.calls},
                            {"cost", cell.cost},
                            {"real_cost", cell.real_cost}});
    PrintJson({{"policy", options.policy},
               {"buckets", JsonOf(policy.buckets())},
               {"waste_pct", score.waste_pct},
               {"calls", score.calls},
               {"calls_beyond", score.beyond},
               {"per_bucket", per_bucket}},
              console);
    return absl::OkStatus();
  }
  Print(console.out, "{}: {} buckets, waste {:.2f} % over {} calls, {} without a bucket\n\n",
        options.policy, policy.count(), score.waste_pct, score.calls, score.beyond);
  TextTable table("rrr", {"bucket", "calls", "waste"});
  for (const JointCell& cell : cells) {
    const double waste =
        cell.real_cost > 0 ? 100 * (cell.cost - cell.real_cost) / cell.real_cost : 0;
    table.Add({fmt::format("{}x{}", cell.bucket.a, cell.bucket.b),
               fmt::format("{:.0f}", cell.calls), fmt::format("{:.2f} %", waste)});
  }
  Print(console.out, "{}", table.Format());
  return absl::OkStatus();
}

// A file that could not be written is the only precondition that fails here.
ExitCode EndOf(const absl::Status& status, const char* command, const Console& console) {
  if (status.ok()) return kExitOk;
  return FailTune(console, command, status,
                  absl::IsFailedPrecondition(status) ? kExitOutput : kExitUsage);
}

}  // namespace

ExitCode TuneLearnJoint(const TuneLearnOptions& options, const Console& console) {
  return EndOf(LearnPairs(options, console), "tune", console);
}

ExitCode TuneScoreJoint(const TuneScoreOptions& options, const Console& console) {
  return EndOf(ScorePairs(options, console), "tune score", console);
}

}  // namespace coppice
