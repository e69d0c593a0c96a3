// Graphs under construction: by the calls that add nodes, and by captures.
//
// Threads: under the emulator's mutex.

#pragma once

#include <cstddef>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/state.h"

namespace coppice::emulator {

// An empty graph, to which `capture` writes; null if none does.
CuGraph NewGraph(State& state, Capture* capture);
CuGraphNode AddNode(State& state, GraphState& graph, GraphNode node);
void RemoveGraph(State& state, CuGraph graph);

// Turns dependency handles into indices. They have to be nodes of `graph`, each once.
CuResult FindDependencies(const State& state,
                          const GraphState& graph,
                          const CuGraphNode* dependencies,
                          size_t count,
                          std::vector<int>* indices);

}  // namespace coppice::emulator
