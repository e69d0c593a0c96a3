// Calls that replay at their own sizes, not at those of their bucket. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/lease.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Replays the node: where it has exact sizes and its program asks for that, at the sizes of the
// call if its family has them, else at its bucket's. Errors: as Replay; the driver's.
absl::StatusOr<Lease> ReplayNode(const SessionParts& parts,
                                 const Request& request,
                                 Lane& lane,
                                 Node& node,
                                 const Outcome& outcome);

}  // namespace coppice::internal
