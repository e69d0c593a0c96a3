// Pairs of events, awaited and spare.

#include "graphs/lane/gate_timer.h"

#include <utility>

#include "coppice/base/status.h"

#include "graphs/node/node.h"

namespace coppice::internal {

absl::StatusOr<GateTimer::Pair> GateTimer::Take(const Driver& driver) {
  if (spare_.empty()) {
    COPPICE_ASSIGN_OR_RETURN(Event start, Event::Create(driver, Event::Timing::kOn));
    COPPICE_ASSIGN_OR_RETURN(Event end, Event::Create(driver, Event::Timing::kOn));
    return Pair{.start = std::move(start), .end = std::move(end)};
  }
  Pair pair = std::move(spare_.back());
  spare_.pop_back();
  return pair;
}

void GateTimer::Await(Node& node, const Gate::Run& run, Pair pair) {
  awaited_.push_back({.node = &node, .run = run, .pair = std::move(pair)});
}

absl::Status GateTimer::Collect() {
  std::vector<Awaited> left;
  for (Awaited& awaited : std::exchange(awaited_, {})) {
    COPPICE_ASSIGN_OR_RETURN(const bool complete, awaited.pair.end.Complete());
    if (!complete) {
      left.push_back(std::move(awaited));
      continue;
    }
    if (awaited.node != nullptr) {
      COPPICE_ASSIGN_OR_RETURN(const double elapsed_us,
                               awaited.pair.end.ElapsedUs(awaited.pair.start));
      awaited.node->gate()->Add(awaited.run, elapsed_us);
    }
    spare_.push_back(std::move(awaited.pair));
  }
  awaited_ = std::move(left);
  return absl::OkStatus();
}

void GateTimer::Forget(const Node& node) {
  for (Awaited& awaited : awaited_) {
    if (awaited.node == &node) awaited.node = nullptr;
  }
}

}  // namespace coppice::internal
