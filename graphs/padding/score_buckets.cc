// Scores: one walk over the sizes of a histogram.

#include "coppice/padding/score_buckets.h"

#include <algorithm>

namespace coppice {
namespace {

// The first of `worst` are those that cost the most, of equal ones the smaller sizes.
void KeepWorst(std::vector<SizeLoss>& worst, int64_t worst_max) {
  const auto kept = std::min(worst.size(), static_cast<size_t>(std::max<int64_t>(worst_max, 0)));
  std::partial_sort(worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(kept), worst.end(),
                    [](const SizeLoss& a, const SizeLoss& b) {
                      return a.cost != b.cost ? a.cost > b.cost : a.size < b.size;
                    });
  worst.resize(kept);
}

}  // namespace

PolicyScore ScoreBuckets(const SizeHistogram& histogram,
                         const PaddingPolicy& policy,
                         const BucketCost& cost,
                         int64_t worst_max) {
  const auto cost_of = [&cost](int64_t size) {
    return cost ? cost(size) : static_cast<double>(size);
  };
  PolicyScore score;
  if (!policy.is_exact()) {
    for (const int64_t bucket : policy.buckets())
      score.per_bucket.push_back({.bucket = bucket});
  }
  size_t at = 0;
  for (const SizeCount& one : histogram.counts()) {
    const std::optional<int64_t> bucket = policy.Find(one.size);
    if (!bucket) {
      const bool beyond = policy.WhyNone(one.size) == NoBucket::kBeyondMaximum;
      (beyond ? score.beyond : score.refused) += one.count;
      continue;
    }
    // Sizes rise, and so do their buckets.
    while (at < score.per_bucket.size() && score.per_bucket[at].bucket < *bucket)
      ++at;
    if (at == score.per_bucket.size()) score.per_bucket.push_back({.bucket = *bucket});
    const double padded = one.count * cost_of(*bucket);
    const double real = one.count * cost_of(one.size);
    score.per_bucket[at].calls += one.count;
    score.per_bucket[at].cost += padded;
    score.per_bucket[at].real_cost += real;
    if (padded > real)
      score.worst.push_back(
          {.size = one.size, .bucket = *bucket, .calls = one.count, .cost = padded - real});
  }
  for (const BucketScore& bucket : score.per_bucket) {
    score.calls += bucket.calls;
    score.cost += bucket.cost;
    score.real_cost += bucket.real_cost;
  }
  score.buckets = static_cast<int64_t>(score.per_bucket.size());
  if (score.real_cost > 0) score.waste_pct = 100 * (score.cost - score.real_cost) / score.real_cost;
  KeepWorst(score.worst, worst_max);
  return score;
}

}  // namespace coppice
