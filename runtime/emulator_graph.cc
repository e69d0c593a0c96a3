// Graphs and the snapshots that launches run.

#include <algorithm>
#include <type_traits>

#include "emulator_state.h"

namespace coppice::emulator {
namespace {

// Flattens a graph into a snapshot: a child's nodes take the place of the child node.
class Flattener {
 public:
  explicit Flattener(Snapshot* snapshot) : snapshot_(*snapshot) {}

  // Appends a whole graph. Returns where its own nodes are, children left out.
  absl::flat_hash_map<CuGraphNode, int> AppendGraph(const GraphState& graph) {
    absl::flat_hash_map<CuGraphNode, int> places;
    std::vector<std::vector<int>> ends = AppendAll(graph.nodes, {});
    for (size_t i = 0; i < ends.size(); ++i)
      if (!std::holds_alternative<ChildWork>(graph.nodes[i].work))
        places.emplace(graph.node_handles[i], ends[i].front());
    return places;
  }

 private:
  // Appends `nodes`, whose roots depend on `before`. Returns the nodes that none of them precedes,
  // or `before` if there are none. Indices are the snapshot's.
  std::vector<int> AppendChild(const std::vector<GraphNode>& nodes,
                               const std::vector<int>& before) {
    if (nodes.empty()) return before;
    const std::vector<std::vector<int>> ends = AppendAll(nodes, before);
    std::vector<bool> is_last(nodes.size(), true);
    for (const GraphNode& node : nodes)
      for (const int dependency : node.dependencies)
        is_last[dependency] = false;
    std::vector<int> last;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (is_last[i]) last.insert(last.end(), ends[i].begin(), ends[i].end());
    return last;
  }

  // The same; returns, by node, what stands for it as a dependency.
  std::vector<std::vector<int>> AppendAll(const std::vector<GraphNode>& nodes,
                                          const std::vector<int>& before) {
    std::vector<std::vector<int>> ends;
    for (const GraphNode& node : nodes) {
      std::vector<int> dependencies = node.dependencies.empty() ? before : std::vector<int>();
      for (const int dependency : node.dependencies)
        dependencies.insert(dependencies.end(), ends[dependency].begin(), ends[dependency].end());
      ends.push_back(AppendNode(node.work, std::move(dependencies)));
    }
    return ends;
  }

  std::vector<int> AppendNode(const Work& work, std::vector<int> dependencies) {
    // An empty child hands on several dependencies, and two of them may share some.
    std::sort(dependencies.begin(), dependencies.end());
    dependencies.erase(std::unique(dependencies.begin(), dependencies.end()), dependencies.end());
    if (const ChildWork* const child = std::get_if<ChildWork>(&work))
      return AppendChild(child->nodes, dependencies);
    const int index = static_cast<int>(snapshot_.nodes.size());
    for (const int dependency : dependencies)
      snapshot_.nodes[dependency].successors.push_back(index);
    if (dependencies.empty()) snapshot_.roots.push_back(index);
    snapshot_.nodes.push_back({.task = Task(work),
                               .successors = {},
                               .dependency_count = static_cast<int>(dependencies.size())});
    if (const auto* const kernel = std::get_if<KernelWork>(&work))
      snapshot_.AddLibrary(kernel->library);
    const auto* const copy = std::get_if<CopyWork>(&work);
    if (copy != nullptr && copy->from_host) snapshot_.host_source_nodes.push_back(index);
    snapshot_.has_host_work |= std::holds_alternative<HostWork>(work);
    return {index};
  }

