// Recording a chain of calls ahead of traffic. Private to graphs/.
//
// Where a call of a chain stands says which outputs its graph is planned around, and where those
// lie follows from the graphs before it. So the chain is walked without running it, once for each
// such place that traffic can come to, until all of them have their graphs.
//
// Threads: under the lane's lock.

#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/session_warming.h"

#include "graphs/call/call_shape.h"
#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// The padded shape of each step. Errors: as SessionWarming::Warm for what it checks beforehand.
absl::StatusOr<std::vector<CallShape>> CheckChain(const SessionParts& parts,
                                                  std::span<const WarmStep> chain,
                                                  const WarmOptions& options);

// Warms up and records what the chain needs. Waits for the device. Errors: as SessionWarming::Warm.
absl::Status WarmChain(const SessionParts& parts,
                       std::span<const WarmStep> chain,
                       std::span<const CallShape> shapes,
                       const WarmOptions& options,
                       Lane& lane);

}  // namespace coppice::internal
