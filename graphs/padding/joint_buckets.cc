// The better of a grid and a list.

#include "coppice/padding/joint_buckets.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/padding/joint_problem.h"

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

}  // namespace

absl::StatusOr<LearnedJoint> LearnJoint(const JointHistogram& histogram,
                                        const JointOptions& options) {
  COPPICE_RETURN_IF_ERROR(CheckJointOptions(options));
  COPPICE_ASSIGN_OR_RETURN(const JointProblem problem, JointProblem::Create(histogram, options));
  const auto learned = [&](JointPolicy policy) -> absl::StatusOr<LearnedJoint> {
    COPPICE_ASSIGN_OR_RETURN(const double price, SumPrices(options, policy));
    const double expected = problem.Expected(policy);
    const JointScore score = ScoreJoint(histogram, policy, options.cost);
    return LearnedJoint{
        .policy = std::move(policy), .expected = expected, .price = price, .score = score};
  };
  const std::optional<JointPolicy> grid = LearnJointGrid(problem);
  const bool capped = options.cap_a.max_ratio > 0 || options.cap_b.max_ratio > 0;
  if (options.shape == JointShape::kGrid || capped) {
    if (grid) return learned(*grid);
    if (!capped)
      return InvalidArgument(
          "LearnJoint: no grid of {} buckets has the limit {}x{} and what is forced; raise the "
          "count, or learn a list",
          problem.count(), options.limit.a, options.limit.b);
    return InvalidArgument(
        "LearnJoint: no grid of {} buckets has the limit {}x{} and what is forced, and keeps the "
        "caps, which need {} rungs of the first extent and {} of the second; raise the count or "
        "the caps",
        problem.count(), options.limit.a, options.limit.b, FewestRungs(options, &JointSize::a),
        FewestRungs(options, &JointSize::b));
  }
  if (std::ssize(problem.fixed()) > problem.count())
    return InvalidArgument("LearnJoint: the limit and what is forced are {} buckets, the count {}",
                           problem.fixed().size(), problem.count());
  const std::vector<JointSize> start = grid ? grid->buckets() : std::vector<JointSize>();
  COPPICE_ASSIGN_OR_RETURN(JointPolicy list, LearnJointList(problem, start));
  if (options.shape == JointShape::kAny && grid && problem.Whole(*grid) <= problem.Whole(list))
    return learned(*grid);
  return learned(std::move(list));
}

}  // namespace coppice
