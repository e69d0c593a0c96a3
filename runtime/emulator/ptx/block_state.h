// What the warps of a resident block share.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/emulator/ptx/shadow.h"

namespace coppice::ptx {

class Warp;
struct AsyncWork;
struct BlockState;

// What the blocks of a cluster know of each other.
class ClusterState {
 public:
  std::vector<BlockState*> members;  // By rank.

  // How often the barrier has opened.
  uint64_t phase() const { return phase_; }
  // So many threads arrive at the barrier, which opens once all have that have not exited.
  virtual void Arrive(int threads) = 0;
  // Threads exit, of which some have arrived in this phase.
  virtual void OnExit(int threads, int arrived) = 0;

 protected:
  ~ClusterState() = default;

  uint64_t phase_ = 0;
};

struct BlockState {
  uint64_t index = 0;                     // In the grid: x first ...
  std::array<unsigned, 3> position = {};  // ... and as kernels see it.
  std::span<std::byte> shared;
  ClusterState* cluster = nullptr;
  unsigned rank = 0;       // In the cluster.
  Warp* warp = nullptr;    // One of its own, on whose behalf other blocks copy.
  bool gives_way = false;  // A warp of it waits for other blocks.
  BlockShadow shadow;      // Kept if accesses are checked.
  AsyncWork* async = nullptr;
  bool running = false;  // A thread of it has not exited.
};

}  // namespace coppice::ptx
