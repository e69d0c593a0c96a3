// The kernel of hello_graph: each row of y is the sum of its tokens' rows of a table, one row per
// block.

#include "coppice/runtime/block_kernel.h"

#include "embed.h"

namespace samples {

COPPICE_KERNEL(Embed, 64, EmbedParams) {
  block.ForEach([&](int thread) {
    const int32_t* tokens = params.tokens + block.x() * params.length;
    for (int64_t feature = thread; feature < params.features; feature += Block::kThreads) {
      float sum = 0;
      for (int64_t k = 0; k < params.length; ++k)
        sum += params.table[tokens[k] * params.features + feature];
      params.y[block.x() * params.features + feature] = sum;
    }
  });
}

COPPICE_ACCESSES(Embed, EmbedParams) {
  const int64_t rows = accesses.grid_x();
  accesses.Reads(params.tokens, rows * params.length);
  accesses.Reads(params.table, params.vocabulary * params.features);
  accesses.Writes(params.y, rows * params.features);
}

COPPICE_KERNEL_IMAGE(embed, &EmbedHostKernel);

}  // namespace samples
