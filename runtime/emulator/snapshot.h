// A snapshot: what launches of an executable graph run.
//
// Threads: guarded by the emulator's mutex.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/work.h"

namespace coppice::emulator {

// Child graphs are flattened, and dependencies turned into successors.
struct Snapshot {
  struct Node {
    Task task;
    std::vector<int> successors;
    int dependency_count = 0;
  };

  std::vector<Node> nodes;             // Every node after its dependencies.
  std::vector<int> roots;              // Nodes without dependencies.
  bool is_chain = false;               // Each node depends on the one before, and on no other.
  std::vector<CuLibrary> libraries;    // Whose kernels it runs, each once.
  std::vector<int> host_source_nodes;  // Copies from host memory, ascending.
  bool has_host_work = false;
  bool is_declared = true;          // Whether every task is.
  uint64_t checked_generation = 0;  // Of memory, when its nodes were last found to be in order.
  int queued_launches = 0;

  void AddLibrary(CuLibrary library);
};

// A snapshot of the graph that has `nodes`, whose handles are `handles`. `places` becomes where
// they are in it, children left out.
std::unique_ptr<Snapshot> TakeSnapshot(std::span<const GraphNode> nodes,
                                       std::span<const CuGraphNode> handles,
                                       absl::flat_hash_map<CuGraphNode, int>* places);

}  // namespace coppice::emulator
