// What else would waste less: other counts, other steps, chunks. Each piece of advice is tried on
// the same traffic before it is given.
//
// Threads: pure functions.

#pragma once

#include <string>
#include <vector>

#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/size_histogram.h"

namespace coppice {

// One sentence each; none where nothing is better.
std::vector<std::string> AdviseOn(const SizeHistogram& histogram,
                                  const LearnOptions& options,
                                  const LearnedBuckets& learned);

}  // namespace coppice
