// The better of a grid and a list.

#include "coppice/padding/joint_buckets.h"

#include <optional>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/padding/joint_problem.h"

namespace coppice {

absl::StatusOr<LearnedJoint> LearnJoint(const JointHistogram& histogram,
                                        const JointOptions& options) {
  COPPICE_RETURN_IF_ERROR(CheckJointOptions(options));
  COPPICE_ASSIGN_OR_RETURN(const JointProblem problem, JointProblem::Create(histogram, options));
  const auto learned = [&](JointPolicy policy) {
    const double expected = problem.Expected(policy);
    const JointScore score = ScoreJoint(histogram, policy, options.cost);
    return LearnedJoint{.policy = std::move(policy), .expected = expected, .score = score};
  };
  const std::optional<JointPolicy> grid = LearnJointGrid(problem);
  if (options.shape == JointShape::kGrid) {
    if (grid) return learned(*grid);
    return InvalidArgument(
        "LearnJoint: no grid of {} buckets has the limit {}x{} and what is forced; raise the "
        "count, or learn a list",
        options.count, options.limit.a, options.limit.b);
  }
  if (std::ssize(problem.fixed()) > options.count)
    return InvalidArgument("LearnJoint: the limit and what is forced are {} buckets, the count {}",
                           problem.fixed().size(), options.count);
  const std::vector<JointSize> start = grid ? grid->buckets() : std::vector<JointSize>();
  COPPICE_ASSIGN_OR_RETURN(JointPolicy list, LearnJointList(problem, start));
  if (options.shape == JointShape::kAny && grid &&
      problem.Expected(*grid) <= problem.Expected(list))
    return learned(*grid);
  return learned(std::move(list));
}

}  // namespace coppice
