// The third stage of a call: which node serves it, or what it does without one. Private to graphs/.
//
// Run does what is decided here, Explain prints it. Nothing here changes anything.
//
// Threads: under the lane's lock.

#pragma once

#include <string>

#include "coppice/graphs/session_options.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"

namespace coppice::internal {

// What a session lets its calls do.
struct Rules {
  const SessionOptions& options;
  Stance stance = Stance::kRecord;
};

// The node that serves the call; null if there is none. Cost: allocates nothing, but for
// a program's first call on the lane.
inline Node* FindNode(const Request& request, Lane& lane) {
  if (request.shape.unbucketed || !request.known_place) [[unlikely]]
    return nullptr;
  NodeKey key;
  key.statics = request.statics;
  key.surroundings = request.surroundings;
  SetBucketKey(request.call, request.shape, key.bucket);
  return lane.nodes().Of(*request.call.program).Find(key);
}
// Its bucket; null if there is none.
Bucket* FindBucket(const Request& request, Lane& lane);

// Which way a call goes that `node`, or none, would serve. The limits are those of eviction, too:
// a graph too many is dropped, refused or run without, as the options say.
Decision Decide(const Rules& rules, const Request& request, Lane& lane, const Node* node);

// Why a call of `bucket`, or of none yet, is not served by a node that is there.
Reason ReasonForRecording(const Request& request, const Bucket* bucket);

// The reason's name, and what there is to say of it. Allocates.
std::string WithCause(Reason reason, const std::string& cause);

// The same for a call: the failure of its bucket's last recording, which static inputs moved, how
// many graphs there are, whose leases lie around it, or which extents are too large. Allocates.
std::string DescribeReason(const Request& request, Lane& lane, Reason reason);

}  // namespace coppice::internal
