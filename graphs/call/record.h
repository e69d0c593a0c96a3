// A call whose node is recorded: at once, or in the background. Private to graphs/.
//
// Threads: under the lane's lock.

#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/lease.h"

#include "graphs/call/request.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// Records the bucket's node and replays it; runs without a graph if it cannot be recorded, or while
// it is recorded in the background. Requires: the bucket is warm, or the program's steps are known.
// Errors: as Session::Run.
absl::StatusOr<Lease> RecordAndReplay(SessionParts& parts,
                                      const Request& request,
                                      Lane& lane,
                                      const Decision& decision);

// What is known of the call's node before it is recorded. Errors: as ReserveStaging.
absl::StatusOr<NodeDraft> DraftNode(const Request& request,
                                    Lane& lane,
                                    Bucket& bucket,
                                    Reason reason);

// Records the draft of a request's node at once, by its part of a chain's plan unless that is null.
// Requires: the lane's order has entered the call's stream, on which the graph is uploaded. Errors:
// as Record.
absl::StatusOr<std::unique_ptr<Node>> RecordInline(const SessionParts& parts,
                                                   const Request& request,
                                                   Lane& lane,
                                                   const NodeDraft& draft,
                                                   const Plan* chain_plan);

// Whether a program's nodes are recorded on the session's thread.
bool RecordsInBackground(const SessionParts& parts, const Program& program);

// Has the draft of a request's node recorded there. Requires: that it does.
void RecordInBackground(SessionParts& parts, const Request& request, Lane& lane, NodeDraft draft);

// Puts a recorded node where calls find it, counts it, and says once per program, if anybody
// listens, that it captured no work.
Node& Publish(const SessionParts& parts,
              const Program& program,
              Lane& lane,
              std::unique_ptr<Node> recorded);

// The first replay's part of an audit; what it finds refuses the bucket. Errors: as AuditAgain.
absl::Status Audit(const SessionParts& parts, const Request& request, Lane& lane, Node& node);

}  // namespace coppice::internal
