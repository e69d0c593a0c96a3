// The planner: it computes offsets of small height from lifetimes.
//
// Dynamic storage allocation is NP-hard, but the buffers of real programs are easy: for nearly
// every program, one of a few orderings, placed one buffer after another, reaches the bound. The
// planner tries these orderings one after another and stops at the first plan that is good enough;
// among equal plans it takes the first.
//
//   size          largest first                           (TFLite arXiv 2001.03288, greedy by size)
//   contention    most live bytes around it first, then area, then lifetime
//   breadth       steps in order of live bytes; the buffers of the fullest step first, by size
//   size class    sizes within a factor of four count as equal, longest lifetime first
//   weight        size x sqrt(lifetime) x contention^4, largest first
//   steep weight  the same with contention^16
//
// Each buffer is placed at the lowest offset that no placed buffer with an overlapping lifetime
// uses; with `breadth`, to the tightest hole. If every ordering misses the target, the planner
// searches for the lowest plan of up to 3,000 buffers (allocator/planner/plan_search.h: canonical
// plans, depth first). With more buffers it climbs instead: it moves buffers that reach above the
// target forward in the best ordering, and places that ordering again.
//
// A plan is good enough if it is no higher than one of these: the bound, with sizes rounded up to
// the alignment that all buffers share; the end of the highest fixed buffer;
// PlannerOptions::height_target.
//
// Fixed buffers keep their offsets. In each ordering, low buffers are placed first after them, so
// they lie at the bottom unless fixed buffers are there. So the outputs that outlive their program
// lie together, and leave one hole.
//
// Units: bytes and steps. Threads: any; no device. Deterministic: equal inputs give equal plans,
// unless the time limit is reached.

#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"

namespace coppice {

struct PlannerOptions {
  // A plan no higher than this is good enough, even above the bound, because the window is already
  // that high.
  int64_t height_target = 0;

  // Maximum number of placements that the search or climb may try if the orderings miss the target.
  // 0: orderings only.
  int64_t search_tries_max = 4096;

  // Host time, after which the best plan so far is returned; the first ordering is always tried.
  int64_t time_limit_ns = std::numeric_limits<int64_t>::max();

  uint64_t seed =
      1;  // Seed of the searches; equal seeds give equal plans unless the time limit is reached.
};

struct PlannerResult {
  Plan plan;
  int64_t bound = 0;        // MaxLiveBytes(buffers).
  const char* method = "";  // The method that found the plan: "size", ..., "search", "climb";
                            // "empty" without buffers.

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
