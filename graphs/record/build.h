// Recordings of programs whose steps are known: nothing runs, and no work is captured but that of
// libraries. Private to graphs/.
//
//   source ─► requests ─► script ─► plan ─► addresses ─► nodes, edges ─► graph
//
// Threads: no lock is needed.

#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

#include "coppice/allocator/planner.h"
#include "coppice/runtime/driver.h"

#include "graphs/lane/lane_memory.h"
#include "graphs/node/allocation_script.h"
#include "graphs/program/program.h"
#include "graphs/record/captured.h"

namespace coppice::internal {

// The script that a warm-up of `program` at these padded extents would leave. Requires: a program
// whose requests are known. `workspace_bytes` are what a dry run sees. Errors: kInvalidArgument its
// arithmetic has no value there; the dry run's own.
absl::StatusOr<AllocationScript> ScriptOfSteps(const Driver& driver,
                                               LaneMemory& memory,
                                               const Program& program,
                                               std::span<const int64_t> extents,
                                               std::span<const int64_t> scalars,
                                               int64_t workspace_bytes);

// The plan of that script where all inputs are staged and nothing else is live. Errors: also as
// PlanBuffers.
absl::StatusOr<PlannerResult> PlanOfSteps(const Driver& driver,
                                          LaneMemory& memory,
                                          const Program& program,
                                          std::span<const int64_t> extents,
                                          std::span<const int64_t> scalars,
                                          int64_t workspace_bytes);

// Plans the script and makes its graph, whose edges have passed the validator together with the
// plan. Where they do not, as of a step that reads what none wrote, the nodes run one after
// another, and Captured::serial says so. Requires: a program with steps, and a target without
// prologue. Errors: as PlanAndCapture.
absl::StatusOr<Captured> PlanAndBuild(const CaptureRequest& request, const RecordTarget& target);

}  // namespace coppice::internal
