// What the warps of a resident block share.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/emulator/ptx/async_copies.h"
#include "runtime/emulator/ptx/shadow.h"

namespace coppice::ptx {

struct BlockState {
  uint64_t index = 0;                     // In the grid: x first ...
  std::array<unsigned, 3> position = {};  // ... and as kernels see it.
  std::span<std::byte> shared;
  bool gives_way = false;  // A warp of it waits for other blocks.
  BlockShadow shadow;      // Kept if accesses are checked.
  AsyncCopies copies;
};

}  // namespace coppice::ptx
