// The kernel of most samples: y = factor * x, one element per thread.

#include "coppice/runtime/block_kernel.h"

#include "scale.h"

namespace samples {

COPPICE_KERNEL(Scale, 256, ScaleParams) {
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
    if (i < params.count) params.y[i] = params.factor * params.x[i];
  });
}

COPPICE_ACCESSES(Scale, ScaleParams) {
  accesses.Reads(params.x, params.count);
  accesses.Writes(params.y, params.count);
}

COPPICE_KERNEL_IMAGE(scale, &ScaleHostKernel);

}  // namespace samples
