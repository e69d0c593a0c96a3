// A sweep of prices.

#include "tools/fit/bucket_choice.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/score_buckets.h"

#include "tools/support/policy_file.h"

namespace coppice {
namespace {

// A graph costs from all elements of the traffic to next to none of them.
constexpr int kPrices = 22;
constexpr double kPriceStep = 0.5;

double ElementsOf(const SizeHistogram& sizes, int64_t limit) {
  double sum = 0;
  for (const SizeCount& each : sizes.counts())
    if (each.size <= limit) sum += static_cast<double>(each.size) * each.count;
  return sum;
}

// Adds what the calls of a program become in these buckets, without those that nobody calls.
absl::Status AddProgram(const SizedProgram& program,
                        const PaddingPolicy& policy,
                        BucketChoice& choice) {
  const PolicyScore score = ScoreBuckets(program.sizes, policy);
  std::vector<int64_t> kept;
  for (const BucketScore& bucket : score.per_bucket)
    if (bucket.calls > 0 || bucket.bucket == program.limit) kept.push_back(bucket.bucket);
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy called, PaddingPolicy::List(kept, kept.back()));
  choice.policies.push_back(std::move(called));
  choice.buckets.push_back(std::move(kept));
  choice.padded += score.cost;
  choice.real += score.real_cost;
  choice.in_buckets += score.calls;
  choice.calls += program.sizes.mass();
  return absl::OkStatus();
}

// At what a graph of the most bytes is worth, in elements.
absl::StatusOr<BucketChoice> ChooseAt(double elements_per_byte,
                                      const std::vector<SizedProgram>& programs,
                                      const ChoiceOptions& options) {
  BucketChoice choice;
  for (const SizedProgram& program : programs) {
    LearnOptions learn;
    learn.limit = program.limit;
    learn.align = program.align;
    learn.count =
        std::min(options.buckets_max, (program.limit + program.align - 1) / program.align);
    learn.price_of = [&](int64_t bucket) {
      return elements_per_byte * program.graph_bytes(bucket);
    };
    learn.prior = options.prior;
    const absl::StatusOr<LearnedBuckets> learned = LearnBuckets(program.sizes, learn);
    if (!learned.ok()) return InvalidArgument("{}: {}", program.name, MessageOf(learned.status()));
    COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy policy,
                             PaddingPolicy::List(learned->buckets, program.limit));
    COPPICE_RETURN_IF_ERROR(AddProgram(program, policy, choice));
  }
  return choice;
}

// Least is best.
std::tuple<double, double, int64_t> RankOf(const ChoiceFigures& figures, FitGoal goal) {
  const auto left = -static_cast<double>(figures.left_bytes);
  switch (goal) {
    case FitGoal::kTokens:
      return {left, figures.padding_pct, figures.graphs};
    case FitGoal::kPadding:
      return {figures.padding_pct, left, figures.graphs};
    case FitGoal::kGraphs:
      return {static_cast<double>(figures.graphs), figures.padding_pct, figures.graphs};
  }
  return {};
}

}  // namespace

absl::StatusOr<std::vector<BucketChoice>> ChooseBuckets(const std::vector<SizedProgram>& programs,
                                                        const ChoiceOptions& options) {
  double elements = 0;
  double graph_bytes = 1;
  for (const SizedProgram& program : programs) {
    elements += ElementsOf(program.sizes, program.limit);
    graph_bytes = std::max(graph_bytes, program.graph_bytes(program.limit));
  }
  std::vector<BucketChoice> choices;
  double price = std::max(elements, 1.0) / graph_bytes;
  for (int i = 0; i < kPrices; ++i, price *= kPriceStep) {
    COPPICE_ASSIGN_OR_RETURN(BucketChoice choice, ChooseAt(price, programs, options));
    if (!choices.empty() && choices.back().buckets == choice.buckets) continue;
    choice.name = fmt::format("learned {}", choices.size() + 1);
    choices.push_back(std::move(choice));
  }
  return choices;
}

absl::StatusOr<BucketChoice> ChoiceOf(const std::string& ladder,
                                      const std::vector<SizedProgram>& programs) {
  BucketChoice choice;
  choice.name = ladder;
  for (const SizedProgram& program : programs) {
    COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy policy, ParseFittingPolicy(ladder, program.limit));
    if (policy.is_exact())
      return InvalidArgument(
          "the policy `exact` has {} buckets, one for each size; give a ladder with fewer buckets",
          policy.maximum());
    COPPICE_RETURN_IF_ERROR(AddProgram(program, policy, choice));
  }
  return choice;
}

std::optional<size_t> BestOf(const std::vector<ChoiceFigures>& choices,
                             FitGoal goal,
                             const ChoiceBounds& bounds) {
  std::optional<size_t> best;
  for (size_t i = 0; i < choices.size(); ++i) {
    const ChoiceFigures& figures = choices[i];
    if (figures.left_bytes < bounds.left_min || figures.replay_pct < bounds.replays_min) continue;
    if (goal != FitGoal::kPadding && figures.padding_pct > bounds.padding_max) continue;
    if (!best || RankOf(figures, goal) < RankOf(choices[*best], goal)) best = i;
  }
  return best;
}

}  // namespace coppice
