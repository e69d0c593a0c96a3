// Points of a histogram and of the prior, and the values that extents of buckets may have.

#include "graphs/padding/joint_problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {
namespace {

// Where the prior stands along one axis: at each size, and from twice this many on at one for all
// within this part of it, which is finer than buckets are.
constexpr int64_t kPriorParts = 10;

struct PriorRung {
  int64_t size;
  double weight;  // The sum of 1 / size of those it stands for.
};

std::vector<PriorRung> PriorRungs(int64_t limit) {
  std::vector<PriorRung> rungs;
  for (int64_t below = 0; below < limit;) {
    const int64_t size = std::min(limit, std::max(below + 1, below + below / kPriorParts));
    double weight = 0;
    if (size - below == 1)
      weight = 1.0 / static_cast<double>(size);
    else  // The sum of 1 / i as an integral, exact to a millionth.
      weight = std::log((static_cast<double>(size) + 0.5) / (static_cast<double>(below) + 0.5));
    rungs.push_back({size, weight});
    below = size;
  }
  return rungs;
}

size_t RungOf(const std::vector<PriorRung>& rungs, int64_t extent) {
  const auto rung = std::ranges::lower_bound(rungs, extent, {}, &PriorRung::size);
  return static_cast<size_t>(rung - rungs.begin());
}

// Makes of the calls at each of some rungs, `step` apart, the mean weight of all that stands in
// joint_buckets.h: those at the rung or above, and of those below the square of the ratio.
void SmoothAlong(const std::vector<PriorRung>& rungs, double* calls, size_t step) {
  double above = 0;
  for (size_t i = 0; i < rungs.size(); ++i)
    above += calls[i * step];
  double squares = 0;
  for (size_t i = 0; i < rungs.size(); ++i) {
    const auto size = static_cast<double>(rungs[i].size);
    double& here = calls[i * step];
    const double smooth = above + squares / (size * size);
    above = std::max(above - here, 0.0);
    squares += here * size * size;
    here = smooth;
  }
}

// The prior at each pair of rungs. Requires: calls within the last rungs.
std::vector<JointCount> SpreadOver(std::span<const JointCount> calls,
                                   const std::vector<PriorRung>& a_rungs,
                                   const std::vector<PriorRung>& b_rungs) {
  const size_t width = b_rungs.size();
  std::vector<double> cells(a_rungs.size() * width);
  for (const JointCount& call : calls)
    cells[RungOf(a_rungs, call.size.a) * width + RungOf(b_rungs, call.size.b)] += call.count;
  for (size_t a = 0; a < a_rungs.size(); ++a)
    SmoothAlong(b_rungs, &cells[a * width], 1);
  for (size_t b = 0; b < width; ++b)
    SmoothAlong(a_rungs, &cells[b], width);
  std::vector<JointCount> spread;
  for (size_t a = 0; a < a_rungs.size(); ++a) {
    for (size_t b = 0; b < width; ++b)
      spread.push_back({{a_rungs[a].size, b_rungs[b].size},
                        cells[a * width + b] * a_rungs[a].weight * b_rungs[b].weight});
  }
  return spread;
}

// The candidates along one axis, with the weight that each is the smallest to hold.
using WeightByValue = std::map<int64_t, double>;

std::vector<int64_t> ThinOut(const WeightByValue& values, int64_t most) {
  std::vector<int64_t> kept;
  double total = 0;
  for (const auto& [value, weight] : values)
    total += weight;
  const bool all = std::ssize(values) <= most;
  double reached = 0;
  double shares = 1;
  for (const auto& [value, weight] : values) {
    reached += weight;
    if (!all && reached * static_cast<double>(most) < shares * total) continue;
    kept.push_back(value);
    shares = std::floor(reached * static_cast<double>(most) / total) + 1;
  }
  return kept;
}

void AddValue(std::vector<int64_t>& values, int64_t value) {
  const auto place = std::lower_bound(values.begin(), values.end(), value);
  if (place == values.end() || *place != value) values.insert(place, value);
}

int32_t IndexOf(const std::vector<int64_t>& values, int64_t extent) {
  return static_cast<int32_t>(std::lower_bound(values.begin(), values.end(), extent) -
                              values.begin());
}

absl::Status CheckCap(const JointCap& cap) {
  if (cap.max_ratio != 0 && !(cap.max_ratio >= 1 && std::isfinite(cap.max_ratio)))
    return InvalidArgument("LearnJoint: max_ratio {} must be 0, or at least 1", cap.max_ratio);
  if (cap.max_gap < 0 || (cap.max_gap > 0 && cap.max_ratio == 0))
    return InvalidArgument("LearnJoint: max_gap is {}; give 0 or more, and give max_ratio as well",
                           cap.max_gap);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckJointOptions(const JointOptions& options) {
  if (options.count < 0 || options.count > JointPolicy::kListMax)
    return InvalidArgument("LearnJoint: count {} is outside [0, {}]", options.count,
                           JointPolicy::kListMax);
  if (!(options.price >= 0 && std::isfinite(options.price)))
    return InvalidArgument("LearnJoint: price is {}; give 0 or more", options.price);
  if (options.count == 0 && options.price == 0 && !options.price_of)
    return InvalidArgument("LearnJoint: there is neither a count nor a price; give one of them");
  COPPICE_RETURN_IF_ERROR(CheckCap(options.cap_a));
  COPPICE_RETURN_IF_ERROR(CheckCap(options.cap_b));
  if (options.shape == JointShape::kList &&
      (options.cap_a.max_ratio > 0 || options.cap_b.max_ratio > 0))
    return InvalidArgument(
        "LearnJoint: a list cannot keep caps; learn a grid, or leave the caps out");
  if (options.align.a < 1 || options.align.b < 1)
    return InvalidArgument("LearnJoint: align {}x{} is below 1", options.align.a, options.align.b);
  if (!(options.prior >= 0 && options.prior <= 1))  // A NaN fails as well.
    return InvalidArgument("LearnJoint: prior {} is outside [0, 1]", options.prior);
  // What is wrong with the limit, the rule or a forced bucket is wrong with a list of them, too.
  std::vector<JointSize> buckets = options.forced;
  if (buckets.empty()) buckets.push_back({1, 1});
  return JointPolicy::Ordered(buckets, options.limit, options.budget).status();
}

std::vector<int64_t> CapRungs(const JointCap& cap, int64_t align, int64_t limit) {
  std::vector<int64_t> rungs;
  for (int64_t below = 0; below < limit; below = rungs.back()) {
    const int64_t smallest = below + 1;
    const double scaled = std::min(cap.max_ratio * static_cast<double>(smallest),
                                   static_cast<double>(limit));  // Before it is an integer.
    const int64_t farthest =
        std::max(static_cast<int64_t>(scaled), smallest + std::min(cap.max_gap, limit - smallest));
    rungs.push_back(std::min(limit, std::max(farthest / align * align, AlignUp(smallest, align))));
  }
  return rungs;
}

absl::StatusOr<JointProblem> JointProblem::Create(const JointHistogram& histogram,
                                                  const JointOptions& options) {
  JointProblem problem;
  problem.options_ = &options;
  problem.limit_cost_ =
      options.cost ? options.cost(options.limit) : static_cast<double>(options.limit.elements());
  if (!(problem.limit_cost_ >= 0) || std::isinf(problem.limit_cost_))
    return InvalidArgument("LearnJoint: the limit {}x{} costs {}; give a finite cost of 0 or more",
                           options.limit.a, options.limit.b, problem.limit_cost_);
  double& mass = problem.mass_;
  for (const JointCount& entry : histogram.counts())
    mass += problem.Obeys(entry.size) ? entry.count : 0;
  if (!(mass > 0))
    return InvalidArgument("LearnJoint: no call is within the limit {}x{}{}", options.limit.a,
                           options.limit.b, options.budget == 0 ? "" : " and the budget");
  for (const JointCount& entry : histogram.counts()) {
    const double weight = (1 - options.prior) * entry.count / mass;
    if (problem.Obeys(entry.size) && weight > 0) problem.weights_.push_back({entry.size, weight});
  }
  if (options.prior > 0) {
    std::vector<JointCount> calls = histogram.counts();
    std::erase_if(calls, [&](const JointCount& entry) { return !problem.Obeys(entry.size); });
    std::vector<JointCount> spread =
        SpreadOver(calls, PriorRungs(options.limit.a), PriorRungs(options.limit.b));
    std::erase_if(spread, [&](const JointCount& entry) { return !problem.Obeys(entry.size); });
    double sum = 0;
    for (const JointCount& entry : spread)
      sum += entry.count;
    for (JointCount& entry : spread) {
      entry.count *= options.prior / sum;
      problem.weights_.push_back(entry);
    }
  }
  std::vector<JointSize>& fixed = problem.fixed_;
  if (problem.Obeys(options.limit)) {
    fixed.push_back(options.limit);
  } else {
    fixed.push_back({options.limit.a, options.budget / options.limit.a});
    fixed.push_back({options.budget / options.limit.b, options.limit.b});
  }
  fixed.insert(fixed.end(), options.forced.begin(), options.forced.end());
  std::sort(fixed.begin(), fixed.end());
  fixed.erase(std::unique(fixed.begin(), fixed.end()), fixed.end());
  return problem;
}

double JointProblem::CostOf(JointSize bucket) const {
  if (!Obeys(bucket)) return limit_cost_;
  return options_->cost ? options_->cost(bucket) : static_cast<double>(bucket.elements());
}

double JointProblem::PriceOf(JointSize bucket) const {
  if (!Obeys(bucket)) return 0;
  const double price = options_->price_of ? options_->price_of(bucket) : options_->price;
  // One that is none is free here, so that its bucket is learned, and that is an error.
  return price > 0 && std::isfinite(price) ? price / mass_ : 0;
}

double JointProblem::Whole(const JointPolicy& policy) const {
  double whole = Expected(policy);
  if (!priced()) return whole;
  for (const JointSize& bucket : policy.buckets())
    whole += PriceOf(bucket);
  return whole;
}

double JointProblem::Expected(const JointPolicy& policy) const {
  double expected = 0;
  for (const JointCount& entry : weights_) {
    const std::optional<JointSize> bucket = policy.Find(entry.size.a, entry.size.b);
    expected += entry.count * (bucket ? CostOf(*bucket) : limit_cost_);
  }
  return expected;
}

JointValues JointProblem::Values(int64_t a_max,
                                 int64_t b_max,
                                 std::span<const JointSize> kept) const {
  WeightByValue by_a;
  WeightByValue by_b;
  const JointSize limit = options_->limit;
  for (const JointCount& entry : weights_) {
    const double weight = entry.count;
    by_a[std::min(limit.a, AlignUp(std::max<int64_t>(entry.size.a, 1), options_->align.a))] +=
        weight;
    by_b[std::min(limit.b, AlignUp(std::max<int64_t>(entry.size.b, 1), options_->align.b))] +=
        weight;
  }
  JointValues values = {.a = ThinOut(by_a, a_max), .b = ThinOut(by_b, b_max)};
  const auto keep = [&values](JointSize bucket) {
    AddValue(values.a, bucket.a);
    AddValue(values.b, bucket.b);
  };
  keep(limit);
  for (const JointSize& bucket : fixed_)
    keep(bucket);
  for (const JointSize& bucket : kept)
    keep(bucket);
  return values;
}

std::vector<JointPoint> JointProblem::Points(const JointValues& values) const {
  std::map<std::pair<int32_t, int32_t>, double> cells;
  for (const JointCount& entry : weights_)
    cells[{IndexOf(values.a, entry.size.a), IndexOf(values.b, entry.size.b)}] += entry.count;
  std::vector<JointPoint> points;
  points.reserve(cells.size());
  for (const auto& [cell, weight] : cells)
    points.push_back({cell.first, cell.second, weight});
  return points;
}

}  // namespace coppice
