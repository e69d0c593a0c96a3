// The kernels of traffic_kernels.h.

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

#include "tests/sim/traffic_kernels.h"

namespace coppice {

COPPICE_KERNEL(TrafficMix, kTrafficThreads, TrafficMixParams) {
  const int64_t live = params.live_word < 0 || params.words[params.live_word] > params.count
                           ? params.count
                           : params.words[params.live_word];
  uint32_t salt = params.salt;
  for (int32_t word = 0; word < params.salt_count; ++word)
    salt = FoldSalt(salt, params.words[params.salt_word + word]);
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * kTrafficThreads + thread;
    if (i >= live) return;
    const uint32_t y = params.y == nullptr ? 0 : params.y[i % params.y_count];
    params.z[i] = MixWord(params.x[i], y, salt);
  });
}

COPPICE_ACCESSES(TrafficMix, TrafficMixParams) {
  accesses.Reads(params.x, params.count);
  if (params.y != nullptr)
    accesses.Reads(params.y, params.y_count < params.count ? params.y_count : params.count);
  if (params.live_word >= 0) accesses.Reads(params.words + params.live_word, 1);
  if (params.salt_count > 0) accesses.Reads(params.words + params.salt_word, params.salt_count);
  accesses.Writes(params.z, params.count);
}

COPPICE_KERNEL(TrafficReduce, kTrafficThreads, TrafficReduceParams) {
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * kTrafficThreads + thread;
    if (i >= params.count) return;
    const uint32_t* const row = params.x + i / params.n * params.n;
    params.z[i] = ReduceRow(params.reduction, row, params.n, i % params.n);
  });
}

COPPICE_ACCESSES(TrafficReduce, TrafficReduceParams) {
  accesses.Reads(params.x, params.count);
  accesses.Writes(params.z, params.count);
}

COPPICE_KERNEL_IMAGE(traffic_kernels, &TrafficMixHostKernel, &TrafficReduceHostKernel);

}  // namespace coppice
