// What the calls of each graph of a trace launched, by the package that was traced.
//
// Most calls replay the grids that were recorded. A replay at exact sizes has its own, and so has
// any replay of a node that shares the executable of another one: the package says which.
//
// Units: blocks. Threads: pure functions of what they are given.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/package.h"

#include "tools/prof/export/kernel_blocks.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

// Calls by their real sizes.
using CallCounts = std::map<std::vector<int64_t>, int64_t>;

// The replays of a node.
struct NodeCalls {
  CallCounts padded;
  CallCounts exact;
};

// One launch of a node.
struct KernelUse {
  const TracedKernel* kernel = nullptr;
  std::optional<KernelOrigin> origin;
  double launched = 0;            // Blocks, in all calls,
  bool all_known = true;          // if their grids are known.
  double needed = 0;              // Of those, by the sizes of the calls. Only with an origin.
  double needed_as_recorded = 0;  // The same, in calls with the grid of `kernel`.
};

// Calls whose grids are not those that were recorded.
struct PatchedCalls {
  std::vector<std::optional<Grid>> grids;  // One per kernel; none: not known.
  std::vector<double> needed;              // Blocks, in all of these calls; one per kernel.
  int64_t calls = 0;
};

struct NodeUse {
  const TracedNode* executable = nullptr;  // The node whose kernels it launches.
  std::vector<KernelUse> kernels;
  std::vector<PatchedCalls> patched;
  int64_t recorded_calls = 0;  // With the grids that were recorded.

  int64_t calls() const;
};

class NodeUses {
 public:
  // The trace and the package outlive this object. Null: no package is known.
  NodeUses(const PoolTrace& trace, const package::Package* package)
      : trace_(trace), package_(package) {}

  // What the calls of a node launched. Errors: as OriginsOf and LaunchesAt. Cost: a walk
  // over the program for each size; for a node that shares an executable, two more for each node
  // that may have it.
  absl::StatusOr<NodeUse> Of(const TracedNode& node, const NodeCalls& calls) const;

  // Whether the package has any program of the trace.
  bool HasAny() const;

 private:
  absl::StatusOr<NodeUse> SharedBy(const TracedNode& node, int index) const;
  int IndexOf(const std::string& program) const;

  const PoolTrace& trace_;
  const package::Package* const package_;
};

}  // namespace coppice
