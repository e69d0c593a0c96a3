// The kernel of dynamic_batch: y = max(0, x * weights), one row per block.

#include "coppice/runtime/block_kernel.h"

#include "layer.h"

namespace samples {

COPPICE_KERNEL(Layer, 128, LayerParams) {
  block.ForEach([&](int thread) {
    const float* x = params.x + block.x() * params.in;
    for (int64_t column = thread; column < params.out; column += Block::kThreads) {
      float sum = 0;
      for (int64_t k = 0; k < params.in; ++k)
        sum += x[k] * params.weights[k * params.out + column];
      params.y[block.x() * params.out + column] = sum > 0 ? sum : 0;
    }
  });
}

COPPICE_ACCESSES(Layer, LayerParams) {
  const int64_t rows = accesses.grid_x();
  accesses.Reads(params.x, rows * params.in);
  accesses.Reads(params.weights, params.in * params.out);
  accesses.Writes(params.y, rows * params.out);
}

COPPICE_KERNEL_IMAGE(layer, &LayerHostKernel);

}  // namespace samples
