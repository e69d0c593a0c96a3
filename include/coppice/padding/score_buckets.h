// The cost of traffic with a policy, in all, per bucket, and for the sizes that cost the most.
//
// Units: sizes count elements; counts are calls; costs are in the unit of the BucketCost.
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "coppice/padding/bucket_cost.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/size_histogram.h"

namespace coppice {

// The calls in one bucket.
struct BucketScore {
  int64_t bucket = 0;
  double calls = 0;
  double cost = 0;       // Cost of these calls, padded.
  double real_cost = 0;  // The same, without padding.
};

// The cost of the padding of one size.
struct SizeLoss {
  int64_t size = 0;
  int64_t bucket = 0;
  double calls = 0;
  double cost = 0;  // Padding of all its calls. > 0.
};

struct PolicyScore {
  double calls = 0;      // Calls that have a bucket; only they are in the costs.
  double beyond = 0;     // Calls above the maximum.
  double refused = 0;    // Calls that the policy's guard refuses.
  double cost = 0;       // Padded.
  double real_cost = 0;  // Without padding.
  double waste_pct = 0;  // 100 * (cost - real_cost) / real_cost; 0 where that is 0.
  int64_t buckets = 0;   // Buckets of the policy; for `exact`, sizes that were called.
  // Every bucket of the policy in order, including those without calls; for `exact`, only those
  // with calls.
  std::vector<BucketScore> per_bucket;
  std::vector<SizeLoss> worst;  // At most `worst_max` sizes, the most costly first.
};

// Cost: O(buckets + sizes); allocates.
PolicyScore ScoreBuckets(const SizeHistogram& histogram,
                         const PaddingPolicy& policy,
                         const BucketCost& cost = {},
                         int64_t worst_max = 3);

}  // namespace coppice
