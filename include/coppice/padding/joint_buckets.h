// Learns buckets of two symbols from a histogram: a grid or a list, whichever pads less.
//
// A call of size (a, b) in a bucket costs cost(bucket) - cost(size). LearnJoint chooses at most
// `count` buckets for which the sum over all calls, plus a price per bucket, is small. For a grid
// it tries every division of the count between the two ladders. For each division, it alternates
// between the symbols: it fixes the ladder of one, and finds the exact best ladder of the other.
// For a list it starts from that grid and from a greedy list, and moves, drops and adds buckets
// while that helps. Neither is the optimum, which is too expensive to find.
//
// A prior spreads a share of the weight over sizes that were not seen. With a prior and without
// caps, limits do not change how sizes below them are padded: learned buckets end at the largest
// extents of the traffic, and buckets beyond double. These are not part of the count, because a
// bucket without calls has no graph. Caps limit the padding of each extent, whether its size was
// seen or not; only a grid keeps caps.
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
  kAny,  // A grid or a list, whichever costs less.
  kGrid,
  kList,
};

// An extent s of at least 1 may be padded to b only if b <= max_ratio * s, or b - s <= max_gap, or
// no multiple of the alignment lies in [s, b).
struct JointCap {
  double max_ratio = 0;  // 0: no cap, and max_gap must be 0; or >= 1 and finite.
  int64_t max_gap = 0;   // >= 0.
};

struct JointOptions {
  // The largest bucket, or, if the rule forbids it, those that JointPolicy::List describes. Larger
  // sizes in the histogram have no bucket and are ignored.
  JointSize limit;  // Each extent in [1, PaddingPolicy::kExtentMax].
  // Maximum number of buckets, with those that the limit needs, but without those that double; 0:
  // all that save more than their price, at most kJointPricedMax.
  int64_t count = 0;  // In [0, JointPolicy::kListMax].
  // The cost of having a bucket, added once to the cost of all calls of the histogram. If
  // `price_of` is given, the price depends on the bucket.
  double price = 0;  // >= 0, finite; a count or a price must be given.
  std::function<double(JointSize bucket)> price_of;
  // Buckets obey a * b <= budget. A size that obeys the rule, but that no bucket can hold, counts
  // as if it ran in a bucket that costs as much as the limit.
  int64_t budget = 0;  // 0: no rule; or at least each extent of the limit.
  // Extents of buckets are multiples of these, except for the limit and forced buckets.
  JointSize align = {1, 1};  // Each >= 1.
  // Buckets that are always included, such as one for the most common size. A forced bucket is
  // dropped if it fits into another bucket that costs no more. In a grid, both extents are in their
  // ladders.
  std::vector<JointSize> forced;  // Within the limit and the rule.
  // The share of the weight that is spread over all sizes up to the largest extents of the
  // histogram, or, with caps, up to the limit; the calls of the histogram have the rest. A size (a,
  // b) gets a part in proportion to 1 / (a * b), times the mean over all calls of min(1, (call.a /
  // a)^2) * min(1, (call.b / b)^2). 0: sizes that no call had get no weight, and no buckets double.
  double prior = 0.05;  // In [0, 1].
  // Caps for each extent separately. With any cap, the buckets are a grid.
  JointCap cap_a;
  JointCap cap_b;
  JointCost cost;  // Empty: the number of elements.
  JointShape shape = JointShape::kAny;
};

inline constexpr int64_t kJointPricedMax = 256;

struct LearnedJoint {
  JointPolicy policy;
  int64_t doublings = 0;  // How many of its buckets double and are not part of the count.
  double expected = 0;    // The average cost of a call, with the prior.
  double price = 0;       // Price of the buckets that are part of the count.
  JointScore score;       // Score for the histogram.
};

// Deterministic: equal arguments give equal buckets. Errors: kInvalidArgument an option is outside
// its range; there is no call within the limit and the rule; the count is too small for the limit
// and the forced buckets, or for the caps (the message has the smallest count that is enough); caps
// are given for a list; a cost, or the price of a learned bucket, is negative or not finite. Cost:
// seconds for thousands of sizes and hundreds of buckets; allocates.
absl::StatusOr<LearnedJoint> LearnJoint(const JointHistogram& histogram,
                                        const JointOptions& options);

}  // namespace coppice