  Snapshot& snapshot_;
};

bool IsChain(const Snapshot& snapshot) {
  for (size_t i = 0; i < snapshot.nodes.size(); ++i) {
    const Snapshot::Node& node = snapshot.nodes[i];
    const bool is_first = i == 0;
    const bool is_last = i + 1 == snapshot.nodes.size();
    if (node.dependency_count != (is_first ? 0 : 1)) return false;
    if (!is_last && (node.successors.size() != 1 || node.successors[0] != static_cast<int>(i) + 1))
      return false;
  }
  return true;
}

// Where a new node goes, as every GraphAdd entry is told.
struct Place {
  CuGraphNode* node;
  CuGraph graph;
  const CuGraphNode* dependencies;
  size_t dependency_count;
};

// Adds a node whose work `make_work(state, &work)` makes.
template <typename MakeWork>
CuResult Add(const Place& place, MakeWork make_work) {
  State& state = TheState();
  GraphState* const graph = state.graphs.Find(place.graph);
  if (graph == nullptr) return CuResult::kInvalidHandle;
  if (place.node == nullptr) return CuResult::kInvalidValue;
  GraphNode node{.work = EmptyWork{}, .dependencies = {}};
  CuResult result = FindDependencies(state, *graph, place.dependencies, place.dependency_count,
                                     &node.dependencies);
  if (result == CuResult::kSuccess) result = make_work(state, &node.work);
  if (result == CuResult::kSuccess) *place.node = AddNode(state, *graph, std::move(node));
  return result;
}

// The exec and the stream of a launch or an upload.
struct LaunchTarget {
  ExecState* exec = nullptr;
  StreamState* stream = nullptr;
};

CuResult FindLaunchTarget(State& state, CuGraphExec exec, CuStream stream, LaunchTarget* target) {
  *target = {.exec = state.execs.Find(exec), .stream = state.scheduler.Find(stream)};
  if (target->exec == nullptr || target->stream == nullptr) return CuResult::kInvalidHandle;
  for (const CuLibrary library : target->exec->snapshot->libraries)
    if (state.libraries.Find(library) == nullptr) return CuResult::kInvalidHandle;
  return RefuseCapturing(state, *target->stream);
}

// Queues `body` behind the exec's last launch and makes it the last.
CuResult EnqueueLaunch(State& state, const LaunchTarget& target, Body body) {
  ExecState& exec = *target.exec;
  state.scheduler.Push(*target.stream, std::exchange(exec.last_launch, {}), std::move(body));
  exec.last_launch = target.stream->end();
  return state.scheduler.RunQueued();
}

// Copies `values` to `target` the way graph queries do: a null target asks for the count, a longer
// one is filled up with nulls.
void CopyOut(const std::vector<CuGraphNode>& values, CuGraphNode* target, size_t capacity) {
  if (target == nullptr) return;
  for (size_t i = 0; i < capacity; ++i)
    target[i] = i < values.size() ? values[i] : nullptr;
}

size_t CountOut(size_t available, bool asks_for_count, size_t capacity) {
  return asks_for_count ? available : std::min(available, capacity);
}

}  // namespace

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

void Snapshot::AddLibrary(CuLibrary library) {
  if (std::find(libraries.begin(), libraries.end(), library) == libraries.end())
    libraries.push_back(library);
}

std::unique_ptr<Snapshot> TakeSnapshot(const GraphState& graph,
                                       absl::flat_hash_map<CuGraphNode, int>* places) {
  auto snapshot = std::make_unique<Snapshot>();
  *places = Flattener(snapshot.get()).AppendGraph(graph);
  snapshot->is_chain = IsChain(*snapshot);
  return snapshot;
}

// Driver entries: graphs.

CuResult GraphCreate(CuGraph* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return CuResult::kInvalidValue;
  *graph = NewGraph(TheState(), nullptr);
  return CuResult::kSuccess;
}

CuResult GraphDestroy(CuGraph graph) {
  State& state = TheState();
  const GraphState* const found = state.graphs.Find(graph);
  if (found == nullptr || found->capture != nullptr) return CuResult::kInvalidHandle;
  RemoveGraph(state, graph);
  return CuResult::kSuccess;
}

CuResult GraphAddKernelNode(CuGraphNode* node,
                            CuGraph graph,
                            const CuGraphNode* dependencies,
                            size_t dependency_count,
                            const CuKernelNodeParams* params) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count}, [params](State& state, Work* work) {
    if (params->context != nullptr && params->context != state.context)
      return CuResult::kInvalidContext;
    return MakeKernelWork(state, *params, work);
  });
}

CuResult GraphAddMemcpyNode(CuGraphNode* node,  // NOLINT(readability-function-size)
                            CuGraph graph,
                            const CuGraphNode* dependencies,
                            size_t dependency_count,
                            const CuMemcpyParams* params,
                            CuContext context) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count},
             [params, context](State& state, Work* work) {
               if (context != state.context) return CuResult::kInvalidContext;
               return MakeCopyWork(state, *params, work);
             });
}

CuResult GraphAddMemsetNode(CuGraphNode* node,  // NOLINT(readability-function-size)
                            CuGraph graph,
                            const CuGraphNode* dependencies,
                            size_t dependency_count,
                            const CuMemsetNodeParams* params,
                            CuContext context) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count},
             [params, context](State& state, Work* work) {
               if (context != state.context) return CuResult::kInvalidContext;
               return MakeFillWork(state, *params, work);
             });
}

CuResult GraphAddHostNode(CuGraphNode* node,
                          CuGraph graph,
                          const CuGraphNode* dependencies,
                          size_t dependency_count,
                          const CuHostNodeParams* params) {
  if (params == nullptr) return CuResult::kInvalidValue;
  return Add({node, graph, dependencies, dependency_count},
             [params](State& /*state*/, Work* work) { return MakeHostWork(*params, work); });
}

CuResult GraphAddChildGraphNode(CuGraphNode* node,
                                CuGraph graph,
                                const CuGraphNode* dependencies,
                                size_t dependency_count,
                                CuGraph child) {
  return Add({node, graph, dependencies, dependency_count},
             [graph, child](State& state, Work* work) {
               const GraphState* const found = state.graphs.Find(child);
               if (found == nullptr) return CuResult::kInvalidHandle;
               if (child == graph || found->capture != nullptr) return CuResult::kInvalidValue;
               *work = ChildWork{.nodes = found->nodes};
               return CuResult::kSuccess;
             });
}

