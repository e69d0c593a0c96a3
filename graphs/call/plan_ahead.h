// Plans of buckets that are not recorded. Private to graphs/.
//
// Threads: any.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/graphs/session_warming.h"

#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// As SessionWarming::Plan.
absl::StatusOr<std::vector<PlannedBucket>> PlanAhead(const SessionParts& parts,
                                                     const Program& program,
                                                     std::span<const std::vector<int64_t>> buckets,
                                                     std::span<const int64_t> scalars);

}  // namespace coppice::internal
