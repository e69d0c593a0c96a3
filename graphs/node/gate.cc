// Rounds of timed runs, and the test that closes them.

#include "graphs/node/gate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>

#include "coppice/base/check.h"

#include "boost/math/distributions/students_t.hpp"

namespace coppice::internal {
namespace {

namespace policies = boost::math::policies;

// Boost throws by default; here, what cannot be computed is a NaN.
using Quiet = policies::policy<policies::domain_error<policies::ignore_error>,
                               policies::pole_error<policies::ignore_error>,
                               policies::overflow_error<policies::ignore_error>,
                               policies::evaluation_error<policies::ignore_error>,
                               policies::rounding_error<policies::ignore_error>>;

// Differences are taken from the first value, so that equal values have exactly that mean.
double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values)
    sum += value - values[0];
  return values[0] + sum / static_cast<double>(values.size());
}

double VarianceOfMean(std::span<const double> values) {
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return squares / (count - 1) / count;
}

double Median(std::span<double> values) {
  const auto upper = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), upper, values.end());
  if (values.size() % 2 == 1) return *upper;
  return std::midpoint(*std::max_element(values.begin(), upper), *upper);
}

// Two-sided p-value of Welch's t-test. Without any variance the means are known: they are equal or
// they are not. Timings too large to square say nothing.
double WelchPValue(std::span<const double> a, std::span<const double> b) {
  const double distance = std::abs(Mean(a) - Mean(b));
  const double variance_a = VarianceOfMean(a);
  const double variance = variance_a + VarianceOfMean(b);
  if (variance == 0) return distance == 0 ? 1 : 0;
  const double share = variance_a / variance;
  const double freedom = 1 / (share * share / static_cast<double>(a.size() - 1) +
                              (1 - share) * (1 - share) / static_cast<double>(b.size() - 1));
  const boost::math::students_t_distribution<double, Quiet> distribution(freedom);
  const double p = 2 * cdf(complement(distribution, distance / std::sqrt(variance)));
  return std::isnan(p) ? 1 : p;
}

}  // namespace

Gate::Run Gate::HandOut() {
  if (decided_ || handed_out_ == 2 * kRunsMax) BeginRound();
  const bool eager = std::popcount(static_cast<unsigned>(handed_out_)) % 2 == 1;
  if (++handed_out_ == 2 * kRunsMax) calls_left_ = kRecheckCalls;
  return {eager ? Choice::kEager : Choice::kReplay, true, round_};
}

void Gate::Add(const Run& run, double microseconds) {
  if (!run.timed || run.round != round_ || decided_) return;
  if (!std::isfinite(microseconds) || microseconds < 0) return;
  Timings& side = timings_[static_cast<int>(run.choice)];
  COPPICE_CHECK(side.count < kRunsMax, "a run of a gate is timed at most once");
  side.microseconds[side.count++] = microseconds;
  if (std::min(timings_[0].count, timings_[1].count) >= kSamples) CloseRound();
}

void Gate::Reset() {
  BeginRound();
  decision_ = Choice::kReplay;
  verdict_.reset();
}

void Gate::BeginRound() {
  ++round_;
  decided_ = false;
  calls_left_ = 0;
  handed_out_ = 0;
  for (Timings& side : timings_)
    side.count = 0;
}

void Gate::CloseRound() {
  auto& [replay, eager] = timings_;
  Verdict verdict{.replay = Summary(replay), .eager = Summary(eager)};
  verdict.p_value = WelchPValue({replay.microseconds.data(), static_cast<size_t>(replay.count)},
                                {eager.microseconds.data(), static_cast<size_t>(eager.count)});
  if (verdict.eager.median_us < verdict.replay.median_us &&
      verdict.eager.mean_us < verdict.replay.mean_us && verdict.p_value < kSignificance) {
    verdict.kept = Choice::kEager;
  }
  verdict_ = verdict;
  decision_ = verdict.kept;
  decided_ = true;
  calls_left_ = kRecheckCalls;
}

Gate::Side Gate::Summary(const Timings& timings) {
  std::array<double, kRunsMax> sorted = timings.microseconds;
  const std::span<double> values(sorted.data(), static_cast<size_t>(timings.count));
  return {.samples = timings.count, .median_us = Median(values), .mean_us = Mean(values)};
}

}  // namespace coppice::internal
