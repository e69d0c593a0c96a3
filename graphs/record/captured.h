// What is recorded of a run before it is a node: its graphs, and the plan of their memory. Private
// to graphs/.
//
// Threads: plain values, but for the drivers' handles.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/planner.h"
#include "coppice/base/tensor.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/graph.h"

#include "graphs/capture/audit.h"
#include "graphs/capture/segmented_capture.h"
#include "graphs/lane/lane_memory.h"
#include "graphs/node/allocation_script.h"
#include "graphs/node/exact_sizes.h"
#include "graphs/node/region.h"
#include "graphs/record/run_context.h"
#include "graphs/steps/family.h"

namespace coppice::internal {

// Where a recording's memory comes from, and what goes before the program in its graph.
struct RecordTarget {
  // Makes that many bytes usable and returns where they begin. Called before each capture.
  std::function<absl::StatusOr<DeviceAddress>(int64_t height)> reserve;
  std::function<absl::Status(CuStream stream)> prologue;  // Null: nothing.
};

// What is recorded, and how it is planned.
struct CaptureRequest {
  const Driver& driver;
  LaneMemory& memory;
  const RunRequest& run;
  const AllocationScript script;     // Of the run's layout.
  const std::vector<Region>& live;   // Planned around these,
  const Plan* chain_plan = nullptr;  // or its part of a chain's plan, unless null.
  bool audit = false;
  // Of a program that runs at exact sizes: what others of its nodes have there. Else null.
  const std::vector<ExactPeer>* peers = nullptr;
};

// Graphs of one run, and the plan that their addresses are from.
struct Captured {
  std::vector<SegmentedCapture::Piece> pieces;
  Graph::Topology topology;  // Of all pieces.
  std::vector<Tensor> outputs;
  PlannerResult planned;
  std::vector<Buffer> buffers;  // What was planned, without the live regions behind them.
  bool serial = false;          // Nodes wait for each other for the plan's sake alone.
  KernelNodes kernels;          // With an audit.
  FamilySteps steps;            // Of a program that runs at exact sizes,
  FamilyUse family;             // unless it has the same nodes as this one: then no graph.
  // The peer whose plan and buffers these are; null: they are its own.
  const ExactPeer* peer = nullptr;
};

// True for the failure of a program under recording that says nothing about it: memory may be there
// next time, and after a sticky error nothing works.
bool BlamesTheDevice(const absl::Status& ran);

// Plans `buffers` around what is live, or as their chain was planned. Errors: as PlanBuffers.
absl::StatusOr<PlannerResult> PlanFor(const CaptureRequest& request,
                                      const std::vector<Buffer>& buffers,
                                      bool of_chain);

}  // namespace coppice::internal
