// Learns buckets from a histogram: the ladder that pads the least, exactly.
//
// A call of size s in bucket b costs cost(b) - cost(s). LearnBuckets finds the sizes that make the
// sum over all calls, plus a price per bucket, as small as it can be with at most so many buckets.
// The plain optimum puts every bucket where traffic was and leaves a jump behind it; two options
// keep a ladder good when traffic moves: a prior, weight on sizes as if they had been called, and
// caps, which bound the padding of each call whether its size has been seen or not.
//
//   sizes 3 3 3 7 7 40, limit 64      2 buckets: 7 64        3 buckets: 3 7 64, or 7 40 64
//
// With a prior and without caps, a limit does not matter to how sizes below it are padded: what is
// learned ends at the largest size of the traffic, and from there on buckets double up to the
// limit. They are beside the count, since a bucket that nobody calls has no graph.
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
  // The last bucket. Larger sizes in the histogram have no part: they have no bucket.
  int64_t limit = 0;  // In [1, PaddingPolicy::kExtentMax].

  // At most so many buckets, the limit and forced sizes included, but not those of doubling; 0: as
  // many as pay their price.
  int64_t count = 0;  // In [0, candidates].
  // What having a bucket costs, beside the calls of the whole histogram: bytes of a graph, or time
  // to record it, turned into the unit of `cost`. Where a `price_of` is given, by its size.
  double price = 0;  // >= 0, finite; a count or a price must be given.
  std::function<double(int64_t size)> price_of;

  // Buckets are multiples of this, but for the limit and forced sizes. These are the candidates.
  int64_t align = 1;  // >= 1.
  // Sizes that are buckets in every case, as the budget of a chunked prefill; in any order.
  std::vector<int64_t> forced;  // Each in [1, limit].

  // This share of the weight is spread over sizes, and the rest over the histogram: over those up
  // to the largest of it, or, with caps, to the limit. A size x has 1 / x as much, times the mean
  // over all calls of min(1, (size / x)^2), so that it fades where sizes are rarely as large. 0:
  // nothing is done for sizes that nobody called, and no bucket is beside the count.
  double prior = 0.05;  // In [0, 1].

  // Caps: a call of size s in [1, limit] may be padded to b only if b <= max_ratio * s, or
  // b - s <= max_gap, or no candidate lies in [s, b). max_ratio 0: no cap, and no max_gap.
  double max_ratio = 0;  // 0, or >= 1 and finite.
  int64_t max_gap = 0;   // >= 0.

  BucketCost cost;  // Empty: elements.
};

struct LearnedBuckets {
  std::vector<int64_t> buckets;  // Increasing; the last is the limit.
  int64_t doublings = 0;         // So many of these, the last, are beside the count.
  double cost = 0;               // Of the histogram's calls up to the limit, padded.
  double real_cost = 0;          // Of the same, without padding.
  double waste_pct = 0;          // 100 * (cost - real_cost) / real_cost; 0 where that is 0.
  double mass = 0;               // Calls up to the limit.
  double beyond = 0;             // Calls of sizes above the limit.
};

// The candidates that a LearnBuckets may choose from at most; each takes about 60 bytes while it
// runs.
inline constexpr int64_t kLearnCandidatesMax = int64_t{1} << 22;

// The buckets of the least cost, and those of doubling. It is exact, up to the rounding of sums of
// doubles, and always the same for the same arguments: of equal costs fewer buckets, and no bucket
// could be smaller at the same cost. Errors: kInvalidArgument  an option outside its range; no call
// up to the limit; more buckets asked for than there are candidates; a count below the forced
// sizes, or with which the caps cannot be kept: the smallest that can is named; a cost that falls,
// is below 0 or not finite. kOutOfRange  more than kLearnCandidatesMax candidates. Cost: about
// O(limit / align) a dozen times, with caps a few times more; allocates.
absl::StatusOr<LearnedBuckets> LearnBuckets(const SizeHistogram& histogram,
                                            const LearnOptions& options);

}  // namespace coppice
