// The kernels of sized_outputs: y is the positive elements of x, in order; y = x * x.

#include "coppice/runtime/block_kernel.h"

#include "filter.h"

namespace samples {

// One block, which takes as many elements at a time as it has threads.
COPPICE_KERNEL(Filter, 256, FilterParams) {
  const int64_t count = params.words[0];
  int64_t kept = 0;
  for (int64_t first = 0; first < count; first += Block::kThreads) {
    auto place = block.Register<int64_t>();
    block.ForEach([&](int thread) {
      const int64_t i = first + thread;
      place[thread] = i < count && params.x[i] > 0 ? 1 : 0;
    });
    const int64_t more = block.ExclusiveScan(place);
    block.ForEach([&](int thread) {
      const int64_t i = first + thread;
      if (i < count && params.x[i] > 0) params.y[kept + place[thread]] = params.x[i];
    });
    kept += more;
  }
  block.ForEach([&](int thread) {
    if (thread == 0) *params.kept = kept;
  });
}

COPPICE_ACCESSES(Filter, FilterParams) {
  accesses.Reads(params.words, 1);
  accesses.Reads(params.x, params.capacity);
  accesses.Writes(params.y, params.capacity);
  accesses.Writes(params.kept, 1);
}

COPPICE_KERNEL(Square, 256, SquareParams) {
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
    if (i < params.words[0]) params.y[i] = params.x[i] * params.x[i];
  });
}

COPPICE_ACCESSES(Square, SquareParams) {
  accesses.Reads(params.words, 1);
  accesses.Reads(params.x, params.capacity);
  accesses.Writes(params.y, params.capacity);
}

COPPICE_KERNEL_IMAGE(filter, &FilterHostKernel, &SquareHostKernel);

}  // namespace samples
