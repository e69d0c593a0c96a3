// A graph made node by node, with an edge where the bytes that steps touch ask for an order, or
// between each node and the next.
// Private to graphs/.
//
// Nothing is captured, but for the work of libraries, which becomes a child graph, or an empty node
// if there was nothing to do. A programmatic launch has plain edges here, which are always right.
//
// Units: bytes; nodes by number, in the order in which they were added. Threads: one.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/graph.h"

#include "graphs/program/step_source.h"
#include "graphs/steps/touch_order.h"

namespace coppice::internal {

enum class NodeOrder : uint8_t {
  kByBytes,  // A node waits for those whose bytes it touches: TouchOrder.
  kSerial,   // A node waits for the one before it.
};

class GraphBuilder final : public StepSink {
 public:
  // Work of libraries is captured on `stream`. Both outlive it. Requires: the calling thread's
  // context is that of the stream.
  static absl::StatusOr<GraphBuilder> Create(const Driver& driver,
                                             CuStream stream,
                                             NodeOrder node_order);

  // Each adds a node. Errors: as the same step on a stream; kFailedPrecondition work that cannot be
  // captured; kInvalidArgument work that launched nothing on the stream, unless it may be nothing.
  absl::Status Launch(const KernelLaunch& launch, std::span<const Touch> touched) override;
  absl::Status Fill(const MemoryFill& fill, std::span<const Touch> touched) override;
  absl::Status Copy(const MemoryCopy& copy, std::span<const Touch> touched) override;
  absl::Status Work(LibraryWork work, std::span<const Touch> touched) override;

  // Whether it failed because of work that launched nothing: that is wrong without a graph, too,
  // where nobody sees it.
  bool missed_work() const { return missed_work_; }
  int node_count() const { return static_cast<int>(topology_.nodes.size()); }

  Graph TakeGraph() { return std::move(graph_); }
  Graph::Topology TakeTopology() { return std::move(topology_); }

 private:
  GraphBuilder(
      const Driver& driver, CuStream stream, NodeOrder node_order, CuContext context, Graph graph)
      : driver_(&driver),
        stream_(stream),
        node_order_(node_order),
        context_(context),
        graph_(std::move(graph)) {}

  // The nodes that the next one, which touches these bytes, waits for.
  std::span<const CuGraphNode> Before(std::span<const Touch> touched);
  absl::Status SetAttributes(CuGraphNode node, const LaunchShape& shape) const;

  const Driver* driver_;
  CuStream stream_;
  NodeOrder node_order_;
  CuContext context_;
  Graph graph_;
  TouchOrder order_;
  Graph::Topology topology_;
  std::vector<CuGraphNode> before_;
  bool missed_work_ = false;
};

}  // namespace coppice::internal
