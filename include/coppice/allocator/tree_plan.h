// Joint plans for chains and trees of programs whose buffers and lifetimes are all known.
//
// A node runs after its parent, and reads outputs of its ancestors in place. Siblings are
// alternatives: only one of them runs, and it never sees what another one wrote. The nodes become
// one problem for the planner, one after another, depth first. An output lives in its own node and
// in those descendants for which it stays live, but not in other branches. So its lifetime has
// gaps, in which other buffers use its bytes.
//
//   root ─► a ─► b        time:   root   a   b   c
//      └──► c             lifetime of an output of a:  ├───┤
//                         of the root, one level:  ├──────┤   ├───┤
//
// Planning all nodes together helps if outputs die before the end. If they live to the end,
// planning node by node is as good: call PlanBuffers with the live outputs as fixed buffers, and
// the node's own outputs as low ones.
//
// Units: bytes and steps. Threads: any; no device. Deterministic, like PlanBuffers.

#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"
#include "coppice/allocator/planner.h"

namespace coppice {

struct TreeOutput {
  static constexpr int kToTheEnd = std::numeric_limits<int>::max();

  size_t buffer = 0;       // Index into its node's buffers; it lives at least to the node's end.
  int levels = kToTheEnd;  // Levels of descendants that it stays live for: 1 is the children; >= 0.
  // The step before which it dies, in descendants of the last of these levels: >= 1.
  int64_t last_steps = std::numeric_limits<int64_t>::max();
};

struct TreeNode {
  int parent = -1;              // Index of an earlier node; -1: a root.
  std::vector<Buffer> buffers;  // Lifetimes in steps of this node, from 0.
  std::vector<TreeOutput> outputs;
};

struct TreePlan {
  std::vector<Plan>
      nodes;           // One per node, offsets in the same window; heights of own buffers only.
  int64_t height = 0;  // Height of the highest node.
  int64_t bound = 0;   // Max over nodes of the bytes live in it, outputs of ancestors included.
};

// Plans all nodes together, as one problem with `options`.
// Errors: kInvalidArgument  malformed buffers, a parent that is not an earlier node, an output that
//                           is not a buffer of its node, negative levels, last steps below 1, 2^63
//                           steps or more.
// Cost: that of PlanBuffers for all buffers, twice if the bound is missed; plus O(nodes * depth).
absl::StatusOr<TreePlan> PlanTree(std::span<const TreeNode> nodes,
                                  const PlannerOptions& options = {});

}  // namespace coppice
