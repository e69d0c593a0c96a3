// What a call would do, found out without doing it, and the words for it. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include "coppice/graphs/session_stats.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// What RunCall would do with a call that was checked, as Session::Explain.
Explanation ExplainCall(const SessionParts& parts, Request& request, Lane& lane);

}  // namespace coppice::internal
