// The cost of one call of a size. Learning minimises it, and scores add it up.
//
// The usual cost is the number of elements. If the time of a call is constant up to some size, as
// for a decode step that waits for its weights, far fewer buckets are enough. A table of measured
// times shows that.
//
// Units: any unit of the caller, such as elements or microseconds; sums have the same unit.
// Threads: a BucketCost made here may be called from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"

namespace coppice {

// The cost of a call of `size` elements (>= 0): finite, >= 0, and not less than that of a smaller
// size. In every function that takes a BucketCost, an empty one means the number of elements.
using BucketCost = std::function<double(int64_t size)>;

struct CostRow {
  int64_t size = 0;  // >= 0.
  double cost = 0;   // Of a call of this size. >= 0, finite.
};

// A cost from measurements, in any order. It is linear between rows; below the first row it is that
// row's cost; above the last row it has that row's cost per element. Rows of the same size are
// averaged. If noise makes a larger size cheaper, neighbours are averaged, too: the result is the
// non-decreasing table with the least squared difference. Errors: kInvalidArgument there is no row,
// a size is below 0, a cost is below 0 or not finite, or no cost is above 0. Cost of a call: a
// binary search.
absl::StatusOr<BucketCost> CostTable(std::span<const CostRow> rows);

}  // namespace coppice
