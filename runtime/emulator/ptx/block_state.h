// What the warps of a resident block share.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/emulator/ptx/async_work.h"
#include "runtime/emulator/ptx/shadow.h"

namespace coppice::ptx {

class Warp;
struct BlockState;

// What the blocks of a cluster know of each other.
class ClusterState {
 public:
  std::vector<BlockState*> members;  // By rank.

  // So many threads arrive at the barrier: returns its phase, which has opened once all have.
  virtual uint64_t Arrive(int threads) = 0;
  virtual bool HasOpened(uint64_t phase) const = 0;
  virtual void OnExit(int threads) = 0;

 protected:
  ~ClusterState() = default;
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
  AsyncWork async;
};

}  // namespace coppice::ptx
