// One run of a node's plan in a window, step by step.
//
// Units: bytes, steps. Threads: one at a time per window.

#pragma once

#include <cstdint>
#include <vector>

#include "tools/prof/export/viz_window.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

// What stands for a buffer in a snapshot: places in its frames and labels.
struct VizBuffer {
  int frame = -1;
  int label = -1;
};

struct PlanRun {
  int lane = 0;
  int frame = -1;                  // Of the node.
  std::vector<VizBuffer> buffers;  // By buffer of the node.
  int64_t base = 0;                // The time of step 0.
  int64_t call = -1;               // The call that runs it; -1: any.
  bool passing = false;            // What it goes around is drawn only for as long as it runs.
};

// An output that is there after the last step.
struct PlanLeft {
  int64_t output = 0;
  int64_t offset = 0;
  int64_t token = 0;  // Of the window.
};

// Draws it; frees of a step come before what begins there. What it goes around or is given, and is
// in the window already, stays as it is until its plan ends it.
std::vector<PlanLeft> DrawPlanRun(const TracedNode& node, const PlanRun& run, VizWindow& window);

// One past the last step that a buffer of the node needs; at least 1.
int64_t StepsOf(const TracedNode& node);

// The frame that stands for a node.
VizFrame FrameOf(const PoolTrace& trace, const TracedNode& node);

// Adds to the snapshot what its buffers are called; of those without a name the frame is `frame`,
// the node's. Cost: O(buffers), allocates.
std::vector<VizBuffer> NameBuffers(const TracedNode& node, int frame, VizSnapshot& snapshot);

}  // namespace coppice