CuResult GraphAddEmptyNode(CuGraphNode* node,
                           CuGraph graph,
                           const CuGraphNode* dependencies,
                           size_t dependency_count) {
  return Add({node, graph, dependencies, dependency_count},
             [](State& /*state*/, Work* /*work*/) { return CuResult::kSuccess; });
}

CuResult GraphGetNodes(CuGraph graph, CuGraphNode* nodes, size_t* count) {
  const GraphState* const found = TheState().graphs.Find(graph);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (count == nullptr) return CuResult::kInvalidValue;
  CopyOut(found->node_handles, nodes, *count);
  *count = CountOut(found->node_handles.size(), nodes == nullptr, *count);
  return CuResult::kSuccess;
}

CuResult GraphGetEdges(
    CuGraph graph, CuGraphNode* from, CuGraphNode* to, CuGraphEdgeData* edge_data, size_t* count) {
  const GraphState* const found = TheState().graphs.Find(graph);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CuResult::kInvalidValue;
  if (from == nullptr && edge_data != nullptr) return CuResult::kInvalidValue;
  std::vector<CuGraphNode> sources;
  std::vector<CuGraphNode> targets;
  for (size_t i = 0; i < found->nodes.size(); ++i) {
    for (const int dependency : found->nodes[i].dependencies) {
      sources.push_back(found->node_handles[dependency]);
      targets.push_back(found->node_handles[i]);
    }
  }
  CopyOut(sources, from, *count);
  CopyOut(targets, to, *count);
  if (edge_data != nullptr) std::fill_n(edge_data, *count, CuGraphEdgeData{});
  *count = CountOut(sources.size(), from == nullptr, *count);
  return CuResult::kSuccess;
}

CuResult GraphNodeGetType(CuGraphNode node, CuGraphNodeType* type) {
  const NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (type == nullptr) return CuResult::kInvalidValue;
  constexpr CuGraphNodeType kTypes[] = {CuGraphNodeType::kKernel, CuGraphNodeType::kMemcpy,
                                        CuGraphNodeType::kMemset, CuGraphNodeType::kHost,
                                        CuGraphNodeType::kEmpty,  CuGraphNodeType::kGraph};
  static_assert(std::size(kTypes) == std::variant_size_v<Work>);  // In the order of Work.
  *type = kTypes[found->graph->nodes[found->index].work.index()];
  return CuResult::kSuccess;
}

CuResult GraphKernelNodeGetParams(CuGraphNode node, CuKernelNodeParams* params) {
  NodeState* const found = TheState().nodes.Find(node);
  if (found == nullptr) return CuResult::kInvalidHandle;
  auto* const work = std::get_if<KernelWork>(&found->graph->nodes[found->index].work);
  if (params == nullptr || work == nullptr) return CuResult::kInvalidValue;
  // The bytes stay where they are when a graph that grows moves its nodes.
  static_assert(std::is_nothrow_move_constructible_v<GraphNode>);
  found->parameters = work->parameters.data();
  *params = {.function = work->function,
             .grid_x = work->grid[0],
             .grid_y = work->grid[1],
             .grid_z = work->grid[2],
             .block_x = work->kernel->block_threads,
             .kernel_params = &found->parameters};
  return CuResult::kSuccess;
}

// Driver entries: execs.

CuResult GraphInstantiateWithFlags(CuGraphExec* exec,
                                   CuGraph graph,
                                   unsigned long long flags) {  // NOLINT(google-runtime-int)
  State& state = TheState();
  const GraphState* const found = state.graphs.Find(graph);
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (exec == nullptr || flags != 0 || found->capture != nullptr) return CuResult::kInvalidValue;
  auto instantiated = std::make_unique<ExecState>();
  instantiated->snapshot = TakeSnapshot(*found, &instantiated->places);
  *exec = state.execs.Insert(std::move(instantiated));
  return CuResult::kSuccess;
}

CuResult GraphUpload(CuGraphExec exec, CuStream stream) {
  State& state = TheState();
  LaunchTarget target;
  const CuResult result = FindLaunchTarget(state, exec, stream, &target);
  if (result != CuResult::kSuccess) return result;
  return EnqueueLaunch(state, target, Task(EmptyWork{}));
}

CuResult GraphLaunch(CuGraphExec exec, CuStream stream) {
  State& state = TheState();
  LaunchTarget target;
  const CuResult result = FindLaunchTarget(state, exec, stream, &target);
  if (result != CuResult::kSuccess) return result;
  Snapshot* const snapshot = target.exec->snapshot.get();
  ++snapshot->queued_launches;
  return EnqueueLaunch(state, target, GraphRun{.snapshot = snapshot});
}

CuResult GraphExecDestroy(CuGraphExec exec) {
  State& state = TheState();
  const std::unique_ptr<ExecState> destroyed = state.execs.Take(exec);
  if (destroyed == nullptr) return CuResult::kInvalidHandle;
  state.scheduler.Retire(std::move(destroyed->snapshot));
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
