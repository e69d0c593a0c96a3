// What learning buckets of two symbols works on: weighted points, and the values extents may have.
//
// A point stands where sizes are that the same buckets hold: at a pair of values. With fewer values
// than sizes have, points are coarser, and what is learned is quicker and no less certain.
//
// Units: weights add up to 1; costs are in the unit of the options' cost.
// Threads: immutable once made.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/padding/joint_buckets.h"
#include "coppice/padding/joint_histogram.h"
#include "coppice/padding/joint_policy.h"

namespace coppice {

// Extents that buckets may have, increasing; the last is the limit's.
struct JointValues {
  std::vector<int64_t> a;
  std::vector<int64_t> b;
};

struct JointPoint {
  int32_t a = 0;  // Index of the value that is the smallest to hold it.
  int32_t b = 0;
  double weight = 0;

  friend bool operator==(const JointPoint&, const JointPoint&) = default;
};

class JointProblem {
 public:
  // Errors: kInvalidArgument  no call within the limit and the rule, or such a cost of the limit.
  // Requires: options that CheckJointOptions accepts, which outlive this.
  static absl::StatusOr<JointProblem> Create(const JointHistogram& histogram,
                                             const JointOptions& options);

  const JointOptions& options() const { return *options_; }
  int64_t count() const { return options_->count > 0 ? options_->count : kJointPricedMax; }
  bool priced() const { return options_->price > 0 || options_->price_of != nullptr; }
  // Calls and prior together, at their own sizes.
  std::span<const JointCount> weights() const { return weights_; }
  // What the limit needs, then what is forced, each once.
  std::span<const JointSize> fixed() const { return fixed_; }

  bool Obeys(JointSize size) const {
    return options_->limit.Holds(size) &&
           (options_->budget == 0 || size.elements() <= options_->budget);
  }
  // That of a bucket; beyond the rule there is none, and it costs as much as the limit.
  double CostOf(JointSize bucket) const;
  // That of having a bucket, for each call; 0 beyond the rule.
  double PriceOf(JointSize bucket) const;
  // What a call costs on average.
  double Expected(const JointPolicy& policy) const;
  // The same with what buckets cost: what learning makes small.
  double Whole(const JointPolicy& policy) const;

  // At most `a_max` and `b_max` values and those of fixed buckets and of `kept`. Where sizes have
  // more, those stay that share the weight out evenly.
  JointValues Values(int64_t a_max, int64_t b_max, std::span<const JointSize> kept = {}) const;
  std::vector<JointPoint> Points(const JointValues& values) const;

 private:
  JointProblem() = default;

  const JointOptions* options_ = nullptr;
  std::vector<JointCount> weights_;
  std::vector<JointSize> fixed_;
  double limit_cost_ = 0;
  double mass_ = 0;  // Calls within the limit and the rule.
};

absl::Status CheckJointOptions(const JointOptions& options);

// The fewest rungs up to `limit` that keep a cap; the last is the limit.
std::vector<int64_t> CapRungs(const JointCap& cap, int64_t align, int64_t limit);

// The grid of the least whole cost that was found; nothing if what is fixed or caps need more
// buckets than count(), or the rule leaves a limit without one.
std::optional<JointPolicy> LearnJointGrid(const JointProblem& problem);

// A list, from greedy starts and from `grid`, if there is one. Errors: those of JointPolicy::List.
absl::StatusOr<JointPolicy> LearnJointList(const JointProblem& problem,
                                           std::span<const JointSize> grid);

}  // namespace coppice
