// Grids of recorded kernels, and of what the package launches at other sizes.

#include "tools/prof/export/node_uses.h"

#include <algorithm>

#include "coppice/base/status.h"

namespace coppice {
namespace {

using Extents = std::vector<int64_t>;

using Origins = std::vector<std::optional<KernelOrigin>>;

double Blocks(const Grid& grid) {
  return static_cast<double>(BlockCount(grid));
}

int64_t CountOf(const CallCounts& calls) {
  int64_t count = 0;
  for (const auto& [extents, times] : calls)
    count += times;
  return count;
}

std::map<std::string, int64_t> SizesOf(const TracedProgram& program,
                                       const TracedBucket& bucket,
                                       const Extents& extents) {
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < std::min(program.symbols.size(), extents.size()); ++i)
    sizes[program.symbols[i]] = extents[i];
  for (size_t i = 0; i < std::min(program.scalars.size(), bucket.scalars.size()); ++i)
    sizes[program.scalars[i]] = bucket.scalars[i];
  return sizes;
}

Origins OriginsIn(const NodeUse& use) {
  Origins origins;
  for (const KernelUse& each : use.kernels)
    origins.push_back(each.origin);
  return origins;
}

void LaunchAsRecorded(int64_t calls, NodeUse& use) {
  use.recorded_calls = calls;
  for (KernelUse& each : use.kernels)
    each.launched = Blocks(each.kernel->grid) * static_cast<double>(calls);
}

// What the calls of one node launched, by its program in a package.
class NodeWalk {
 public:
  NodeWalk(const PoolTrace& trace,
           const package::Manifest& manifest,
           int index,
           const TracedNode& node)
      : manifest_(manifest),
        index_(index),
        bucket_(trace.buckets[static_cast<size_t>(node.bucket)]),
        program_(trace.programs[static_cast<size_t>(bucket_.program)]) {}

  // Errors: as OriginsOf.
  absl::Status FindOrigins(NodeUse& use) const {
    COPPICE_ASSIGN_OR_RETURN(const Origins origins, OriginsOf(manifest_, index_, *use.executable,
                                                              SizesAt(bucket_.extents)));
    for (size_t i = 0; i < origins.size(); ++i)
      use.kernels[i].origin = origins[i];
    return absl::OkStatus();
  }

  // What an executable with these origins would launch at these sizes. Errors: as LaunchesAt.
  absl::StatusOr<SizedLaunches> At(const Origins& origins, const Extents& extents) const {
    return LaunchesAt(manifest_, index_, origins, SizesAt(extents));
  }

  // Errors: as LaunchesAt.
  absl::Status Add(const NodeCalls& calls, bool has_own_grids, NodeUse& use) const {
    const Origins origins = OriginsIn(use);
    PatchedCalls* padded = nullptr;
    if (has_own_grids) {
      LaunchAsRecorded(CountOf(calls.padded), use);
    } else if (!calls.padded.empty()) {
      COPPICE_ASSIGN_OR_RETURN(const SizedLaunches whole, At(origins, bucket_.extents));
      padded = &Patch(whole, CountOf(calls.padded), use);
    }
    for (const auto& [extents, times] : calls.padded) {
      COPPICE_ASSIGN_OR_RETURN(const SizedLaunches real, At(origins, extents));
      Need(real, times, padded, use);
    }
    for (const auto& [extents, times] : calls.exact) {
      COPPICE_ASSIGN_OR_RETURN(const SizedLaunches real, At(origins, extents));
      Need(real, times, &Patch(real, times, use), use);
    }
    return absl::OkStatus();
  }

 private:
  std::map<std::string, int64_t> SizesAt(const Extents& extents) const {
    return SizesOf(program_, bucket_, extents);
  }

  // Adds calls with these grids. Returns the entry, which the next one may move.
  static PatchedCalls& Patch(const SizedLaunches& launches, int64_t times, NodeUse& use) {
    for (size_t i = 0; i < use.kernels.size(); ++i) {
      if (launches.grids[i])
        use.kernels[i].launched += Blocks(*launches.grids[i]) * static_cast<double>(times);
      else
        use.kernels[i].all_known = false;
    }
    // Many sizes may have the same grids.
    auto same = std::ranges::find(use.patched, launches.grids, &PatchedCalls::grids);
    if (same == use.patched.end())
      same = use.patched.insert(
          same, {.grids = launches.grids, .needed = std::vector<double>(use.kernels.size())});
    same->calls += times;
    return *same;
  }

