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

// Gives a node of an exec, which it has at `index`, other work of the same kind; launches that are
// queued keep what they had.
void ChangeWork(State& state, ExecState& exec, int index, Work work);

// Turns dependency handles into indices. They have to be nodes of `graph`, each once.
CuResult FindDependencies(const State& state,
                          const GraphState& graph,
                          const CuGraphNode* dependencies,
                          size_t count,
                          std::vector<int>* indices);

}  // namespace coppice::emulator
