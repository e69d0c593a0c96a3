// A launch as the driver takes it for a node of a graph. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include "coppice/runtime/driver.h"

#include "graphs/program/step_source.h"

namespace coppice::internal {

// Valid as long as the launch's arguments.
inline CuKernelNodeParams NodeParamsOf(const KernelLaunch& launch) {
  const Dim3& grid = launch.shape.grid;
  const Dim3& block = launch.shape.block;
  return {.function = launch.kernel.function,
          .grid_x = grid.x,
          .grid_y = grid.y,
          .grid_z = grid.z,
          .block_x = block.x == 0 ? launch.kernel.block_threads : block.x,
          .block_y = block.y,
          .block_z = block.z,
          .shared_bytes = launch.shape.shared_bytes,
          .kernel_params = const_cast<void**>(launch.arguments.data())};
}

}  // namespace coppice::internal
