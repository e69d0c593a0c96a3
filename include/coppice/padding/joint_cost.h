// The cost of one call in a bucket of two symbols, from measurements.
//
// If the time of a step is not proportional to its elements, measurements of a few buckets at the
// corners of the range show where more buckets are worth their cost.
//
// Units: extents count elements; costs are in any unit of the caller, such as microseconds.
// Threads: pure function; the returned function may be called from any thread.

#pragma once

#include <span>

#include "absl/status/statusor.h"

#include "coppice/padding/joint_policy.h"

namespace coppice {

struct JointCostRow {
  JointSize size;   // Both extents >= 0.
  double cost = 0;  // Of a call of this size. >= 0, finite.
};

// Rows in any order, at least one for each pair of an extent a and an extent b that occur in rows.
// Rows of the same size are averaged. If noise makes a larger size cheaper, the table is replaced
// by the mean of two non-decreasing tables: the least one above it, and the largest one below it.
// It is linear between rows along each extent; below the first row of an extent it has that row's
// cost; above the last row it has that row's cost per element of the extent. Errors:
// kInvalidArgument there is no row, an extent is below 0, a cost is below 0 or not finite, no cost
// is above 0, or a pair has no row. Cost of a call: two binary searches.
absl::StatusOr<JointCost> JointCostTable(std::span<const JointCostRow> rows);

}  // namespace coppice
