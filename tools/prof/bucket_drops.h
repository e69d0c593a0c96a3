// What dropping a bucket would really free, against what its calls would cost then.
//
// Plans of a lane share its window from offset 0 on, which is mapped in whole granules up to the
// highest: dropping a bucket frees granules only if nothing else is as high.
//
//   granules  |-------|-------|-------|-------|
//   bucket 8  [===========================)          alone: the last two
//   bucket 4  [============)                         alone: none; with those above it: one
//
// Where the calls go then is up to their policy: to its next bucket, be that one recorded or not.
// One that is not is recorded instead, if there are calls. Its plan is taken to be at least as
// high, as it holds the same call at a larger extent, and its graph to be as large: nothing is
// freed. Both are assumptions: no trace says what was never recorded, and planners may find a lower
// plan for more.
//
//   policy    ... 768  960  1024        960 is dropped: its calls record 1024, that no call needed
//   recorded  ... 768  960              so far; only a ladder that ends at 768 frees anything
//
// Policies are known of programs that have one padded symbol, without a joint policy. Of all others
// only recorded buckets are known: the smallest that holds the bucket serves, and without one calls
// count as eager, whatever their policies go on to.
//
// Units: bytes, elements. Threads: pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "tools/prof/bucket_figures.h"
#include "tools/prof/latest_policies.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

struct BucketDrop {
  int bucket = 0;             // Place in PoolTrace::buckets.
  int64_t calls = 0;          // That it served.
  int64_t mapped_bytes = 0;   // That are free without it ...
  int64_t with_higher = 0;    // ... and if nothing is as high or higher, recorded or not.
  int64_t exec_bytes = 0;     // Of its graphs, that are free without it; an estimate.
  bool policy_known = false;  // False: only recorded buckets are.
  int served_by = -1;         // The bucket that its calls would have; -1: none that has a graph.
  // The extents of that bucket, also of one that has no graph; empty: none, they run eagerly.
  std::vector<int64_t> served_extents;
  double padding_factor = 1;  // Elements of that bucket for each of this one.

  // The bucket that its calls would have has no graph and gets one in its place; then mapped_bytes
  // and exec_bytes are 0.
  bool records_another() const { return calls > 0 && served_by < 0 && !served_extents.empty(); }
  int64_t freed_bytes() const { return mapped_bytes + exec_bytes; }
};

// Of the buckets that have a graph, the most bytes per call that it served first. A policy's guard
// is asked for a call as large as the bucket: if it refuses that one, calls run eagerly. Policies
// are those of the events that `latest` has seen; a document that is none counts as no policy.
// Requires: a row of `figures` per bucket of the trace, in its order. Cost: O(buckets^2), and once
// per program its policies, O(maximum), one program at a time.
std::vector<BucketDrop> RankDrops(const PoolTrace& trace,
                                  const std::vector<BucketFigures>& figures,
                                  const LatestPolicies& latest);

}  // namespace coppice
