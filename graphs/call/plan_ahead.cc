// Scripts and plans, without memory.

#include "graphs/call/plan_ahead.h"

#include <mutex>

#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/call/warm.h"
#include "graphs/record/build.h"

namespace coppice::internal {

absl::StatusOr<std::vector<PlannedBucket>> PlanAhead(const SessionParts& parts,
                                                     const Program& program,
                                                     std::span<const std::vector<int64_t>> buckets,
                                                     std::span<const int64_t> scalars) {
  COPPICE_RETURN_IF_ERROR(CheckRegistered("Session::Plan", program));
  COPPICE_RETURN_IF_ERROR(CheckIsOf(parts, program, scalars.size(), "Session::Plan"));
  if (!program.requests_known)
    return FailedPrecondition(
        "Session::Plan: program '{}' is a callable, so only its runs show its allocations; "
        "register it with a dry_run, or warm its buckets and look at nodes()",
        program.spec.name);
  std::vector<CallShape> shapes;
  {
    const std::lock_guard lock(parts.lane(0).mutex);  // The policies stay meanwhile.
    COPPICE_ASSIGN_OR_RETURN(shapes, ShapesOf("Session::Plan", program, buckets, scalars));
  }
  std::vector<PlannedBucket> planned;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::unique_lock<LaneMutex> lock;
    if (program.steps == nullptr) {  // Unregister, which takes the lanes, ends its dry run.
      lock = std::unique_lock(parts.lane(0).mutex);
      COPPICE_RETURN_IF_ERROR(CheckRegistered("Session::Plan", program));
    }
    COPPICE_ASSIGN_OR_RETURN(
        const PlannerResult result,
        PlanOfSteps(parts.driver, parts.lane(0).memory(), program, shapes[i].padded, scalars,
                    parts.options.memory.workspace_bytes));
    planned.push_back({.bucket = buckets[i],
                       .plan_height = result.plan.height,
                       .live_bytes = result.bound,
                       .plan_method = result.method});
  }
  return planned;
}

}  // namespace coppice::internal
