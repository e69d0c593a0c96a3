// The small kernel that benches launch many times over.

#include "coppice/runtime/block_kernel.h"

#include "tools/bench/bench_params.h"

namespace coppice {

COPPICE_KERNEL(Increment, 256, IncrementParams) {
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
    if (i < params.count) params.target[i] = params.source[i] + 1;
  });
}

COPPICE_ACCESSES(Increment, IncrementParams) {
  accesses.Reads(params.source, params.count);
  accesses.Writes(params.target, params.count);
}

COPPICE_KERNEL_IMAGE(bench, &IncrementHostKernel);

}  // namespace coppice
