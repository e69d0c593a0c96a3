// The run of one call, from its node or to it: the stages joined. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include "absl/status/statusor.h"

#include "coppice/graphs/lease.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Runs a call that was checked. Errors: as Session::Run.
absl::StatusOr<Lease> RunCall(SessionParts& parts, Request& request, Lane& lane);

}  // namespace coppice::internal
