// Counts of sizes of two symbols, and what they cost in the buckets of a policy.

#include "coppice/padding/joint_histogram.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"

#include "coppice/base/status.h"

namespace coppice {

absl::StatusOr<JointHistogram> JointHistogram::From(std::span<const JointCount> counts) {
  JointHistogram histogram;
  histogram.counts_.assign(counts.begin(), counts.end());
  for (const JointCount& entry : counts) {
    if (entry.size.a < 0 || entry.size.b < 0)
      return InvalidArgument("JointHistogram::From: size {}x{} is negative", entry.size.a,
                             entry.size.b);
    if (!(entry.count > 0))  // A NaN fails as well.
      return InvalidArgument(
          "JointHistogram::From: size {}x{} has a count of {}; give a count above 0, or leave the "
          "size out",
          entry.size.a, entry.size.b, entry.count);
    histogram.mass_ += entry.count;
  }
  if (!std::isfinite(histogram.mass_))
    return InvalidArgument("JointHistogram::From: the counts add up to {}; give smaller counts",
                           histogram.mass_);
  std::vector<JointCount>& sorted = histogram.counts_;
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const JointCount& left, const JointCount& right) { return left.size < right.size; });
  size_t kept = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (kept > 0 && sorted[kept - 1].size == sorted[i].size)
      sorted[kept - 1].count += sorted[i].count;
    else
      sorted[kept++] = sorted[i];
  }
  sorted.resize(kept);
  return histogram;
}

absl::StatusOr<JointHistogram> JointHistogram::FromSizes(std::span<const JointSize> sizes) {
  std::vector<JointCount> counts;
  counts.reserve(sizes.size());
  for (const JointSize& size : sizes)
    counts.push_back({size, 1});
  return From(counts);
}

JointScore ScoreJoint(const JointHistogram& histogram,
                      const JointPolicy& policy,
                      const JointCost& cost) {
  const auto cost_of = [&cost](JointSize size) {
    return cost ? cost(size) : static_cast<double>(size.elements());
  };
  JointScore score;
  for (const JointCount& entry : histogram.counts()) {
    const std::optional<JointSize> bucket = policy.Find(entry.size.a, entry.size.b);
    if (!bucket) {
      score.beyond += entry.count;
      continue;
    }
    score.calls += entry.count;
    score.cost += entry.count * cost_of(*bucket);
    score.real_cost += entry.count * cost_of(entry.size);
  }
  if (score.real_cost > 0) score.waste_pct = 100 * (score.cost - score.real_cost) / score.real_cost;
  return score;
}

}  // namespace coppice
