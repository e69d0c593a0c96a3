// What both ways of recording share.

#include "graphs/record/captured.h"

#include <optional>

#include "graphs/node/plan_around.h"

namespace coppice::internal {

bool BlamesTheDevice(const absl::Status& ran) {
  const std::optional<CuResult> result = CuResultOf(ran);
  return result.has_value() && (*result == CuResult::kOutOfMemory || IsSticky(*result));
}

absl::StatusOr<PlannerResult> PlanFor(const CaptureRequest& request,
                                      const std::vector<Buffer>& buffers,
                                      bool of_chain) {
  if (of_chain) {
    absl::StatusOr<PlannerResult> planned = PlanOfChain(buffers, request.live, *request.chain_plan);
    // A program that was warmed up anew may have other buffers than its chain was planned with.
    if (planned.ok()) return planned;
  }
  return PlanAround(buffers, request.live);
}

}  // namespace coppice::internal
