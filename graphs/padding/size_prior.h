// What learning makes of sizes that nobody has called. Private to graphs/padding/.
//
// A size x weighs 1 / x, times the mean over all calls of min(1, (size / x)^2), which is no less
// than the share of the calls that are as large. So the elements of all of it are in proportion to
// those of the calls: neither a limit far above them nor one large call makes them more.
//
// Units: sizes count elements, weights calls. Threads: one at a time.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coppice/padding/size_histogram.h"

namespace coppice {

// The largest size of `histogram` that is not above `limit`; 1 if there is none above 1.
int64_t LargestCalled(const SizeHistogram& histogram, int64_t limit);

class SizePrior {
 public:
  // `weight` in all, over the sizes from 1 to `last`. Calls above `last` have no part. Requires: a
  // histogram that outlives this, with a call up to `last`. Cost: O(last).
  SizePrior(const SizeHistogram& histogram, int64_t last, double weight);

  // The weight of the next size, from 1 on. Cost: O(1) amortised.
  double Next();

 private:
  void Rewind();

  const SizeHistogram& histogram_;
  double mass_ = 0;  // Calls up to `last`.
  double unit_ = 1;
  int64_t size_ = 0;    // The last one that was asked for.
  size_t passed_ = 0;   // Counts of smaller sizes.
  double above_ = 0;    // Calls that are not smaller.
  double squares_ = 0;  // Of the sizes of those that are.
};

// What follows `below` where nobody has called: the largest multiple of `align` up to twice it, or
// the next one, or `limit`.
int64_t Doubled(int64_t below, int64_t align, int64_t limit);

}  // namespace coppice
