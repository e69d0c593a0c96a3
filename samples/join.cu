// The kernel of expressions.cc: row r holds r + 1 times the real part of x, then that of y. One
// page of one row per block, which keeps it in shared memory to sum it up.

#include "coppice/runtime/block_kernel.h"

#include "join.h"

namespace samples {

COPPICE_KERNEL(Join, 32, JoinParams) {
  const int64_t n = params.extents[0];
  const int64_t left = n + params.extents[1] - block.x() * params.page;
  const int64_t count = left < params.page ? left : params.page;
  if (count <= 0 || block.y() >= params.extents[2]) return;  // A block of padding.

  auto* const page = block.DynamicShared<float>();
  const int64_t first = block.x() * params.page;
  float* const joined = params.joined + block.y() * (params.x_length + params.y_length) + first;
  block.ForEach([&](int thread) {
    for (int64_t i = thread; i < count; i += Block::kThreads) {
      const int64_t k = first + i;
      page[i] = static_cast<float>(block.y() + 1) * (k < n ? params.x[k] : params.y[k - n]);
      joined[i] = page[i];
    }
  });
  block.Sync();
  block.ForEach([&](int thread) {
    if (thread > 0) return;
    float sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += page[i];
    params.sums[block.y() * block.grid_x() + block.x()] = sum;
  });
}

COPPICE_ACCESSES(Join, JoinParams) {
  const int64_t rows = accesses.grid_y();
  accesses.Reads(params.extents, 3);
  accesses.Reads(params.x, params.x_length);
  accesses.Reads(params.y, params.y_length);
  accesses.Writes(params.joined, rows * (params.x_length + params.y_length));
  accesses.Writes(params.sums, rows * accesses.grid_x());
}

COPPICE_KERNEL_IMAGE(join, &JoinHostKernel);

}  // namespace samples
