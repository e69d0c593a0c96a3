// A call that a node serves: stage, launch, lease. Private to graphs/.
//
// Threads: under the lane's lock. Cost: one driver call, or two if anything is staged; one more for
// copies behind the graph; four more on another stream than the lane's last. No allocation.

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/lease.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Launches the node's graphs for the call, which is booked as `outcome`. Requires: the node's
// memory is present. Errors: kFailedPrecondition it would write over outputs that a scope is open
// on; kResourceExhausted no room to copy out; the driver's; a break's own.
absl::StatusOr<Lease> Replay(const SessionParts& parts,
                             const Request& request,
                             Lane& lane,
                             Node& node,
                             const Outcome& outcome);

// The same, of which the lane's flight recorder is told. Require: it has one; the first, that
// node.has_plain_entries() and no copies but of inputs are recorded, and that the call gives no
// lease away. Cost: what an entry takes; the second, what BeginFlight and EndFlight take.
absl::StatusOr<Lease> ReplayWithWords(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      Node& node,
                                      const Outcome& outcome);
absl::StatusOr<Lease> ReplayWithEntry(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      Node& node,
                                      const Outcome& outcome);

}  // namespace coppice::internal
