// Counts how many calls had each pair of sizes of two symbols.
//
// Counts are real numbers, so that old traffic may weigh less than new.
//
// Units: extents count elements along each symbol's axes; counts are calls.
// Threads: none of its own; const methods may run at the same time.

#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/joint_policy.h"

namespace coppice {

struct JointCount {
  JointSize size;    // Both extents >= 0.
  double count = 0;  // Calls. > 0, finite.

  friend bool operator==(const JointCount&, const JointCount&) = default;
};

class JointHistogram {
 public:
  // An empty histogram.
  JointHistogram() = default;

  // Sizes may be in any order; the counts of a repeated size are added. Errors: kInvalidArgument an
  // extent below 0, a count that is not above 0 or not finite, or a sum of counts that is not
  // finite. Cost: sorts; allocates.
  static absl::StatusOr<JointHistogram> From(std::span<const JointCount> counts);
  // One call per size. Errors: kInvalidArgument  an extent below 0.
  static absl::StatusOr<JointHistogram> FromSizes(std::span<const JointSize> sizes);

  // Sorted by a, then b; each size once.
  const std::vector<JointCount>& counts() const { return counts_; }
  bool empty() const { return counts_.empty(); }
  // Calls of all sizes.
  double mass() const { return mass_; }

 private:
  std::vector<JointCount> counts_;
  double mass_ = 0;
};

// The cost of traffic with a policy.
struct JointScore {
  double calls = 0;      // Calls that have a bucket; only these calls count in the costs.
  double beyond = 0;     // Calls without a bucket.
  double cost = 0;       // Padded.
  double real_cost = 0;  // Without padding.
  double waste_pct = 0;  // 100 * (cost - real_cost) / real_cost; 0 where that is 0.
};

// Cost: O(sizes) look-ups; does not allocate.
JointScore ScoreJoint(const JointHistogram& histogram,
                      const JointPolicy& policy,
                      const JointCost& cost = {});

}  // namespace coppice
