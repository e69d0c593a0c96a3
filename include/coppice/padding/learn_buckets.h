// Learns buckets from a histogram: finds the ladder with the least padding. The result is exact.
//
// A call of size s in bucket b costs cost(b) - cost(s). LearnBuckets chooses at most `count`
// buckets that minimise the sum over all calls, plus a price per bucket. Without options, every
// bucket of the optimum is a size of the traffic, except the last, which is the limit. Two options
// keep a ladder good when traffic changes. A prior gives weight to sizes that no call had. Caps
// limit the padding of each call, whether its size was seen or not.
//
//   sizes 3 3 3 7 7 40, limit 64      2 buckets: 7 64        3 buckets: 3 7 64, or 7 40 64
//
// With a prior and without caps, the limit does not change how sizes below it are padded: learned
// buckets end at the largest size of the traffic, and from there buckets double up to the limit.
// These are not part of the count, because a bucket without calls has no graph.
//
//   sizes 2..60, 13 buckets, limit 4096      13 buckets up to 60, then 120 240 480 ... 3840 4096
//
// Units: sizes count elements; counts are calls; costs and prices are in the unit of `cost`.
// Threads: pure functions; `cost` and `price_of` are called from the caller's thread only.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/bucket_cost.h"
#include "coppice/padding/size_histogram.h"

namespace coppice {

struct LearnOptions {
  // The last bucket. Larger sizes in the histogram have no bucket and are ignored.
  int64_t limit = 0;  // In [1, PaddingPolicy::kExtentMax].

  // Maximum number of buckets, with the limit and forced sizes, but without those that double; 0:
  // all that save more than their price.
  int64_t count = 0;  // In [0, candidates].
  // The cost of having a bucket, added once to the cost of all calls of the histogram: bytes of a
  // graph, or time to record it, converted to the unit of `cost`. If `price_of` is given, the price
  // depends on the size.
  double price = 0;  // >= 0, finite; a count or a price must be given.
  std::function<double(int64_t size)> price_of;

  // Buckets are multiples of this, except for the limit and forced sizes. These are the candidates.
  int64_t align = 1;  // >= 1.
  // Sizes that are always buckets, such as the budget of a chunked prefill; in any order.
  std::vector<int64_t> forced;  // Each in [1, limit].

  // The share of the weight that is spread over all sizes up to the largest of the histogram, or,
  // with caps, up to the limit; the calls of the histogram have the rest. A size x gets a part in
  // proportion to 1 / x, times the mean over all calls of min(1, (size / x)^2), so that sizes which
  // calls rarely reach get little. 0: sizes that no call had get no weight, and no buckets double.
  double prior = 0.05;  // In [0, 1].

  // Caps: a call of size s in [1, limit] may be padded to b only if b <= max_ratio * s, or b - s
  // <= max_gap, or no candidate lies in [s, b). If max_ratio is 0 there is no cap, and max_gap must
  // be 0.
  double max_ratio = 0;  // 0, or >= 1 and finite.
  int64_t max_gap = 0;   // >= 0.

  BucketCost cost;  // Empty: the number of elements.
};

struct LearnedBuckets {
  std::vector<int64_t> buckets;  // Increasing; the last is the limit.
  int64_t doublings = 0;         // How many of the last buckets double and are not part of the
                                 // count.
  double cost = 0;               // Cost of the histogram's calls up to the limit, padded.
  double real_cost = 0;          // The same, without padding.
  double waste_pct = 0;          // 100 * (cost - real_cost) / real_cost; 0 where that is 0.
  double mass = 0;               // Calls up to the limit.
  double beyond = 0;             // Calls of sizes above the limit.
};

// Maximum number of candidates that LearnBuckets may choose from; each takes about 60 bytes while
// it runs.
inline constexpr int64_t kLearnCandidatesMax = int64_t{1} << 22;

// The buckets of least cost, and those that double. The result is exact, up to the rounding of sums
// of doubles, and equal arguments give equal results: among ladders with equal cost, it takes the
// one with the fewest buckets, and of these the one with the smallest. Errors: kInvalidArgument an
// option is outside its range; there is no call up to the limit; the count is larger than the
// number of candidates, smaller than that of forced sizes, or too small for the caps (the message
// has the smallest count that is enough); a cost decreases, is below 0 or is not finite;
// kOutOfRange there are more than kLearnCandidatesMax candidates. Cost: about a dozen times O(limit
// / align), with caps a few times more; allocates.
absl::StatusOr<LearnedBuckets> LearnBuckets(const SizeHistogram& histogram,
                                            const LearnOptions& options);

}  // namespace coppice
