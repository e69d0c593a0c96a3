// Recording ahead of traffic. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/session_warming.h"

#include "graphs/call/call_shape.h"
#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// What is to be warmed.
struct WarmRequest {
  const Program& program;
  const Binding* binding = nullptr;
  std::span<const int64_t> scalars;
  const WarmOptions& options;
};

// Whether the program can be warmed so, whatever the bucket. Errors: as SessionWarming::Warm for
// what it checks beforehand.
absl::Status CheckWarmed(const SessionParts& parts, const WarmRequest& request);

// The shape of a run at these extents, one per symbol, as if they were a bucket. `where` begins
// messages, in which `what` names them. Errors: as ShapesOf, but for what is no bucket.
absl::StatusOr<CallShape> ShapeAt(const char* where,
                                  const std::string& what,
                                  const Program& program,
                                  std::span<const int64_t> extents,
                                  std::span<const int64_t> scalars);

// The shapes of these buckets, one padded extent per symbol each, in this order. `where` begins
// messages. Errors: kInvalidArgument an extent that is no bucket, or where sizes have no value;
// kResourceExhausted tensors larger than any device.
absl::StatusOr<std::vector<CallShape>> ShapesOf(const char* where,
                                                const Program& program,
                                                std::span<const std::vector<int64_t>> buckets,
                                                std::span<const int64_t> scalars);

// The shapes of these buckets, the one with the most elements first, so that the pool grows once.
// Errors: as SessionWarming::Warm for what it checks beforehand.
absl::StatusOr<std::vector<CallShape>> CheckWarm(const SessionParts& parts,
                                                 const WarmRequest& request,
                                                 std::span<const std::vector<int64_t>> buckets);

// Warms up and records the buckets that are not recorded, as roots, on inputs of zeros. Waits for
// the device. Errors: as SessionWarming::Warm.
absl::Status WarmBuckets(const SessionParts& parts,
                         const WarmRequest& request,
                         std::span<const CallShape> shapes,
                         Lane& lane);

// Warms up and records one bucket if it lacks the graph that `request`, whose place is known,
// would replay. `scratch` is the same request on the inputs of warm-ups.
absl::Status WarmOne(const SessionParts& parts,
                     const Request& request,
                     const Request& scratch,
                     Lane& lane);

// The same in the background, which is over when the session waits for recordings: the graph is
// there then, or the bucket's failure says why not. Requires: RecordsInBackground.
absl::Status WarmOneInBackground(SessionParts& parts,
                                 const Request& request,
                                 const Request& scratch,
                                 Lane& lane);

// Waits for what warming left behind and gives its memory back.
absl::Status FinishWarming(const SessionParts& parts, Lane& lane);

// That of `asked` graphs of warmed calls, the last ones of `program`, later ones took the room of
// some.
absl::Status NotKept(const Program& program, size_t asked, size_t kept);

}  // namespace coppice::internal
