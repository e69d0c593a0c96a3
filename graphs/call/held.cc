// Open scopes in the way of a graph.

#include "graphs/call/held.h"

#include "coppice/base/status.h"

namespace coppice::internal {

absl::Status CheckHeld(const Request& request, Lane& lane, const Node& node) {
  const Slot* held = lane.slots().FindHeld(node.footprint());
  if (held == nullptr) [[likely]]
    return absl::OkStatus();
  return FailedPrecondition(
      "Session::Run: program '{}' would write over the outputs of program '{}' (call {} on lane "
      "{}), which still have open read scopes ({}); end those first",
      request.call.program->spec.name, held->program->spec.name, held->call, lane.index,
      held->open_scopes());
}

}  // namespace coppice::internal
