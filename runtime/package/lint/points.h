// The sizes at which a program is tried.
//
// A *real* point is sizes that a call may have: they satisfy what the symbols say and the guards. A
// *padded* point is sizes that a call may be padded to: buckets of the symbols that have a claim,
// real sizes of the others. Guards are not asked there, but some real sizes that would be padded to
// it pass them. Sizes are drawn from a fixed seed where there are too many for all.
//
// Units: elements. Threads: stateless. Cost: allocates.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coppice/base/expression.h"
#include "coppice/runtime/manifest.h"

namespace coppice::package {

struct Point {
  std::vector<int64_t> values;  // Of Program::names().
  bool padded = false;
};

// The least and the greatest size that `symbol` may have; least > greatest: none. What has no
// greatest size is tried up to 2^33, what has one up to 2^60.
struct SizeRange {
  int64_t least = 0;
  int64_t greatest = 0;
};
SizeRange RangeOf(const Symbol& symbol);

// multiple_of, within what sizes are tried up to.
int64_t StepOf(const Symbol& symbol);

// The sizes that `symbol` is padded to, ascending; empty: never padded, or wherever a caller likes.
std::vector<int64_t> BucketsOf(const Symbol& symbol);

// At most about `points_max`, the real ones first.
std::vector<Point> PointsOf(const Program& program,
                            std::span<const Expression> guards,
                            int64_t points_max);

}  // namespace coppice::package
