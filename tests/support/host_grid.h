// Kernels as host code: found by name and run block by block, without any driver.
//
// Units: grids count blocks. Threads: stateless.

#pragma once

#include <cstdint>
#include <string_view>

#include "coppice/base/check.h"
#include "coppice/runtime/kernel_image.h"

namespace coppice {

// Requires: the image has a kernel of this name (checked).
inline const HostKernel& HostKernelOf(const KernelImage& image, std::string_view name) {
  uint32_t i = 0;
  while (i < image.kernel_count && image.kernels[i]->name != name)
    ++i;
  COPPICE_CHECK(i < image.kernel_count, "no such kernel in the image");
  return *image.kernels[i];
}

// Runs every block of a grid, as a driver would. Requires: the kernel's own struct (size checked).
template <typename Params>
void RunGrid(const HostKernel& kernel, const Params& params, unsigned grid_x, unsigned grid_y = 1) {
  COPPICE_CHECK(kernel.parameter_bytes == sizeof(Params), "not the parameters of this kernel");
  HostBlock block{.grid = {grid_x, grid_y, 1}};
  for (unsigned y = 0; y < grid_y; ++y) {
    for (unsigned x = 0; x < grid_x; ++x) {
      block.index[0] = x;
      block.index[1] = y;
      kernel.run(&params, block);
    }
  }
}

}  // namespace coppice
