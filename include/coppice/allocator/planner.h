// The planner: from lifetimes to offsets of small height.
//
// Dynamic storage allocation is NP-hard, but the buffers of real programs are kind: a few orderings
// placed one buffer after another reach the bound on nearly every program. The planner tries them
// in turn and stops at the first plan that is good enough; of equal plans the earliest wins.
//
//   size          largest first                           (TFLite arXiv 2001.03288, greedy by size)
//   contention    most live bytes around it first, then area, then lifetime
//   breadth       steps in order of live bytes; the buffers of the fullest step first, by size
//   size class    sizes within a factor of four count as equal, longest lifetime first
//   weight        size x sqrt(lifetime) x contention^4, largest first
//   steep weight  the same with contention^16
//
// Each buffer goes to the lowest offset free of the buffers already placed that live at the same
// time; in breadth, to the tightest hole. Where every ordering misses the target, up to 3,000
// buffers are searched for the lowest plan (allocator/planner/plan_search.h: canonical plans, depth
// first). For more, a climb follows: what reaches above the target moves forward in the best order,
// which is placed again.
//
// Good enough is the bound with sizes rounded up to the alignment that all buffers share, below
// which hardly any plan can be; the end of the highest fixed buffer; or
// PlannerOptions::height_target.
//
// Fixed buffers stay where they are. Low buffers are placed next, in each ordering, so that nothing
// but what is fixed keeps them from the bottom: outputs that outlive their program leave one hole.
//
// Units: bytes and steps. Threads: any; no device. Deterministic: equal inputs give equal plans,
// unless the time limit cuts in.

#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"

namespace coppice {

struct PlannerOptions {
  // A plan no higher than this is good enough even above the bound: the window is that high
  // already.
  int64_t height_target = 0;

  // Work limit of what follows the orderings where those miss the target, in placements tried. 0:
  // orderings only.
  int64_t search_tries_max = 4096;

  // Host time. The best plan so far is returned when it is over; the first ordering is always
  // tried.
  int64_t time_limit_ns = std::numeric_limits<int64_t>::max();

  uint64_t seed =
      1;  // Of the searches; equal seeds give equal plans unless the time limit cuts in.
};

struct PlannerResult {
  Plan plan;
  int64_t bound = 0;        // MaxLiveBytes(buffers).
  const char* method = "";  // What won: "size", ..., "search", "climb"; "empty" without buffers.

  // How far the plan is above the bound: height / bound, 1 without buffers.
  double gap() const {
    return bound == 0 ? 1 : static_cast<double>(plan.height) / static_cast<double>(bound);
  }
};

// Plans `buffers`. The result has passed ValidatePlan.
//
// Errors: kInvalidArgument  malformed buffers, or two fixed ones that overlap.
// Cost: O(orderings * n^2) with a small factor: about 0.3 us per buffer on inference programs, 1 to
// 2 us in training steps of 5,000 to 17,000 buffers; allocates.
absl::StatusOr<PlannerResult> PlanBuffers(std::span<const Buffer> buffers,
                                          const PlannerOptions& options = {});

}  // namespace coppice
