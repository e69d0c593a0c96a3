// Runs of a callable: eagerly, with or without a trace, and under capture. Private to graphs/.
//
// A warm-up traces the program's allocations; the trace becomes lifetimes, the lifetimes a plan;
// the recording answers the same requests, in the same order, from the plan.
//
// Threads: under the lane's lock.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"

#include "graphs/lane.h"
#include "graphs/node.h"

namespace coppice::internal {

// What every run of a callable needs to know about its call.
struct RunRequest {
  const Program* program = nullptr;
  const Binding* binding = nullptr;
  std::span<const int64_t> extents;    // Padded: what the program computes at.
  std::span<const int64_t> scalars;    // In spec order; empty for device-resident-only programs.
  std::span<const StagedCopy> staged;  // Where the copied inputs lie, in spec order.
  CuStream stream = nullptr;
  DeviceAddress workspace = 0;
  int64_t workspace_bytes = 0;
};

// Runs the callable once on `request.stream`, with memory of the lane's eager window. On success
// the outputs' bytes are live in that window and described by `outputs`; on failure nothing is.
// With `trace`, writes the allocations there.
absl::Status RunEagerly(
    Lane& lane, const RunRequest& request, Phase phase, OutputTable& outputs, Trace* trace);

// Records `node`, which is warm, as a graph: plans its trace, grows the window, captures, validates
// the plan against the graph's edges and instantiates. On success the node is complete; on failure
// it is as before.
//
// Errors: kAborted             the capture was invalidated from outside;
//         kResourceExhausted   the plan does not fit the window or the device;
//         kFailedPrecondition  the program cannot be recorded: it failed, or departed from its
//         trace; otherwise the driver's.
absl::Status Record(Lane& lane, const RunRequest& request, Node& node);

}  // namespace coppice::internal
