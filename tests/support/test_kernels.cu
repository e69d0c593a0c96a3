// The kernels of test_kernels.h.

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

#include "tests/support/test_kernels.h"

namespace coppice {

COPPICE_DEVICE int64_t ElementOf(int block, int thread) {
  return int64_t{block} * kTestThreads + thread;
}

COPPICE_KERNEL(Fill, kTestThreads, FillParams) {
  block.ForEach([&](int thread) {
    const int64_t i = ElementOf(block.x(), thread);
    if (i < params.count) params.target[i] = params.value;
  });
}

COPPICE_ACCESSES(Fill, FillParams) {
  accesses.Writes(params.target, params.count);
}

COPPICE_KERNEL(Scale, kTestThreads, ScaleParams) {
  block.ForEach([&](int thread) {
    const int64_t i = ElementOf(block.x(), thread);
    if (i < params.count) params.y[i] = params.factor * params.x[i];
  });
}

COPPICE_ACCESSES(Scale, ScaleParams) {
  accesses.Reads(params.x, params.count);
  accesses.Writes(params.y, params.count);
}

COPPICE_KERNEL(Add, kTestThreads, AddParams) {
  block.ForEach([&](int thread) {
    const int64_t i = ElementOf(block.x(), thread);
    if (i < params.count) params.z[i] = params.x[i] + params.y[i];
  });
}

COPPICE_ACCESSES(Add, AddParams) {
  accesses.Reads(params.x, params.count);
  accesses.Reads(params.y, params.count);
  accesses.Writes(params.z, params.count);
}

COPPICE_KERNEL(MaskedScale, kTestThreads, MaskedScaleParams) {
  const int64_t count = params.words[params.word];
  block.ForEach([&](int thread) {
    const int64_t i = ElementOf(block.x(), thread);
    if (i < count) params.y[i] = params.factor * params.x[i];
  });
}

COPPICE_ACCESSES(MaskedScale, MaskedScaleParams) {
  const int64_t count = accesses.grid_x() * kTestThreads;
  accesses.Reads(params.words + params.word, 1);
  accesses.Reads(params.x, count);
  accesses.Writes(params.y, count);
}

COPPICE_KERNEL(Compact, kTestThreads, CompactParams) {
  block.ForEach([&](int thread) {
    if (block.x() != 0 || thread != 0) return;
    int64_t kept = 0;
    for (int64_t i = 0; i < params.words[params.word]; ++i)
      if (params.x[i] > 0) params.y[kept++] = params.x[i];
    if (params.count != nullptr) *params.count = kept;
    if (params.narrow_count != nullptr) *params.narrow_count = static_cast<int32_t>(kept);
  });
}

COPPICE_ACCESSES(Compact, CompactParams) {
  accesses.Reads(params.words + params.word, 1);
  accesses.Reads(params.x, params.capacity);
  accesses.Writes(params.y, params.capacity);
  if (params.count != nullptr) accesses.Writes(params.count, 1);
  if (params.narrow_count != nullptr) accesses.Writes(params.narrow_count, 1);
}

struct PhiloxRound {
  uint32_t counter[4];

  // Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011: 4x32-10.
  COPPICE_DEVICE void Mix(uint64_t seed) {
    auto low = static_cast<uint32_t>(seed);
    auto high = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round, low += 0x9E3779B9U, high += 0xBB67AE85U) {
      const uint64_t a = uint64_t{0xD2511F53U} * counter[0];
      const uint64_t b = uint64_t{0xCD9E8D57U} * counter[2];
      counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low;
      counter[1] = static_cast<uint32_t>(b);
      counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high;
      counter[3] = static_cast<uint32_t>(a);
    }
  }
};

COPPICE_KERNEL(Philox, kTestThreads, PhiloxParams) {
  const auto seed = static_cast<uint64_t>(params.words[params.word]);
  const int64_t offset = params.words[params.word + 1];
  block.ForEach([&](int thread) {
    const int64_t i = ElementOf(block.x(), thread);
    if (i >= params.count) return;
    const int64_t number = params.sequences != 0 ? offset : offset + i;
    const uint64_t at = static_cast<uint64_t>(number) / 4;
    const uint64_t sequence = params.sequences != 0 ? static_cast<uint64_t>(i) : 0;
    PhiloxRound round{{static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32),
                       static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)}};
    round.Mix(seed);
    params.y[i] = round.counter[number % 4];
  });
}

COPPICE_ACCESSES(Philox, PhiloxParams) {
  accesses.Reads(params.words + params.word, 2);
  accesses.Writes(params.y, params.count);
}

COPPICE_DEVICE int64_t OffsetAt(const RaggedRowsParams& params, int64_t index) {
  return params.offsets != nullptr ? params.offsets[index] : params.narrow_offsets[index];
}

// The element of row `place` of `sequence`.
COPPICE_DEVICE float RaggedElement(float x, int64_t sequence, int64_t place) {
  return 2 * x + static_cast<float>(place) + 1000 * static_cast<float>(sequence);
}

