// The kernel of soak_kernels.h.

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

#include "tools/soak/soak_kernels.h"

namespace coppice {

COPPICE_KERNEL(SoakStep, kSoakThreads, SoakStepParams) {
  const int64_t extent = params.parameters[params.extent_word];
  const auto salt = static_cast<uint32_t>(params.parameters[params.salt_word]);
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
    if (i >= extent) return;
    params.target[i] =
        SoakMix(params.newer[i], params.older[extent - 1 - i], salt + params.constant);
  });
}

COPPICE_ACCESSES(SoakStep, SoakStepParams) {
  accesses.Reads(params.parameters + params.extent_word, 1);
  accesses.Reads(params.parameters + params.salt_word, 1);
  accesses.Reads(params.newer, params.capacity);
  accesses.Reads(params.older, params.capacity);
  accesses.Writes(params.target, params.capacity);
}

COPPICE_KERNEL_IMAGE(soak_kernels, &SoakStepHostKernel);

}  // namespace coppice
