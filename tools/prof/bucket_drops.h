// What dropping a bucket would really free, against what its calls would cost then.
//
// Plans of a lane share its window from offset 0 on, which is mapped in whole granules up to the
// highest: dropping a bucket frees granules only if nothing else is as high.
//
//   granules  |-------|-------|-------|-------|
//   bucket 8  [===========================)          alone: the last two
//   bucket 4  [============)                         alone: none; with those above it: one
//
// Units: bytes, elements. Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "tools/prof/bucket_figures.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

struct BucketDrop {
  int bucket = 0;             // Place in PoolTrace::buckets.
  int64_t calls = 0;          // That it served.
  int64_t mapped_bytes = 0;   // That are free without it ...
  int64_t with_higher = 0;    // ... and without all that are as high or higher, too.
  int64_t exec_bytes = 0;     // Of its graphs; an estimate.
  int served_by = -1;         // The bucket that its calls would have; -1: none, they run eagerly.
  double padding_factor = 1;  // Elements of that bucket for each of this one.

  int64_t freed_bytes() const { return mapped_bytes + exec_bytes; }
};

// Of the buckets that have a graph, the most bytes per call that it served first. Requires: a row
// of `figures` per bucket of the trace, in its order. Cost: O(buckets^2).
std::vector<BucketDrop> RankDrops(const PoolTrace& trace,
                                  const std::vector<BucketFigures>& figures);

}  // namespace coppice
