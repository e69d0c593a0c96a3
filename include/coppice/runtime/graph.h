// Move-only owners of CUDA graphs, and the scope that captures a stream into one.
//
// A Graph is the editable description, a GraphExec its launchable snapshot. A Capture begins in
// thread-local mode, so it cannot break work of other threads. It ends on every path out of its
// scope.
//
// Threads: one thread at a time per object; CUDA synchronises none of them. Every owner keeps a
// reference to its Driver, which must outlive it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

namespace coppice {

// A directed edge between positions in Graph::Topology::nodes.
struct GraphEdge {
  int from = 0;
  int to = 0;
  friend bool operator==(const GraphEdge&, const GraphEdge&) = default;
};

// What a kernel node launches. Equal nodes in two recordings of one program do the same.
struct KernelNode {
  std::string name;                                // The kernel's name in the driver.
  std::vector<std::vector<std::byte>> parameters;  // Each by value, padding included.
  std::array<unsigned, 3> grid = {1, 1, 1};        // Blocks.
  std::array<unsigned, 3> block = {1, 1, 1};       // Threads.
  unsigned shared_bytes = 0;                       // Dynamic shared memory.
  bool cooperative = false;
  std::array<unsigned, 3> cluster = {1, 1, 1};  // Blocks.
  friend bool operator==(const KernelNode&, const KernelNode&) = default;
};

// What a node of a graph does, as far as all drivers can report it.
struct GraphNodeInfo {
  CuGraphNodeType type = CuGraphNodeType::kEmpty;
  std::optional<KernelNode> launch;  // Only for a kernel node; without its parameters.
};

// "kernel", "memcpy", "memset", "host", "child", "empty", "event wait", "event record"; "other" for
// other types.
const char* NameOf(CuGraphNodeType type);

class Graph {
 public:
  struct Topology {
    std::vector<CuGraphNode> nodes;  // In the driver's order.
    std::vector<GraphEdge> edges;

    // True if the nodes form one chain, so that every node is ordered with every other. An empty
    // graph and a single node are chains.
    bool IsChain() const;
  };

  static absl::StatusOr<Graph> Create(const Driver& driver);
  // Takes ownership of `handle`, which may be null (an empty owner).
  Graph(const Driver& driver, CuGraph handle) : driver_(&driver), handle_(handle) {}
  Graph(Graph&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;
  ~Graph();

  CuGraph handle() const { return handle_; }

  // Nodes and edges. Cost: O(nodes + edges), four driver calls; allocates.
  absl::StatusOr<Topology> GetTopology() const;

  // The kernel nodes, in the order of Topology::nodes, with nullopt for nodes of other types. Nodes
  // inside child graphs are not included. Runs in a RelaxedCaptureScope.
  //
  // Errors: kUnimplemented if the driver is older than CUDA 12.4 and cannot report the sizes of
  // parameters, or if a kernel was launched with all parameters in one buffer. Cost: nine driver
  // calls per kernel node and one per parameter; allocates.
  absl::StatusOr<std::vector<std::optional<KernelNode>>> GetKernelNodes() const;

  // All nodes, in the order of Topology::nodes. Nodes inside child graphs are not included. Runs in
  // a RelaxedCaptureScope. Cost: four driver calls, and one per node, up to four for a kernel;
  // allocates.
  absl::StatusOr<std::vector<GraphNodeInfo>> GetNodes() const;

 private:
  const Driver* driver_;
  CuGraph handle_;
};

class GraphExec {
 public:
  // Instantiates `graph`. Errors: kInvalidArgument if the graph has a cycle; kResourceExhausted.
  static absl::StatusOr<GraphExec> Instantiate(const Driver& driver, CuGraph graph);
  static absl::StatusOr<GraphExec> Instantiate(const Driver& driver, const Graph& graph) {
    return Instantiate(driver, graph.handle());
  }
  GraphExec(GraphExec&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)) {}
  GraphExec& operator=(GraphExec&&) = delete;
  ~GraphExec();  // Runs in a RelaxedCaptureScope.

  // Does now what the first launch would otherwise do. Ordered in `stream`.
  absl::Status Upload(CuStream stream) const;

  CuGraphExec handle() const { return handle_; }
  // The same executable, for launches while this owner lives.
  GraphExec Borrow() const { return GraphExec(nullptr, handle_); }

 private:
  GraphExec(const Driver* driver, CuGraphExec handle) : driver_(driver), handle_(handle) {}

  const Driver* driver_;  // Null: the handle is borrowed.
  CuGraphExec handle_;
};

class Capture {
 public:
  // Begins a thread-local capture on `stream`. Errors: kAborted if the stream captures already.
  static absl::StatusOr<Capture> Begin(const Driver& driver, CuStream stream);
  Capture(Capture&& other) noexcept
      : driver_(other.driver_), stream_(std::exchange(other.stream_, nullptr)) {}
  Capture& operator=(Capture&&) = delete;
  ~Capture();  // Ends a capture that End() did not, and drops its graph.

  // Ends the capture, even if it returns an error. Errors: kAborted if it was invalidated or a fork
  // was not joined.
  absl::StatusOr<Graph> End();

  // Nodes captured so far, in the driver's order. Errors: kAborted if the capture was invalidated.
  absl::StatusOr<std::vector<CuGraphNode>> Nodes() const;

 private:
  Capture(const Driver& driver, CuStream stream) : driver_(&driver), stream_(stream) {}

  const Driver* driver_;
  CuStream stream_;  // Null once ended or moved from.
};

// Adds a copy of `child` as one node to what `stream` captures. It runs after what the stream has
// captured so far and before what it captures later. This is how recorded work gets into an
// application's capture, because a capture does not allow the launch of a graph.
//
// Errors: kFailedPrecondition if the stream does not capture; kAborted if its capture was
// invalidated. After an error of a driver call the capture may hold the child without its
// dependencies, so its graph must not be launched. Cost: three driver calls; allocates only in the
// driver.
absl::Status AddChildToCapture(const Driver& driver, CuStream stream, CuGraph child);
inline absl::Status AddChildToCapture(const Driver& driver, CuStream stream, const Graph& child) {
  return AddChildToCapture(driver, stream, child.handle());
}

// Checks that a graph made by other code may be a child. Errors: kInvalidArgument if one of its
// nodes allocates or frees memory or is conditional, which a child must not have; otherwise the
// driver's. Runs in a RelaxedCaptureScope. Cost: two driver calls and one per node; allocates.
absl::Status CheckChild(const Driver& driver, CuGraph graph);

}  // namespace coppice
