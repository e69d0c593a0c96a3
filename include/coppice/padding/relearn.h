// The rule by which buckets follow traffic: few new ones at a time, and only where it pays.
//
// Every new bucket is a graph to record, so Relearn does not ask for the best ladder but for the
// best that keeps all of the old but a few: of all ladders of at most so many buckets, of which at
// most `added_max` are not in the old one, the one that costs the least, where each new one costs
// `gain_each` points of waste. It is worth a swap if it saves `gain_min` points; less is noise, and
// ladders would come and go. Where buckets have a price, their prices count as waste does, on both
// sides: a ladder of fewer buckets may pad more and be the better one. An old ladder of more than
// `count` buckets goes whatever that costs.
//
// Where there is a prior, and neither caps nor prices, buckets beyond the largest size of the
// traffic, and beyond forced ones, are the old ladder's, as few of them as leave each at most twice
// the one before where the old one had it so, beside the count. So the old ladder's end, however
// far, does not matter to how sizes below it are padded.
//
//   old  1 2 4 8 16 32 64         traffic moves to 20..28         new  4 8 16 22 28 32 64
//
// Call it every thousand calls or so with a histogram that forgets (decaying_histogram.h). What
// keeps a ladder good that is learned once, a prior and caps, costs one that is learned again more
// than it gives: 0.02 and 1.5 do. The old ladder may be any; where it breaks the caps so much that
// `added_max` buckets do not mend it, the caps have no part in this swap.
//
// Units: sizes count elements; waste is in points: 100 * (padded - real) / real, and so are prices:
// 100 * price / real, or 0 where that is 0.
// Threads: pure functions; the callables of the options are called from the caller's thread.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/size_histogram.h"

namespace coppice {

struct RelearnOptions {
  LearnOptions learn;  // With a count of 0, at most as many as LearnBuckets would choose.
  // Whether buckets that nobody calls count, too, so that a ladder does not grow by them. They
  // leave room for as many others as the old ladder had below them, and for one in place of that
  // which held the largest size.
  bool counts_uncalled = false;
  int64_t added_max = 4;    // Buckets that are not in the old ladder. >= 0.
  double gain_min = 1;      // Points of waste and price that a swap has to save. >= 0.
  double gain_each = 0.25;  // That each bucket has to save which it adds. >= 0.
};

struct Relearned {
  bool swap = false;             // Whether to use `buckets`; otherwise they are the old ones.
  std::vector<int64_t> buckets;  // Increasing; the last is the limit.
  std::vector<int64_t> added;    // Of these, those that the old ladder lacks.
  std::vector<int64_t> dropped;  // Of the old ladder, those that are gone.
  double waste_before_pct = 0;   // Of the histogram's calls up to the limit, in the old buckets.
  double waste_after_pct = 0;    // The same in `buckets`.
  double price_before_pct = 0;   // What the old buckets cost, as points of the same real cost.
  double price_after_pct = 0;    // The same of `buckets`.
};

// `old` is increasing, and its last bucket the limit. Where more candidates than
// kRelearnCandidatesMax could be new, it chooses among the old buckets, those that LearnBuckets
// chooses, and sizes that cut the traffic into equal parts; with fewer it is exact. Errors:
// kInvalidArgument  `old` is not as said, or the options are not as LearnBuckets wants them, or no
// call up to the limit. Cost: O(count * added_max * candidates * log candidates); allocates.
inline constexpr int64_t kRelearnCandidatesMax = 1024;
absl::StatusOr<Relearned> Relearn(const SizeHistogram& histogram,
                                  std::span<const int64_t> old,
                                  const RelearnOptions& options);

}  // namespace coppice
