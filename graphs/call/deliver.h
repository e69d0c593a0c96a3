// The last stage of a call: books, leases, and copies behind the graph. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/lease.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/node/input_layout.h"
#include "graphs/node/region.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Says once per program and reason why it did not replay, if anybody listens: of a call; of a
// recording that failed so, which no call answers for.
void LogReason(const SessionParts& parts, const Request& request, Lane& lane, Reason reason);
void LogReason(const SessionParts& parts,
               const Program& program,
               Reason reason,
               const std::string& failure);

// Books the call, once, as what it was.
inline void Book(const SessionParts& parts,
                 const Request& request,
                 Lane& lane,
                 const Outcome& outcome) {
  lane.books().CountRun(outcome.kind, outcome.reason);
  lane.ChooseTimed(lane.order().calls());
  if (outcome.reason != Reason::kNone) [[unlikely]]
    LogReason(parts, request, lane, outcome.reason);
}

// Whose outputs the call's are.
inline SlotTable::Owner OwnerOf(const Request& request, Lane& lane) {
  return {.program = request.call.program,
          .call = lane.order().calls(),
          .extents = request.shape.real.data()};
}

// Takes bytes of the lane's ring for copies of all outputs. Errors: kResourceExhausted.
absl::StatusOr<Region> ReserveCopyOut(const Request& request, Lane& lane);
// Whether there are as many. Errors: the same.
absl::Status CheckCopyOut(const Request& request, Lane& lane);

// What is copied behind a run, and where from.
struct CopyBehind {
  OutputMode mode = OutputMode::kBorrow;  // kBorrow: mutated inputs only.
  const OutputTable& outputs;
  const InputLayout& layout;
  Region copy_out;  // If the mode needs copy_out_bytes.
};

// Copies behind the graph what does not stay where it was written: mutated inputs back to the
// caller, outputs as `copies.mode` says. Returns the slot of the copies, held for a lease; null
// with kBorrow. Errors: the driver's.
absl::StatusOr<Slot*> CopyBehindRun(const SessionParts& parts,
                                    const Request& request,
                                    Lane& lane,
                                    const CopyBehind& copies);

// Tells the trace, which there is, that the call reads outputs where they lie; that it ran with
// this layout, by a node or, if that is null, without.
void TraceUses(const Request& request, Lane& lane);
void TraceCall(const Request& request,
               Lane& lane,
               const Outcome& outcome,
               const InputLayout& layout,
               const Node* node);

// Tells the trace, if there is one, that a recording of the bucket failed.
void TraceFailure(const Bucket& bucket, const absl::Status& why, Lane& lane);

}  // namespace coppice::internal
