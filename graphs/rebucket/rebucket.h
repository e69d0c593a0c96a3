// Learning while serving: from a symbol's histogram to another ladder, with its graphs recorded
// before any call needs them. Private to graphs/.
//
// Threads: without any lane's lock, under that of the ladders.

#pragma once

#include "absl/status/statusor.h"

#include "coppice/graphs/rebucket.h"

#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// As SessionPolicies::Rebucket.
absl::StatusOr<RebucketReport> Rebucket(SessionParts& parts,
                                        const Program& program,
                                        int symbol,
                                        const RebucketOptions& options);

}  // namespace coppice::internal
