// How many blocks a package's kernels launch, and how many the sizes of the calls need.
//
// A kernel launched at its bucket has blocks for the padded sizes. The package says how many blocks
// the same step launches at the sizes of a call; the others compute padding only. If a kernel loops
// over rows inside its blocks, it computes padding that this does not count.
//
// Units: blocks. Threads: pure functions.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/manifest.h"

#include "tools/prof/pool_trace.h"

namespace coppice {

// The step that launched a kernel of a node.
struct KernelOrigin {
  std::vector<int> path;  // Steps: of the program, of the child that this one calls, and so on.
  std::string program;    // The program of the last one ...
  std::string kernel;     // ... which launches this kernel, by its name in the package.
  std::string source;     // "model.py:31"; empty: the package does not say it.
  int target = 0;         // Of the kernel's targets.
};

// One per kernel of the node, in its order; none for kernels that the package does not have, such
// as coppice's own. Errors: kInvalidArgument a kernel that the program launches at the node's
// bucket is not among the node's: the package is not that of the trace.
absl::StatusOr<std::vector<std::optional<KernelOrigin>>> OriginsOf(
    const package::Manifest& manifest,
    int program,
    const TracedNode& node,
    const std::map<std::string, int64_t>& sizes);

using Grid = std::array<int64_t, 3>;

// The blocks of a grid; INT64_MAX if there are more.
int64_t BlockCount(const Grid& grid);

// What the same steps launch at other sizes.
struct SizedLaunches {
  std::vector<std::optional<Grid>> grids;  // One per origin; none: its step launches nothing here.
  bool same_steps = true;  // Whether exactly the steps of the origins launch something.
};

// `sizes` has a value for each symbol and each scalar of the key, by name. Errors: kInvalidArgument
// arithmetic of the package without a value there.
absl::StatusOr<SizedLaunches> LaunchesAt(const package::Manifest& manifest,
                                         int program,
                                         const std::vector<std::optional<KernelOrigin>>& origins,
                                         const std::map<std::string, int64_t>& sizes);

}  // namespace coppice