COPPICE_DEVICE float PackedElement(const RaggedRowsParams& params, int64_t i) {
  const int64_t row = i / params.width;
  if (row >= params.words[params.word]) return -1;
  for (int64_t sequence = 0; sequence < params.sequences; ++sequence) {
    const int64_t begin = OffsetAt(params, sequence);
    if (begin <= row && row < OffsetAt(params, sequence + 1))
      return RaggedElement(params.x[i], sequence, row - begin);
  }
  return -1;
}

COPPICE_KERNEL(RaggedRows, kTestThreads, RaggedRowsParams) {
  const bool packed = params.length == 0;
  const int64_t rows = packed ? params.rows : params.sequences * params.length;
  block.ForEach([&](int thread) {
    const int64_t i = ElementOf(block.x(), thread);
    if (i >= rows * params.width) return;
    const int64_t row = i / params.width;
    params.y[i] = packed ? PackedElement(params, i)
                         : RaggedElement(params.x[i], row / params.length, row % params.length);
  });
}

COPPICE_ACCESSES(RaggedRows, RaggedRowsParams) {
  const int64_t rows = params.length == 0 ? params.rows : params.sequences * params.length;
  accesses.Reads(params.x, rows * params.width);
  accesses.Reads(params.words + params.word, 1);
  if (params.offsets != nullptr) accesses.Reads(params.offsets, params.sequences + 1);
  if (params.narrow_offsets != nullptr) accesses.Reads(params.narrow_offsets, params.sequences + 1);
  accesses.Writes(params.y, rows * params.width);
}

COPPICE_KERNEL(Store, kTestThreads, StoreParams) {
  block.ForEach([&](int thread) {
    if (block.x() == 0 && thread == 0) *params.target = params.value;
  });
}

COPPICE_ACCESSES(Store, StoreParams) {
  accesses.Writes(params.target, 1);
}

COPPICE_KERNEL(Collectives, kTestThreads, CollectivesParams) {
  const int index = block.y() * block.grid_x() + block.x();
  auto keys = block.Register<float>();
  auto threads = block.Register<int32_t>();
  auto ranks = block.Register<int32_t>();
  COPPICE_SHARED(float, staged, Block::kThreads);
  block.ForEach([&](int thread) {
    keys[thread] = params.keys[ElementOf(index, thread)];
    threads[thread] = thread;
    ranks[thread] = keys[thread] > 0 ? 1 : 0;
    staged[thread] = keys[thread];
  });
  block.Sync();
  const float sum = block.Sum(keys);
  const float maximum = block.Max(keys);
  const int32_t arg_max = block.ArgMax(keys, threads);
  const int32_t total = block.ExclusiveScan(ranks);
  block.SortDescending(keys, threads);
  block.ForEach([&](int thread) {
    const int64_t i = ElementOf(index, thread);
    params.positive_rank[i] = ranks[thread];
    params.sorted_keys[i] = keys[thread];
    params.sorted_threads[i] = threads[thread];
    params.reversed[i] = staged[Block::kThreads - 1 - thread];
    if (thread != 0) return;
    params.sum[index] = sum;
    params.maximum[index] = maximum;
    params.arg_max[index] = arg_max;
    params.positive_total[index] = total;
  });
}

COPPICE_ACCESSES(Collectives, CollectivesParams) {
  const int64_t blocks = accesses.grid_x() * accesses.grid_y();
  const int64_t threads = blocks * kTestThreads;
  accesses.Reads(params.keys, threads);
  accesses.Writes(params.sum, blocks);
  accesses.Writes(params.maximum, blocks);
  accesses.Writes(params.arg_max, blocks);
  accesses.Writes(params.positive_total, blocks);
  accesses.Writes(params.positive_rank, threads);
  accesses.Writes(params.sorted_keys, threads);
  accesses.Writes(params.sorted_threads, threads);
  accesses.Writes(params.reversed, threads);
}

COPPICE_KERNEL(Cube, kTestThreads, CubeParams) {
  auto* const words = block.DynamicShared<int64_t>();
  block.ForEach([&](int thread) {
    for (int64_t i = thread; i < params.shared_words; i += Block::kThreads)
      words[i] = i;
  });
  block.Sync();
  const int64_t index =
      (int64_t{block.z()} * block.grid_y() + block.y()) * block.grid_x() + block.x();
  block.ForEach([&](int thread) {
    if (thread != 0) return;
    int64_t sum = index;
    for (int64_t i = 0; i < params.shared_words; ++i)
      sum += words[i];
    params.target[index] = sum;
  });
}

COPPICE_ACCESSES(Cube, CubeParams) {
  accesses.Writes(params.target, accesses.grid_x() * accesses.grid_y() * accesses.grid_z());
}

COPPICE_KERNEL_IMAGE(test_kernels,
                     &FillHostKernel,
                     &ScaleHostKernel,
                     &AddHostKernel,
                     &MaskedScaleHostKernel,
                     &CompactHostKernel,
                     &PhiloxHostKernel,
                     &RaggedRowsHostKernel,
                     &StoreHostKernel,
                     &CollectivesHostKernel,
                     &CubeHostKernel);

}  // namespace coppice
