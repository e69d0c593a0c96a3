// Runs of a callable: eagerly, with or without a trace, and under capture. Private to graphs/.
//
// A warm-up traces the program's allocations; the trace becomes lifetimes, the lifetimes a plan;
// the recording answers the same requests, in the same order, from the plan.
//
// Threads: RunEagerly under the lane's lock. Record needs no lock: what it reads of the lane and of
// the trace does not change, and nobody else touches its node.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/planner.h"
#include "coppice/graphs/program.h"

#include "graphs/audit.h"
#include "graphs/lane.h"
#include "graphs/node.h"
#include "graphs/run_context.h"

namespace coppice::internal {

// Runs the callable once on `request.stream`, with memory of the lane's eager window. On success
// the outputs are described by `outputs` and `allocations` are those of their bytes that are live
// in that window; on failure nothing is. With `trace`, writes the allocations there.
absl::Status RunEagerly(Lane& lane,
                        const RunRequest& request,
                        Phase phase,
                        OutputTable& outputs,
                        std::vector<DeviceAddress>& allocations,
                        Trace* trace);

// Where a recording's memory comes from, and what goes before the program in its graph.
struct RecordTarget {
  // Makes that many bytes usable and returns where they begin. Called before each capture.
  std::function<absl::StatusOr<DeviceAddress>(int64_t height)> reserve;
  std::function<absl::Status(CuStream stream)> prologue;  // Null: nothing.
};

// A captured program and the plan that its addresses are from.
struct Recording {
  std::vector<SegmentedCapture::Piece> pieces;
  Graph::Topology topology;  // Of all pieces.
  NodeMarks marks;
  std::vector<Tensor> outputs;
  PlannerResult planned;
  std::vector<Buffer> buffers;  // What was planned, without the live regions behind them.
  KernelNodes kernels;          // With an audit.
};

// The buffers of a trace, with lifetimes in units of its events: right where the graph is a chain,
// because a buffer's kernels are launched between its allocation and its release.
std::vector<Buffer> BuffersOf(const Trace& trace);

// Plans the buffers of a program around the live regions, which are behind them in the plan.
absl::StatusOr<PlannerResult> PlanAround(std::vector<Buffer> buffers,
                                         const std::vector<Region>& live);

// Plans `trace` around the live regions, or takes its part of a chain's plan unless that is null;
// captures the callable on `request.stream`, and validates
// the plan against the graph's edges. With `audit`, captures once more with other values of what is
// not in the key.
//
// Errors: kAborted             the capture was invalidated from outside;
//         kResourceExhausted   the plan does not fit the window or the device;
//         kFailedPrecondition  the program cannot be recorded: it failed, or departed from its
//                              trace;
//         kInvalidArgument     the audit found a parameter that depends on something else;
//         otherwise the driver's.
absl::StatusOr<Recording> PlanAndCapture(Lane& lane,
                                         const RunRequest& request,
                                         const Trace& trace,
                                         const std::vector<Region>& live,
                                         const RecordTarget& target,
                                         bool audit,
                                         const Plan* chain_plan = nullptr);

// Whether a recording holds its lane's lock, and may so make room in the budget.
enum class LaneLock : uint8_t { kHeld, kFree };

// Records `node`, which knows its key and layout, as graphs in the lane's node window, planned
// around its surroundings, or as `chain_plan` says unless that is null. On success the node is
// complete and its graphs are charged; on failure it is as before. Errors: as PlanAndCapture;
// kResourceExhausted also if the budget has no room.
absl::Status Record(Lane& lane,
                    const RunRequest& request,
                    const Trace& trace,
                    bool audit,
                    LaneLock lock,
                    const Plan* chain_plan,
                    Node& node);

// Captures an audited node's program once more, at a later call, and drops the result: the last
// part of the audit, for what changes between calls. Errors: as PlanAndCapture.
absl::Status AuditAgain(Lane& lane, const RunRequest& request, const Trace& trace, Node& node);

}  // namespace coppice::internal
