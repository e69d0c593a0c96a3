// The hot path of a lane without a flight recorder.

#include "graphs/call/replay.h"

#include "graphs/call/replay_body.h"

namespace coppice::internal {
namespace {

struct RecordNothing {
  RecordNothing(const SessionParts&, const Request&, Lane&, const Node&, const Outcome&) {}
  void End() const {}
};

}  // namespace

absl::Status CheckHeld(const Request& request, Lane& lane, const Node& node) {
  const Slot* held = lane.slots().FindHeld(node.footprint());
  if (held == nullptr) [[likely]]
    return absl::OkStatus();
  return FailedPrecondition(
      "Session::Run: program '{}' would write over the outputs of program '{}' (call {} on lane "
      "{}), on which {} read scopes are open; end them first",
      request.call.program->spec.name, held->program->spec.name, held->call, lane.index,
      held->open_scopes());
}

absl::StatusOr<Lease> Replay(const SessionParts& parts,
                             const Request& request,
                             Lane& lane,
                             Node& node,
                             const Outcome& outcome) {
  return ReplayAnd<RecordNothing>(parts, request, lane, node, outcome);
}

}  // namespace coppice::internal
