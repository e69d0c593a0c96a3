// Flattens graphs into snapshots.

#include "runtime/emulator/snapshot.h"

#include <algorithm>
#include <utility>

namespace coppice::emulator {
namespace {

// Flattens a graph into a snapshot: a child's nodes take the place of the child node.
class Flattener {
 public:
  explicit Flattener(Snapshot* snapshot) : snapshot_(*snapshot) {}

  // Appends a whole graph. Returns where its own nodes are, children left out.
  absl::flat_hash_map<CuGraphNode, int> AppendGraph(std::span<const GraphNode> nodes,
                                                    std::span<const CuGraphNode> handles) {
    absl::flat_hash_map<CuGraphNode, int> places;
    const std::vector<std::vector<int>> ends = AppendAll(nodes, {});
    for (size_t i = 0; i < ends.size(); ++i)
      if (!std::holds_alternative<ChildWork>(nodes[i].work))
        places.emplace(handles[i], ends[i].front());
    return places;
  }

 private:
  // Appends `nodes`, whose roots depend on `before`. Returns the nodes that none of them precedes,
  // or `before` if there are none. Indices are the snapshot's.
  std::vector<int> AppendChild(std::span<const GraphNode> nodes, const std::vector<int>& before) {
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
  std::vector<std::vector<int>> AppendAll(std::span<const GraphNode> nodes,
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
    snapshot_.is_declared &= snapshot_.nodes.back().task.is_declared();
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

}  // namespace

void Snapshot::AddLibrary(CuLibrary library) {
  if (std::find(libraries.begin(), libraries.end(), library) == libraries.end())
    libraries.push_back(library);
}

std::unique_ptr<Snapshot> TakeSnapshot(std::span<const GraphNode> nodes,
                                       std::span<const CuGraphNode> handles,
                                       absl::flat_hash_map<CuGraphNode, int>* places) {
  auto snapshot = std::make_unique<Snapshot>();
  *places = Flattener(snapshot.get()).AppendGraph(nodes, handles);
  snapshot->is_chain = IsChain(*snapshot);
  return snapshot;
}

}  // namespace coppice::emulator
