// A histogram, its buckets and what each wastes, as a picture.
//
// Above, calls by size; a line stands where a bucket is. Below, as wide as the bucket's sizes, how
// much of all padding is the bucket's. Sizes are on a logarithmic scale where they span much.
//
// Threads: pure function; equal input gives equal text.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coppice/padding/score_buckets.h"
#include "coppice/padding/size_histogram.h"

namespace coppice {

struct BucketPicture {
  std::string_view name;  // What the sizes are, for the axis.
  int64_t limit = 1;      // The largest size that is drawn.
};

// As SVG. Requires: a histogram with calls.
std::string DrawBuckets(const SizeHistogram& histogram,
                        const PolicyScore& score,
                        const BucketPicture& picture);

}  // namespace coppice
