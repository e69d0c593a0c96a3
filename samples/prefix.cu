// The kernel of batcher: each row of y is the sum of the rows of x up to it, of its own sequence.

#include "coppice/runtime/block_kernel.h"

#include "prefix.h"

namespace samples {

// One block per sequence, which takes as many rows at a time as it has threads. Blocks of empty
// sequences, which fill a batch up to its bucket, have nothing to do.
COPPICE_KERNEL(Prefix, 64, PrefixParams) {
  const int64_t end = params.offsets[block.x() + 1];
  int64_t before = 0;
  for (int64_t first = params.offsets[block.x()]; first < end; first += Block::kThreads) {
    auto sums = block.Register<int64_t>();
    block.ForEach([&](int thread) {
      const int64_t row = first + thread;
      sums[thread] = row < end ? params.x[row] : 0;
    });
    const int64_t more = block.ExclusiveScan(sums);
    block.ForEach([&](int thread) {
      const int64_t row = first + thread;
      if (row < end) params.y[row] = before + sums[thread] + params.x[row];
    });
    before += more;
  }
}

COPPICE_ACCESSES(Prefix, PrefixParams) {
  accesses.Reads(params.offsets, accesses.grid_x() + 1);
  accesses.Reads(params.x, params.rows);
  accesses.Writes(params.y, params.rows);
}

COPPICE_KERNEL_IMAGE(prefix, &PrefixHostKernel);

}  // namespace samples
