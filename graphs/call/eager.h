// A call without a graph: a warm-up at its bucket, or an eager run at its own extents. Private to
// graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/lease.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"
#include "graphs/record/run_context.h"

namespace coppice::internal {

// Runs the program once: at the bucket and noting its allocations, at the bucket because other
// ranks do, or at the call's own extents, also where MayRunUnpadded says so of what a warm-up would
// stage. Errors: as Session::Run.
absl::StatusOr<Lease> RunWithoutGraph(const SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      const Decision& decision);

// The bucket of the call, made if there is none.
Bucket& BucketFor(const Request& request, Lane& lane);
// Gives it the script that a warm-up would leave, if the program's steps are known and it has none.
// Runs nothing. Errors: kInvalidArgument arithmetic of the program without a value there.
absl::Status LearnFromSteps(const SessionParts& parts,
                            const Request& request,
                            Lane& lane,
                            Bucket& bucket);
// What people see of it, or of a node before it is recorded.
NodeInfo InfoOf(const Request& request, const Lane& lane);

// Room for staged inputs. Errors: kResourceExhausted, also for what does not fit the window, and so
// not the session.
absl::Status ReserveStaging(const Program& program, int64_t bytes, Lane& lane);
// Whether a call is to run at its own extents because ReserveStaging at its bucket, the last to ask
// for room, returned this: if there was none, unless it was the budget's and that is to be an
// error. Ranks that vote have agreed on the bucket, so that it is an error there.
bool MayRunUnpadded(const SessionParts& parts, const absl::Status& reserved, Lane& lane);

// Where a run's staged inputs and those in place lie.
LayoutBases BasesOf(Lane& lane);

// What a run of the call at these extents needs to know.
RunRequest RunRequestOf(const SessionParts& parts,
                        const Call& call,
                        std::span<const int64_t> extents,
                        const InputLayout& layout,
                        CuStream stream);

}  // namespace coppice::internal
