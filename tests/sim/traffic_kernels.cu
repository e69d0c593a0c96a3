// The kernels of traffic_kernels.h.

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

#include "tests/sim/traffic_kernels.h"

namespace coppice {

COPPICE_KERNEL(TrafficMix, kTrafficThreads, TrafficMixParams) {
  const int64_t live = params.live_word < 0 || params.words[params.live_word] > params.count
                           ? params.count
                           : params.words[params.live_word];
  uint64_t salt = params.salt;
  for (int32_t word = 0; word < params.salt_count; ++word)
    salt = FoldSalt(salt, params.words[params.salt_word + word]);
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * kTrafficThreads + thread;
    if (i >= live) return;
    const uint64_t y = params.y.data == nullptr ? 0 : params.y.At(i % params.y_count);
    params.z.Set(i, MixWord(params.x.At(i), y, salt));
  });
}

COPPICE_ACCESSES(TrafficMix, TrafficMixParams) {
  accesses.Reads(params.x.data, params.count * params.x.bytes);
  const int64_t y_count = params.y_count < params.count ? params.y_count : params.count;
  if (params.y.data != nullptr) accesses.Reads(params.y.data, y_count * params.y.bytes);
  if (params.live_word >= 0) accesses.Reads(params.words + params.live_word, 1);
  if (params.salt_count > 0) accesses.Reads(params.words + params.salt_word, params.salt_count);
  accesses.Writes(params.z.data, params.count * params.z.bytes);
}

COPPICE_KERNEL(TrafficReduce, kTrafficThreads, TrafficReduceParams) {
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * kTrafficThreads + thread;
    if (i >= params.count) return;
    const TrafficElements row = params.x.From(i / params.n * params.n);
    params.z.Set(i, ReduceRow(params.reduction, row, params.n, i % params.n, params.none));
  });
}

COPPICE_ACCESSES(TrafficReduce, TrafficReduceParams) {
  accesses.Reads(params.x.data, params.count * params.x.bytes);
  accesses.Writes(params.z.data, params.count * params.z.bytes);
}

COPPICE_KERNEL(TrafficCount, kTrafficThreads, TrafficCountParams) {
  block.ForEach([&](int thread) {
    if (thread != 0) return;
    const int64_t n = params.words[params.live_word];
    params.z.Set(0, static_cast<uint64_t>(CountOf(n == 0 ? 0 : params.x.At(0), n)));
  });
}

COPPICE_ACCESSES(TrafficCount, TrafficCountParams) {
  accesses.Reads(params.x.data, params.x.bytes);
  accesses.Reads(params.words + params.live_word, 1);
  accesses.Writes(params.z.data, params.z.bytes);
}

COPPICE_KERNEL_IMAGE(traffic_kernels,
                     &TrafficMixHostKernel,
                     &TrafficReduceHostKernel,
                     &TrafficCountHostKernel);

}  // namespace coppice
