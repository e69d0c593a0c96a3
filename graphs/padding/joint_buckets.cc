// The better of a grid and a list.

#include "coppice/padding/joint_buckets.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "graphs/padding/joint_problem.h"
#include "graphs/padding/size_prior.h"

namespace coppice {
namespace {

absl::StatusOr<double> SumPrices(const JointOptions& options, const JointPolicy& policy) {
  double sum = 0;
  for (const JointSize& bucket : policy.buckets()) {
    const double price = options.price_of ? options.price_of(bucket) : options.price;
    if (!(price >= 0 && std::isfinite(price)))
      return InvalidArgument("LearnJoint: bucket {}x{} has a price of {}; give 0 or more", bucket.a,
                             bucket.b, price);
    sum += price;
  }
  return sum;
}

size_t FewestRungs(const JointOptions& options, int64_t JointSize::*extent) {
  const JointCap& cap = extent == &JointSize::a ? options.cap_a : options.cap_b;
  return cap.max_ratio > 0 ? CapRungs(cap, options.align.*extent, options.limit.*extent).size() : 1;
}

absl::Status CheckFixed(const JointProblem& problem) {
  if (std::ssize(problem.fixed()) <= problem.count()) return absl::OkStatus();
  return InvalidArgument(
      "LearnJoint: the limit and the forced buckets need a count of {}, but the count is {}",
      problem.fixed().size(), problem.count());
}

// The better of a grid and a list up to the limit, all of which counts.
absl::StatusOr<LearnedJoint> LearnUpTo(const JointHistogram& histogram,
                                       const JointOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(const JointProblem problem, JointProblem::Create(histogram, options));
  const auto learned = [&](JointPolicy policy) -> absl::StatusOr<LearnedJoint> {
    COPPICE_ASSIGN_OR_RETURN(const double price, SumPrices(options, policy));
    const double expected = problem.Expected(policy);
    const JointScore score = ScoreJoint(histogram, policy, options.cost);
    return LearnedJoint{.policy = std::move(policy),
                        .doublings = 0,
                        .expected = expected,
                        .price = price,
                        .score = score};
  };
  const std::optional<JointPolicy> grid = LearnJointGrid(problem);
  const bool capped = options.cap_a.max_ratio > 0 || options.cap_b.max_ratio > 0;
  if (options.shape == JointShape::kGrid || capped) {
    if (grid) return learned(*grid);
    if (!capped)
      return InvalidArgument(
          "LearnJoint: no grid of {} buckets contains the limit {}x{} and the forced buckets; "
          "raise the count, or learn a list",
          problem.count(), options.limit.a, options.limit.b);
    return InvalidArgument(
        "LearnJoint: no grid of {} buckets contains the limit {}x{} and the forced buckets within "
        "the caps, which need a grid of at least {} x {} rungs; raise the count or the caps",
        problem.count(), options.limit.a, options.limit.b, FewestRungs(options, &JointSize::a),
        FewestRungs(options, &JointSize::b));
  }
  COPPICE_RETURN_IF_ERROR(CheckFixed(problem));
  const std::vector<JointSize> start = grid ? grid->buckets() : std::vector<JointSize>();
  COPPICE_ASSIGN_OR_RETURN(JointPolicy list, LearnJointList(problem, start));
  if (options.shape == JointShape::kAny && grid && problem.Whole(*grid) <= problem.Whole(list))
    return learned(*grid);
  return learned(std::move(list));
}

// The largest extents that are called, or forced, as a limit.
JointSize LargestOf(const JointHistogram& histogram, const JointOptions& options) {
  JointSize largest = {1, 1};
  const auto add = [&largest](JointSize size) {
    largest = {std::max(largest.a, size.a), std::max(largest.b, size.b)};
  };
  for (const JointCount& entry : histogram.counts()) {
    if (options.limit.Holds(entry.size) &&
        (options.budget == 0 || entry.size.elements() <= options.budget))
      add(entry.size);
  }
  for (const JointSize& forced : options.forced)
    add(forced);
  return {std::min(options.limit.a, AlignUp(largest.a, options.align.a)),
          std::min(options.limit.b, AlignUp(largest.b, options.align.b))};
}

// Extents that double and halve from `largest`, up to the limit.
std::vector<int64_t> Doublings(int64_t largest, int64_t align, int64_t limit) {
  std::vector<int64_t> extents;
  for (int64_t extent = largest; extent > align; extent = AlignUp(CeilDivide(extent, 2), align))
    extents.push_back(extent);
  extents.push_back(std::min(align, largest));
  for (int64_t extent = largest; extent < limit;)
    extents.push_back(extent = Doubled(extent, align, limit));
  return extents;
}

std::vector<int64_t> WithDoublings(const PaddingPolicy& ladder, int64_t align, int64_t limit) {
  std::vector<int64_t> rungs = ladder.buckets();
  while (rungs.back() < limit)
    rungs.push_back(Doubled(rungs.back(), align, limit));
  return rungs;
}

// `policy` with buckets for the sizes beyond its limit, which no size within prefers.
absl::StatusOr<JointPolicy> GoOn(const JointPolicy& policy, const JointOptions& options) {
  const JointSize limit = options.limit;
  if (policy.is_grid()) {
    COPPICE_ASSIGN_OR_RETURN(
        PaddingPolicy a,
        PaddingPolicy::List(WithDoublings(policy.axes()[0], options.align.a, limit.a), limit.a));
    COPPICE_ASSIGN_OR_RETURN(
        PaddingPolicy b,
        PaddingPolicy::List(WithDoublings(policy.axes()[1], options.align.b, limit.b), limit.b));
    absl::StatusOr<JointPolicy> grid =
        JointPolicy::Grid(std::move(a), std::move(b), options.budget);
    if (grid.ok()) return grid;  // Else the rule leaves a limit without a bucket.
  }
  std::vector<JointSize> beyond;
  const JointSize largest = policy.limit();
  for (const int64_t a : Doublings(largest.a, options.align.a, limit.a)) {
    for (const int64_t b : Doublings(largest.b, options.align.b, limit.b)) {
      const JointSize size = {a, b};
      if (!largest.Holds(size) && (options.budget == 0 || size.elements() <= options.budget))
        beyond.push_back(size);
    }
  }
  const auto cost = [&](JointSize size) {
    return options.cost ? options.cost(size) : static_cast<double>(size.elements());
  };
  std::ranges::stable_sort(beyond, [&](JointSize a, JointSize b) { return cost(a) < cost(b); });
  std::vector<JointSize> buckets = policy.buckets();
  const size_t room = static_cast<size_t>(JointPolicy::kListMax) - buckets.size();
  beyond.resize(std::min(beyond.size(), room));
  buckets.insert(buckets.end(), beyond.begin(), beyond.end());
  return JointPolicy::Ordered(buckets, limit, options.budget);
}

}  // namespace

absl::StatusOr<LearnedJoint> LearnJoint(const JointHistogram& histogram,
                                        const JointOptions& options) {
  COPPICE_RETURN_IF_ERROR(CheckJointOptions(options));
  JointOptions called = options;
  called.limit = LargestOf(histogram, options);
  const bool capped = options.cap_a.max_ratio > 0 || options.cap_b.max_ratio > 0;
  if (options.prior == 0 || capped || called.limit == options.limit)
    return LearnUpTo(histogram, options);
  COPPICE_ASSIGN_OR_RETURN(const JointProblem whole, JointProblem::Create(histogram, options));
  COPPICE_RETURN_IF_ERROR(CheckFixed(whole));
  COPPICE_ASSIGN_OR_RETURN(LearnedJoint learned, LearnUpTo(histogram, called));
  COPPICE_ASSIGN_OR_RETURN(JointPolicy policy, GoOn(learned.policy, options));
  learned.doublings = policy.count() - learned.policy.count();
  learned.policy = std::move(policy);
  return learned;
}

}  // namespace coppice
