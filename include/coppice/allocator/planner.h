// The planner: from lifetimes to offsets of small height.
//
// Dynamic storage allocation is NP-hard, but the buffers of real programs are kind: a few orderings
// placed first-fit reach the bound on nearly every inference program. The planner tries them in
// turn and stops at the first plan that is good enough. Orderings, in the order tried:
//
//   size        largest first                             (TFLite arXiv 2001.03288, greedy by size)
//   contention  most live bytes around it first, then area, then lifetime
//   area        bytes x steps, largest first
//   breadth     steps in order of live bytes; the buffers of the fullest step first, by size
//
// Each buffer goes to the lowest offset free of the buffers already placed that live at the same
// time. Where that misses the target in every order, best fit (the tightest hole) is tried in all
// of them again; the lowest plan wins, the earlier of two equals.
//
// Good enough is the bound with sizes rounded up to the alignment that all buffers share, below
// which hardly any plan can be; the end of the highest fixed buffer; or
// PlannerOptions::height_target.
//
// Units: bytes and steps. Threads: pure function; no device. Deterministic: equal inputs give equal
// plans.

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

  // Work limit of the searches that follow the orderings where those miss the target, in placements
  // tried; deterministic. 0: orderings only.
  int64_t search_nodes_max = 4096;

  // Host time for everything. The best plan so far is returned when it is over.
  int64_t time_limit_ns = std::numeric_limits<int64_t>::max();

  uint64_t seed =
      1;  // Of the searches; equal seeds give equal plans unless the time limit cuts in.
};

struct PlannerResult {
  Plan plan;
  int64_t bound = 0;  // MaxLiveBytes(buffers).
  const char* method =
      "";  // What won: "size", ..., "size, best fit", ...; "empty" without buffers.

  // How far the plan is above the bound: height / bound, 1 without buffers.
  double gap() const {
    return bound == 0 ? 1 : static_cast<double>(plan.height) / static_cast<double>(bound);
  }
};

// Plans `buffers`. Buffers with a fixed offset stay there; the others are placed around them. The
// result has passed ValidatePlan.
//
// Errors: kInvalidArgument  malformed buffers, or two fixed ones that overlap.
// Cost: O(orderings * n^2) with a small factor, under 1 us per buffer on inference programs;
// allocates.
absl::StatusOr<PlannerResult> PlanBuffers(std::span<const Buffer> buffers,
                                          const PlannerOptions& options = {});

}  // namespace coppice
