// What one call in a bucket of two symbols costs, out of measurements.
//
// Where a step's time is not its elements', a few buckets measured at the corners of what there is
// say where more of them pay.
//
// Units: extents count elements; costs whatever the caller measures in, as microseconds.
// Threads: pure function; what it returns may be called from any thread.

#pragma once

#include <span>

#include "absl/status/statusor.h"

#include "coppice/padding/joint_policy.h"

namespace coppice {

struct JointCostRow {
  JointSize size;   // Both extents >= 0.
  double cost = 0;  // Of a call of this size. >= 0, finite.
};

// Rows in any order, one or more for each pair of an extent a and an extent b that rows have; those
// of one size count as their mean. Where a larger size is cheaper, as noise has it, the table is
// the mean of two that do not fall: the least one above it, and the largest one below it. Between
// rows it is a straight line along each extent; below the first of an extent, what is there; above
// the last as much per element of that extent as there. Errors: kInvalidArgument  no row, an
// extent below 0, a cost below 0 or not finite, no cost above 0, a pair without a row. Cost of a
// call: two binary searches.
absl::StatusOr<JointCost> JointCostTable(std::span<const JointCostRow> rows);

}  // namespace coppice
