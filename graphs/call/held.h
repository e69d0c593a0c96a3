// Whether a graph may write where it does. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include "absl/status/status.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/node/node.h"

namespace coppice::internal {

// Errors: kFailedPrecondition the node would write over outputs that a scope is open on.
absl::Status CheckHeld(const Request& request, Lane& lane, const Node& node);

}  // namespace coppice::internal
