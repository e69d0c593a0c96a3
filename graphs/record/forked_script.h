// Lifetimes in a graph that forks. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include <vector>

#include "coppice/allocator/plan.h"
#include "coppice/runtime/graph.h"

#include "graphs/node/allocation_script.h"
#include "graphs/record/planned_context.h"

namespace coppice::internal {

// A script's lifetimes in units of graph nodes, for a graph that forks, and the order of the nodes.
struct ForkedScript {
  std::vector<Buffer> buffers;
  StepOrder order;
};

// Numbers the graph's nodes by the event of the script after which they appeared, which is a
// topological order because edges only ever lead to later captured nodes. One step after all of
// them stands for the call's end, when outputs are read.
ForkedScript ForkedScriptOf(const AllocationScript& script,
                            const NodeMarks& marks,
                            const Graph::Topology& topology);

}  // namespace coppice::internal
