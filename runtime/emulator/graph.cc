// Nodes, and the handles that stand for them.

#include "runtime/emulator/graph.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace coppice::emulator {

CuGraph NewGraph(State& state, Capture* capture) {
  auto graph = std::make_unique<GraphState>();
  GraphState& added = *graph;
  added.capture = capture;
  return added.handle = state.graphs.Insert(std::move(graph));
}

CuGraphNode AddNode(State& state, GraphState& graph, GraphNode node) {
  auto place = std::make_unique<NodeState>();
  *place = {.graph = &graph, .index = static_cast<int>(graph.nodes.size())};
  graph.nodes.push_back(std::move(node));
  graph.node_handles.push_back(state.nodes.Insert(std::move(place)));
  return graph.node_handles.back();
}

void RemoveGraph(State& state, CuGraph graph) {
  const std::unique_ptr<GraphState> removed = state.graphs.Take(graph);
  for (const CuGraphNode node : removed->node_handles)
    state.nodes.Take(node);
}

CuResult FindDependencies(const State& state,
                          const GraphState& graph,
                          const CuGraphNode* dependencies,
                          size_t count,
                          std::vector<int>* indices) {
  if (dependencies == nullptr && count > 0) return CuResult::kInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    const NodeState* const node = state.nodes.Find(dependencies[i]);
    if (node == nullptr) return CuResult::kInvalidHandle;
    if (node->graph != &graph ||
        std::find(indices->begin(), indices->end(), node->index) != indices->end())
      return CuResult::kInvalidValue;
    indices->push_back(node->index);
  }
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
