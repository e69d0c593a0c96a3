// How large the window has to be that a lane copies outputs to: copies lie in it one behind the
// other, the oldest is freed first, and none is cut in two. Private to tools/prof/whatif/.
//
// Units: bytes. Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

namespace coppice {

// A call copies its outputs, or an earlier one's copies are dropped.
struct CopyStep {
  int call = 0;
  int64_t bytes = 0;  // -1: dropped.
};

// The least multiple of `granularity` that holds all copies of a lane. Cost: O(steps log bytes).
int64_t LeastRing(const std::vector<CopyStep>& steps, int64_t granularity);

}  // namespace coppice
