// Plans of a program around what is leased of its path. Private to graphs/.
//
// Units: bytes. Threads: pure functions.

#pragma once

#include <vector>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"
#include "coppice/allocator/planner.h"

#include "graphs/node/region.h"

namespace coppice::internal {

// Appends the live regions, which stay where they are from the first step to the last.
void AppendLive(const std::vector<Region>& live, std::vector<Buffer>& buffers);

// Plans the buffers of a program around the live regions, which are behind them in the plan.
// Outputs, which live to the end, go to the bottom, so that what a path keeps leaves one hole.
// Errors: as PlanBuffers.
absl::StatusOr<PlannerResult> PlanAround(std::vector<Buffer> buffers,
                                         const std::vector<Region>& live);

// The same from `part`, what a chain's plan says of these buffers. Errors: as ValidatePlan;
// kInvalidArgument if it is a plan of other ones.
absl::StatusOr<PlannerResult> PlanOfChain(std::vector<Buffer> buffers,
                                          const std::vector<Region>& live,
                                          const Plan& part);

}  // namespace coppice::internal
