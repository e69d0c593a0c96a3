// Runs of a callable: eagerly, with or without a script, and under capture. Private to graphs/.
//
// Threads: RunEagerly under the lane's lock. Record needs no lock: what it reads of the lane and of
// the script does not change, and nobody else has its draft.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/planner.h"
#include "coppice/graphs/program.h"

#include "graphs/lane/lane_memory.h"
#include "graphs/node/allocation_script.h"
#include "graphs/node/node.h"
#include "graphs/record/captured.h"
#include "graphs/record/run_context.h"
#include "graphs/trace/tracer.h"

namespace coppice::internal {

// What a run without a graph left: its outputs, and those of their bytes that lie in the lane's
// eager window, which are freed unless somebody takes them.
class EagerOutputs {
 public:
  explicit EagerOutputs(LaneMemory& memory) : memory_(memory) {}
  ~EagerOutputs() {
    for (const DeviceAddress address : allocations_)
      memory_.FreeEager(address);
  }
  EagerOutputs(const EagerOutputs&) = delete;
  EagerOutputs& operator=(const EagerOutputs&) = delete;

  const OutputTable& table() const { return table_; }
  OutputTable TakeTable() { return std::move(table_); }
  std::vector<DeviceAddress> TakeAllocations() { return std::exchange(allocations_, {}); }

  // Runs the callable once on `request.stream`. With `script`, writes the allocations there. On
  // failure there are no outputs.
  absl::Status Run(const Driver& driver,
                   const RunRequest& request,
                   Phase phase,
                   AllocationScript* script);

 private:
  LaneMemory& memory_;
  OutputTable table_;
  std::vector<DeviceAddress> allocations_;
};

// Plans the script; captures the callable on `run.stream`, and validates the plan against the
// graph's edges. With `audit`, captures once more with other values of what is not in the key.
//
// Errors: kAborted             the capture was invalidated from outside;
//         kResourceExhausted   the plan does not fit the window or the device;
//         kUnavailable         the program departed from its script: another warm-up may help;
//         kFailedPrecondition  the program cannot be recorded;
//         kInvalidArgument     the audit found a parameter that depends on something else;
//         otherwise the driver's.
absl::StatusOr<Captured> PlanAndCapture(const CaptureRequest& request, const RecordTarget& target);

// How a node is recorded.
struct RecordRequest {
  const Driver& driver;
  LaneMemory& memory;
  Room& room;  // The lane's own, if its lock is held; else of who takes the lock to make room.
  const RunRequest& run;
  // Where the graphs are uploaded. The driver orders no launch behind that: whoever launches on
  // another stream does. Does not capture.
  CuStream upload_stream = nullptr;
  const Plan* chain_plan = nullptr;  // Its part of a chain's plan; null: planned by itself.
  bool audit = false;
  bool draw = false;
  // Of a program that runs at exact sizes: what others of its nodes have there. Else null.
  const std::vector<ExactPeer>* peers = nullptr;
  Tracer* tracer = nullptr;                // Hears of the node; null: nobody.
  const std::function<int64_t()>& now_ns;  // SessionOptions::now_ns.
};

// Records `draft` as graphs in the lane's plan window, planned around its surroundings. The graphs
// are charged. Errors: as PlanAndCapture; kResourceExhausted also if the budget has no room.
absl::StatusOr<std::unique_ptr<Node>> Record(const RecordRequest& request, const NodeDraft& draft);

// Captures an audited node's program once more, at a later call, and drops the result: the last
// part of the audit, for what changes between calls. Errors: as PlanAndCapture.
absl::Status AuditAgain(const Driver& driver,
                        LaneMemory& memory,
                        const RunRequest& run,
                        Node& node);

}  // namespace coppice::internal
