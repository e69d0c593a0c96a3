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

COPPICE_KERNEL_IMAGE(probe_kernels, &TouchHostKernel, &BulkHostKernel);

}  // namespace coppice
