// The rule by which buckets follow traffic: only a few change at a time, and only if that saves
// enough.
//
// Every new bucket is a graph to record, so Relearn does not look for the best ladder, but for the
// best one with few new buckets. Among all ladders with at most `count` buckets, of which at most
// `added_max` are new, it takes the one with the least cost. Each new bucket costs `gain_each`
// points of waste. A swap must save `gain_min` points; less is noise, and ladders would change all
// the time. If buckets have a price, prices count like waste in both ladders, so a ladder with
// fewer buckets may pad more and still be better. An old ladder with more than `count` buckets is
// replaced at any cost.
//
// With a prior, and with neither caps nor prices, the buckets beyond the largest size of the
// traffic and beyond forced sizes come from the old ladder, and are not part of the count. Relearn
// keeps as few of them as possible, but each is at most twice the one before, unless the old ladder
// already had a larger step there. So the end of the old ladder does not change how smaller sizes
// are padded, however far away it is.
//
//   old  1 2 4 8 16 32 64         traffic moves to 20..28         new  4 8 16 22 28 32 64
//
// Call Relearn about every thousand calls with a histogram in which old calls fade
// (decaying_histogram.h). A ladder that is learned again needs a smaller prior and weaker caps than
// one that is learned once: 0.02 and 1.5 are enough. Any old ladder is allowed. If it breaks the
// caps so much that `added_max` buckets cannot repair it, the caps are ignored in this swap.
//
// Units: sizes count elements; waste and prices are in points. Waste is 100 * (padded - real) /
// real, and a price is 100 * price / real; both are 0 if `real` is 0.
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
  LearnOptions learn;  // If the count is 0, there are at most as many buckets as LearnBuckets would
                       // choose.
  // Whether buckets without calls are part of the count, too, so that they do not make a ladder
  // longer. There is still room for as many other buckets as the old ladder had, up to and
  // including the bucket that held the largest size.
  bool counts_uncalled = false;
  int64_t added_max = 4;    // Buckets that are not in the old ladder. >= 0.
  double gain_min = 1;      // Points of waste and price that a swap has to save. >= 0.
  double gain_each = 0.25;  // Points that each added bucket has to save. >= 0.
};

struct Relearned {
  bool swap = false;             // Whether to use `buckets`; otherwise they are the old ones.
  std::vector<int64_t> buckets;  // Increasing; the last is the limit.
  std::vector<int64_t> added;    // The buckets that the old ladder lacks.
  std::vector<int64_t> dropped;  // Buckets of the old ladder that are not in `buckets`.
  double waste_before_pct = 0;   // Waste of the histogram's calls up to the limit, in the old
                                 // buckets.
  double waste_after_pct = 0;    // The same in `buckets`.
  double price_before_pct = 0;   // Price of the old buckets, in points of the same real cost.
  double price_after_pct = 0;    // The same for `buckets`.
};

// `old` must be increasing, and its last bucket the limit. With up to kRelearnCandidatesMax
// candidates for new buckets the result is exact. With more, it chooses among the old buckets,
// those that LearnBuckets chooses, and sizes that divide the traffic into equal parts. Errors:
// kInvalidArgument `old` breaks the rule above, an option breaks the rules of LearnBuckets, or
// there is no call up to the limit. Cost: O(count * added_max * candidates * log candidates);
// allocates.
inline constexpr int64_t kRelearnCandidatesMax = 1024;
absl::StatusOr<Relearned> Relearn(const SizeHistogram& histogram,
                                  std::span<const int64_t> old,
                                  const RelearnOptions& options);

}  // namespace coppice
