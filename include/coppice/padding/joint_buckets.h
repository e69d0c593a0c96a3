// Learns buckets of two symbols from a histogram: a grid or a list, whichever pads less.
//
// A call of size (a, b) in a bucket costs cost(bucket) - cost(size). LearnJoint makes the sum over
// all calls, plus a price per bucket, small with at most so many buckets. A grid comes from
// programs that are exact in one symbol while the other's ladder stands, in turns, for every
// division of the count into rungs of the two; a list from that grid and from its own greedy start,
// by buckets that move, go and come while that pays. Neither is the best that there is: that is out
// of reach.
//
// A prior spreads a share of the weight over sizes that have not been seen. With it and without
// caps, limits do not matter to how sizes below them are padded: what is learned ends at the
// largest extents of the traffic, and sizes beyond have buckets whose extents double, beside the
// count, since a bucket that nobody calls has no graph. Caps bound the padding of each extent,
// whether its size has been seen or not; only a grid keeps any.
//
// Units: extents count elements; counts are calls; costs and prices are in the unit of `cost`.
// Threads: pure functions; `cost` and `price_of` are called from the caller's thread only.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/joint_histogram.h"
#include "coppice/padding/joint_policy.h"

namespace coppice {

enum class JointShape {
  kAny,  // The one of the two that costs less.
  kGrid,
  kList,
};

// An extent s of at least 1 may be padded to b only if b <= max_ratio * s, or b - s <= max_gap, or
// no multiple of the alignment lies in [s, b).
struct JointCap {
  double max_ratio = 0;  // 0: no cap, and no max_gap; or >= 1 and finite.
  int64_t max_gap = 0;   // >= 0.
};

struct JointOptions {
  // The largest bucket, or, where the rule forbids it, what JointPolicy::List says. Larger sizes in
  // the histogram have no part: they have no bucket.
  JointSize limit;  // Each extent in [1, PaddingPolicy::kExtentMax].
  // At most so many buckets, those that the limit needs included, but not those of doubling; 0: as
  // many as pay their price, kJointPricedMax at most.
  int64_t count = 0;  // In [0, JointPolicy::kListMax].
  // What having a bucket costs, beside the calls of the whole histogram. Where a `price_of` is
  // given, by the bucket.
  double price = 0;  // >= 0, finite; a count or a price must be given.
  std::function<double(JointSize bucket)> price_of;
  // Buckets obey a * b <= budget. A size that obeys it, but that no bucket can hold, counts as if
  // it ran in a bucket as costly as the limit.
  int64_t budget = 0;  // 0: no rule; or at least each extent of the limit.
  // Extents of buckets are multiples of these, but for those of the limit and of forced buckets.
  JointSize align = {1, 1};  // Each >= 1.
  // Buckets in every case, as the one that most calls fill, unless another that costs no more holds
  // one; a grid has both extents as rungs.
  std::vector<JointSize> forced;  // Within the limit and the rule.
  // This share of the weight is spread over sizes, and the rest over the histogram: over those up
  // to the largest extents of it, or, with caps, to the limit. A size (a, b) has 1 / (a * b) as
  // much, times the mean over all calls of min(1, (call.a / a)^2) * min(1, (call.b / b)^2). 0:
  // nothing is done for sizes that nobody called, and no bucket is beside the count.
  double prior = 0.05;  // In [0, 1].
  // Of each extent by itself. With one of them the buckets are a grid.
  JointCap cap_a;
  JointCap cap_b;
  JointCost cost;  // Empty: elements.
  JointShape shape = JointShape::kAny;
};

inline constexpr int64_t kJointPricedMax = 256;

struct LearnedJoint {
  JointPolicy policy;
  int64_t doublings = 0;  // So many of its buckets are beside the count.
  double expected = 0;    // What a call costs on average, the prior's included.
  double price = 0;       // Of the buckets that count.
  JointScore score;       // Of the histogram.
};

// Deterministic: the same arguments have the same buckets. Errors: kInvalidArgument  an option
// outside its range; no call within the limit and the rule; a count below what the limit and the
// forced buckets need, as named, or caps; caps, and a list asked for; a cost, or the price of a
// bucket that it learns, that is negative or not finite. Cost: seconds for thousands of sizes and
// hundreds of buckets; allocates.
absl::StatusOr<LearnedJoint> LearnJoint(const JointHistogram& histogram,
                                        const JointOptions& options);

}  // namespace coppice
