// Planning with fixed regions.

#include "graphs/node/plan_around.h"

#include <algorithm>

#include "coppice/base/status.h"

namespace coppice::internal {

void AppendLive(const std::vector<Region>& live, std::vector<Buffer>& buffers) {
  int64_t end = 1;
  for (const Buffer& buffer : buffers)
    end = std::max(end, buffer.lifetime.back().upper);
  for (const Region& region : live) {
    buffers.push_back({.lifetime = {{.lower = 0, .upper = end}},
                       .bytes = region.bytes,
                       .fixed_offset = region.offset});
  }
}

absl::StatusOr<PlannerResult> PlanAround(std::vector<Buffer> buffers,
                                         const std::vector<Region>& live) {
  int64_t end = 0;
  for (const Buffer& buffer : buffers)
    end = std::max(end, buffer.lifetime.back().upper);
  for (Buffer& buffer : buffers)
    buffer.low = buffer.lifetime.back().upper == end;
  AppendLive(live, buffers);
  return PlanBuffers(buffers);
}

absl::StatusOr<PlannerResult> PlanOfChain(std::vector<Buffer> buffers,
                                          const std::vector<Region>& live,
                                          const Plan& part) {
  PlannerResult planned{.plan = part, .method = "chain"};
  // What the call gives away is behind its own buffers, and fixed.
  for (size_t i = part.offsets.size(); i < buffers.size() && buffers[i].fixed_offset; ++i)
    planned.plan.offsets.push_back(*buffers[i].fixed_offset);
  if (planned.plan.offsets.size() != buffers.size()) {
    return InvalidArgument("the chain's plan has {} buffers, not {}", part.offsets.size(),
                           buffers.size());
  }
  AppendLive(live, buffers);
  for (const Region& region : live)
    planned.plan.offsets.push_back(region.offset);
  planned.plan.height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    planned.plan.height = std::max(planned.plan.height, planned.plan.offsets[i] + buffers[i].bytes);
  }
  planned.bound = MaxLiveBytes(buffers);
  COPPICE_RETURN_IF_ERROR(ValidatePlan(buffers, planned.plan));
  return planned;
}

}  // namespace coppice::internal
