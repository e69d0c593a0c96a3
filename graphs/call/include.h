// A warm program inside the caller's own capture. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include "absl/status/statusor.h"

#include "coppice/graphs/lease.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// As Session::Include, of a call that was checked.
absl::StatusOr<Lease> Include(const SessionParts& parts, const Request& request, Lane& lane);

}  // namespace coppice::internal
