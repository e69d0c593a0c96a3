// Ranks that must run in the same way: their votes on a call. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include "absl/status/status.h"

#include "graphs/call/decide.h"
#include "graphs/call/request.h"
#include "graphs/lane/lane.h"

namespace coppice::internal {

// Agrees with the other ranks on a bucket and a way to run, and turns the request and the decision
// into that. Requires: RankOptions::vote. Errors: the vote's, the barrier's; kInvalidArgument they
// agreed on more than this rank can, or on a bucket that is none of its own.
absl::Status Vote(const Rules& rules, Request& request, Lane& lane, Decision& decision);

}  // namespace coppice::internal
