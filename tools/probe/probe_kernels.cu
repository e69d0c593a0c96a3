// The kernels of probe_kernels.h.

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

#include "tools/probe/probe_kernels.h"

namespace coppice {

COPPICE_KERNEL(Touch, kProbeThreads, TouchParams) {
  block.ForEach([&](int thread) {
    if (thread == 0) *params.target = params.value;
  });
}

COPPICE_ACCESSES(Touch, TouchParams) {
  accesses.Writes(params.target, 1);
}

COPPICE_KERNEL(Bulk, kProbeThreads, BulkParams) {
  block.ForEach([&](int thread) {
    if (thread != 0) return;
    int64_t sum = 0;
    for (int i = 0; i < BulkParams::kWords; ++i)
      sum += params.words[i];
    *params.target = sum;
  });
}

COPPICE_ACCESSES(Bulk, BulkParams) {
  accesses.Writes(params.target, 1);
}

// Each step needs the one before it, so that no compiler shortens the loop.
COPPICE_KERNEL(Spin, kProbeThreads, SpinParams) {
  block.ForEach([&](int thread) {
    uint64_t state = static_cast<uint64_t>(thread);
    for (int64_t i = 0; i < params.iterations; ++i)
      state = (state ^ (state >> 7)) * 6364136223846793005U + 1442695040888963407U;
    if (thread == 0) *params.target = static_cast<int64_t>(state);
  });
}

COPPICE_ACCESSES(Spin, SpinParams) {
  accesses.Writes(params.target, 1);
}

COPPICE_KERNEL_IMAGE(probe_kernels, &TouchHostKernel, &BulkHostKernel, &SpinHostKernel);

}  // namespace coppice
