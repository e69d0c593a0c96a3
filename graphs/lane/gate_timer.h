// Times calls for their gates with pairs of events, which are read when they have completed.
// Private to graphs/.
//
// Units: microseconds of the driver's clock. Threads: under the lane's lock.

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/stream.h"

#include "graphs/node/gate.h"

namespace coppice::internal {

class Node;

class GateTimer {
 public:
  // Two events around one run.
  struct Pair {
    Event start;
    Event end;
  };

  // A pair that nothing waits for.
  absl::StatusOr<Pair> Take(const Driver& driver);
  // Reads the pair once its end has completed, for the node's gate.
  void Await(Node& node, const Gate::Run& run, Pair pair);
  // Gives the gates what has completed. Cost: a driver call or two per pair that is awaited.
  absl::Status Collect();
  // The node goes: its pairs are read no more.
  void Forget(const Node& node);

 private:
  struct Awaited {
    Node* node = nullptr;  // Null: forgotten.
    Gate::Run run;
    Pair pair;
  };

  std::vector<Awaited> awaited_;
  std::vector<Pair> spare_;
};

}  // namespace coppice::internal
