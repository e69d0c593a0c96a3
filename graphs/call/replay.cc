// The hot path of a lane without a flight recorder.

#include "graphs/call/replay.h"

#include "graphs/call/replay_body.h"

namespace coppice::internal {
namespace {

struct RecordNothing {
  RecordNothing(const SessionParts&, const Request&, Lane&, const Node&, const Outcome&) {}
  void Fail(const SessionParts&, const Request&, Lane&, const Node&, const Outcome&) const {}
  void End(const SessionParts&, const Request&, Lane&, const Node&, const Outcome&) const {}
};

}  // namespace

absl::StatusOr<Lease> Replay(const SessionParts& parts,
                             const Request& request,
                             Lane& lane,
                             Node& node,
                             const Outcome& outcome) {
  return ReplayAnd<RecordNothing>(parts, request, lane, node, outcome);
}

}  // namespace coppice::internal
