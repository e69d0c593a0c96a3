// Graphs of equal nodes, each after the one before it, as the surveys weigh them.
//
// Threads: one at a time.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/graph.h"

#include "tools/probe/probe_kernels.h"
#include "tools/probe/subject.h"

namespace coppice {

enum class NodeKind : uint8_t {
  kKernel,
  kBulkKernel,
  kMemcpy,
  kMemset,
  kEmpty,
  kHost,
  kChild,  // A graph of one kernel node.
};

inline constexpr std::array kNodeKinds = {
    NodeKind::kKernel, NodeKind::kBulkKernel, NodeKind::kMemcpy, NodeKind::kMemset,
    NodeKind::kEmpty,  NodeKind::kHost,       NodeKind::kChild};

const char* NameOf(NodeKind kind);

struct GraphShape {
  NodeKind kind = NodeKind::kKernel;
  int64_t nodes = 1;
  int64_t value = 0;  // What kernels of kind kKernel store.
};

// The parameters of a kernel node that stores `value`. The driver copies them at the call.
class TouchNode {
 public:
  TouchNode(const Subject& subject, int64_t value);
  TouchNode(const TouchNode&) = delete;
  TouchNode& operator=(const TouchNode&) = delete;

  const CuKernelNodeParams& params() const { return params_; }

 private:
  TouchParams values_;
  void* arguments_[1];
  CuKernelNodeParams params_;
};

// Where a node goes, and what it is.
struct NodePlace {
  CuGraph graph = nullptr;
  const CuGraphNode* dependency = nullptr;  // One node, or null.
  int64_t value = 0;
  CuGraph child = nullptr;  // Of kind kChild.
};

absl::Status AddNode(const Subject& subject,
                     NodeKind kind,
                     const NodePlace& place,
                     CuGraphNode* node);

struct ShapedGraph {
  Graph graph;
  std::vector<CuGraphNode> nodes;  // In the order of their making.
};

absl::StatusOr<ShapedGraph> MakeGraph(const Subject& subject, const GraphShape& shape);

}  // namespace coppice