  // Adds what calls need. Null: they have the grids that were recorded.
  static void Need(const SizedLaunches& real, int64_t times, PatchedCalls* patched, NodeUse& use) {
    for (size_t i = 0; i < use.kernels.size(); ++i) {
      if (!real.grids[i]) continue;
      const double needed = Blocks(*real.grids[i]) * static_cast<double>(times);
      use.kernels[i].needed += needed;
      (patched != nullptr ? patched->needed[i] : use.kernels[i].needed_as_recorded) += needed;
    }
  }

  const package::Manifest& manifest_;
  const int index_;
  const TracedBucket& bucket_;
  const TracedProgram& program_;
};

NodeUse WithKernelsOf(const TracedNode& node) {
  NodeUse use{.executable = &node};
  for (const TracedKernel& kernel : node.kernels)
    use.kernels.push_back({.kernel = &kernel});
  return use;
}

// The grids of exact replays are not known then; those that were recorded are of the same bucket.
NodeUse WithoutPackage(const TracedNode& node, const NodeCalls& calls) {
  NodeUse use = WithKernelsOf(node);
  LaunchAsRecorded(CountOf(calls.padded) + CountOf(calls.exact), use);
  return use;
}

}  // namespace

int64_t NodeUse::calls() const {
  int64_t count = recorded_calls;
  for (const PatchedCalls& each : patched)
    count += each.calls;
  return count;
}

bool NodeUses::HasAny() const {
  return std::ranges::any_of(trace_.programs,
                             [&](const TracedProgram& each) { return IndexOf(each.name) >= 0; });
}

// -1: there is no package, or it does not have the program.
int NodeUses::IndexOf(const std::string& program) const {
  if (package_ == nullptr) return -1;
  const std::vector<package::Program>& programs = package_->manifest().programs;
  const auto found = std::ranges::find(programs, program, &package::Program::name);
  return found == programs.end() ? -1 : static_cast<int>(found - programs.begin());
}

// The executable of a node that has no kernels of its own: that of the first node of its program
// and lane which launches the same steps. Without kernels if there is none.
absl::StatusOr<NodeUse> NodeUses::SharedBy(const TracedNode& node, int index) const {
  const TracedBucket& bucket = trace_.buckets[static_cast<size_t>(node.bucket)];
  const NodeWalk walk(trace_, package_->manifest(), index, node);
  for (const TracedNode& other : trace_.nodes) {
    const TracedBucket& of_other = trace_.buckets[static_cast<size_t>(other.bucket)];
    if (other.kernels.empty() || of_other.program != bucket.program || of_other.lane != bucket.lane)
      continue;
    NodeUse use = WithKernelsOf(other);
    COPPICE_RETURN_IF_ERROR(NodeWalk(trace_, package_->manifest(), index, other).FindOrigins(use));
    COPPICE_ASSIGN_OR_RETURN(const SizedLaunches here, walk.At(OriginsIn(use), bucket.extents));
    if (here.same_steps) return use;
  }
  return WithKernelsOf(node);
}

absl::StatusOr<NodeUse> NodeUses::Of(const TracedNode& node, const NodeCalls& calls) const {
  const int index =
      IndexOf(trace_.programs[static_cast<size_t>(trace_.ProgramOf(node.bucket))].name);
  if (index < 0) return WithoutPackage(node, calls);
  const NodeWalk walk(trace_, package_->manifest(), index, node);
  const bool has_own_grids = !node.kernels.empty();
  NodeUse use = WithKernelsOf(node);
  if (has_own_grids) {
    COPPICE_RETURN_IF_ERROR(walk.FindOrigins(use));
  } else {
    COPPICE_ASSIGN_OR_RETURN(use, SharedBy(node, index));
  }
  COPPICE_RETURN_IF_ERROR(walk.Add(calls, has_own_grids, use));
  return use;
}

}  // namespace coppice
