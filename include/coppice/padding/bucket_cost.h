// What one call at a size costs: what learning makes small and scores count.
//
// Elements are the usual cost; where time is flat up to some size, as of a decode step that waits
// for its weights, a table of measured times lets far fewer buckets do.
//
// Units: whatever the caller measures in, as elements or microseconds; sums are in the same.
// Threads: a BucketCost made here may be called from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"

namespace coppice {

// The cost of a call of `size` elements (>= 0): finite, >= 0, and not less than that of a smaller
// size. An empty one means elements, in every function that takes one.
using BucketCost = std::function<double(int64_t size)>;

struct CostRow {
  int64_t size = 0;  // >= 0.
  double cost = 0;   // Of a call of this size. >= 0, finite.
};

// A cost out of measurements, in any order. Between rows it is a straight line; below the first
// row that row's cost; above the last as much per element as there. Rows of one size count as their
// mean, and neighbours of which the larger is cheaper, as noise has it, as theirs: the
// non-decreasing table that is nearest in squares. Errors: kInvalidArgument  no row, a size below
// 0, a cost below 0 or not finite, no cost above 0. Cost of a call: a binary search.
absl::StatusOr<BucketCost> CostTable(std::span<const CostRow> rows);

}  // namespace coppice
