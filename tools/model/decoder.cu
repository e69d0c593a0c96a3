// The decoder's kernels; decoder_params.h says what each computes.
//
// Rows are independent: no sum crosses rows, and its order depends on neither the number of rows
// nor the padding. Blocks of padded rows return at once.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "coppice/runtime/block_kernel.h"

#include "tools/model/decoder_params.h"

namespace coppice {

COPPICE_KERNEL(Embed, kRowThreads, EmbedParams) {
  const int64_t row = block.x();
  if (row >= *params.live_rows) return;
  const float* source = params.table + params.tokens[row] * params.width;
  float* target = params.x + row * params.width;
  block.ForEach([&](int thread) {
    for (int64_t i = thread; i < params.width; i += Block::kThreads)
      target[i] = source[i];
  });
}

COPPICE_ACCESSES(Embed, EmbedParams) {
  const int64_t rows = accesses.grid_x();
  accesses.Reads(params.live_rows, 1);
  accesses.Reads(params.tokens, rows);
  accesses.Reads(params.table, params.vocab * params.width);  // The tokens choose its rows.
  accesses.Writes(params.x, rows * params.width);
}

COPPICE_KERNEL(Norm, kRowThreads, NormParams) {
  const int64_t live_rows = *params.live_rows;
  const int64_t row = params.last_row_only != 0 ? live_rows - 1 : block.x();
  if (row < 0 || row >= live_rows) return;
  const float* x = params.x + row * params.width;
  float* y = params.y + int64_t{block.x()} * params.width;
  auto squares = block.Register<float>();
  block.ForEach([&](int thread) {
    for (int64_t i = thread; i < params.width; i += Block::kThreads)
      squares[thread] += x[i] * x[i];
  });
  const float mean = block.Sum(squares) / static_cast<float>(params.width);
  const float scale = 1.0F / sqrtf(mean + params.epsilon);
  block.ForEach([&](int thread) {
    for (int64_t i = thread; i < params.width; i += Block::kThreads)
      y[i] = params.weight[i] * (x[i] * scale);
  });
}

COPPICE_ACCESSES(Norm, NormParams) {
  accesses.Reads(params.live_rows, 1);
  accesses.Reads(params.x, params.row_count * params.width);
  accesses.Reads(params.weight, params.width);
  accesses.Writes(params.y, accesses.grid_x() * params.width);
}

// Adds to each thread's sum the products of `kSteps` elements of `x` with its column of `weight`.
// The weights do not depend on each other, so a GPU has as many loads under way; on the host the
// loop over threads is a vector operation.
template <int kSteps, typename Block>
COPPICE_DEVICE void AddProducts(const Block& block,
                                const float* x,
                                const float* weight,
                                int64_t stride,
                                typename Block::template RegisterOf<float>& sums) {
  block.ForEach([&](int thread) {
    float sum = sums[thread];
    for (int step = 0; step < kSteps; ++step)
      sum += x[step] * weight[step * stride + thread];
    sums[thread] = sum;
  });
}

// A thread sums one column of each row of the tile, element by element.
COPPICE_KERNEL(Project, kProjectionColumns, ProjectParams) {
  const int64_t first_row = int64_t{block.x()} * kProjectionRows;
  const int64_t first_column = int64_t{block.y()} * kProjectionColumns;
  const int64_t live_rows =
      *params.live_rows < params.row_count ? *params.live_rows : params.row_count;
  if (first_row >= live_rows) return;

  const float* x = params.x + first_row * params.depth;
  const float* weight = params.weight + first_column;
  Block::RegisterOf<float> sums[kProjectionRows];
  const auto add = [&](auto steps, int64_t k) {
    for (int row = 0; row < kProjectionRows; ++row) {
      if (first_row + row < live_rows)
        AddProducts<steps.value>(block, x + row * params.depth + k,
                                 weight + k * params.weight_stride, params.weight_stride,
                                 sums[row]);
    }
  };
  int64_t k = 0;
  for (; k + kProjectionSteps <= params.depth; k += kProjectionSteps)
    add(std::integral_constant<int, kProjectionSteps>{}, k);
  for (; k < params.depth; ++k)
    add(std::integral_constant<int, 1>{}, k);
  block.ForEach([&](int thread) {
    const int64_t column = first_column + thread;
    if (column >= params.width) return;
    for (int row = 0; row < kProjectionRows; ++row) {
      if (first_row + row >= live_rows) continue;
      float& y = params.y[(first_row + row) * params.width + column];
      y = params.accumulate != 0 ? y + sums[row][thread] : sums[row][thread];
    }
  });
}

COPPICE_ACCESSES(Project, ProjectParams) {
  accesses.Reads(params.live_rows, 1);
  accesses.Reads(params.x, params.row_count * params.depth);
  accesses.Reads(params.weight, params.depth * params.weight_stride);
  accesses.Writes(params.y, params.row_count * params.width);
}

// Where a live row stands in its sequence, and where its slot starts in the cache.
struct CachePlace {
  int64_t position;
  int64_t slot_offset;  // Of position 0, in elements.
};

COPPICE_DEVICE CachePlace PlaceOf(const AttentionParams& params, int64_t row) {
  const bool one_sequence = params.positions == nullptr;
  const int64_t slot = params.slots[one_sequence ? 0 : row];
  return {one_sequence ? row : params.positions[row],
          slot * params.max_context * params.kv_heads * params.head_dim};
}

// Elements of a row of `qkv`, and of the cache of one layer.
inline int64_t RowElements(const AttentionParams& params) {
  return (params.heads + 2 * params.kv_heads) * params.head_dim;
}

inline int64_t CacheElements(const AttentionParams& params) {
  return params.slot_count * params.max_context * params.kv_heads * params.head_dim;
}

// The reads that both attention kernels make to find their place.
inline void DeclareAttention(const AttentionParams& params, KernelAccesses& accesses) {
  const int64_t rows = accesses.grid_x();
  accesses.Reads(params.live_rows, 1);
  accesses.Reads(params.positions, rows);
  accesses.Reads(params.slots, params.positions == nullptr ? 1 : rows);
}

COPPICE_KERNEL(Rotate, kRowThreads, RotateParams) {
  const AttentionParams& attention = params.attention;
  const int64_t row = block.x();
  if (row >= *attention.live_rows) return;
  const int64_t head_dim = attention.head_dim;
  const int64_t half = head_dim / 2;
  const int64_t rotated_heads = attention.heads + attention.kv_heads;
  const int64_t kv_row = attention.kv_heads * head_dim;
  const CachePlace place = PlaceOf(attention, row);
  const int64_t cache_offset = place.slot_offset + place.position * kv_row;
  float* queries = attention.qkv + row * (rotated_heads + attention.kv_heads) * head_dim;
  const float* keys = queries + attention.heads * head_dim;
  const float* values = keys + kv_row;

  block.ForEach([&](int thread) {
    for (int64_t i = thread; i < rotated_heads * half; i += Block::kThreads) {
      const int64_t head = i / half;
      const int64_t low = head * head_dim + i % half;
      const int64_t high = low + half;
      const float cosine = params.cosines[place.position * half + i % half];
      const float sine = params.sines[place.position * half + i % half];
      // Keys follow the queries, both in `qkv` and in `i`.
      float* target = head < attention.heads
                          ? queries
                          : attention.keys + cache_offset - attention.heads * head_dim;
      const float real = queries[low];
      const float imaginary = queries[high];
      target[low] = real * cosine - imaginary * sine;
      target[high] = imaginary * cosine + real * sine;
    }
    for (int64_t i = thread; i < kv_row; i += Block::kThreads)
      attention.values[cache_offset + i] = values[i];
  });
}

COPPICE_ACCESSES(Rotate, RotateParams) {
  const AttentionParams& attention = params.attention;
  DeclareAttention(attention, accesses);
  accesses.Writes(attention.qkv, RowElements(attention) * accesses.grid_x());
  accesses.Writes(attention.keys, CacheElements(attention));
  accesses.Writes(attention.values, CacheElements(attention));
  const int64_t angles = attention.max_context * attention.head_dim / 2;
  accesses.Reads(params.cosines, angles);
  accesses.Reads(params.sines, angles);
}

// Neighbouring dimensions of a head that a thread holds: one vector load.
struct Quad {
  float lanes[kQuad] = {};
};

COPPICE_DEVICE float Dot(const float* a, const float* b, int64_t count) {
  Quad sums;
  for (int64_t i = 0; i < count; i += kQuad) {
    for (int lane = 0; lane < kQuad; ++lane)
      sums.lanes[lane] += a[i + lane] * b[i + lane];
  }
  return (sums.lanes[0] + sums.lanes[1]) + (sums.lanes[2] + sums.lanes[3]);
}

// Softmax in one pass over tiles of keys: a thread scores one key of the tile, then sums four
// dimensions of the values, whose earlier sums are scaled down when the maximum rises.
COPPICE_KERNEL(Attend, kAttentionThreads, AttendParams) {
  const AttentionParams& attention = params.attention;
  const int64_t row = block.x();
  if (row >= *attention.live_rows) return;
  const int64_t head_dim = attention.head_dim;
  const int64_t kv_row = attention.kv_heads * head_dim;
  const int64_t kv_head = block.y() / (attention.heads / attention.kv_heads);
  const CachePlace place = PlaceOf(attention, row);
  const float* query =
      attention.qkv + (row * (attention.heads + 2 * attention.kv_heads) + block.y()) * head_dim;
  const float* keys = attention.keys + place.slot_offset + kv_head * head_dim;
  const float* values = attention.values + place.slot_offset + kv_head * head_dim;

  COPPICE_SHARED(float, weights, Block::kThreads);
  auto sums = block.Register<Quad>();
  float maximum = -INFINITY;
  float total = 0;
  for (int64_t first = 0; first <= place.position; first += Block::kThreads) {
    const int64_t left = place.position + 1 - first;
    const int count = left < Block::kThreads ? static_cast<int>(left) : Block::kThreads;
    auto scores = block.Register<float>();
    block.ForEach([&](int thread) {
      const float* key = keys + (first + thread) * kv_row;
      scores[thread] = thread < count ? Dot(query, key, head_dim) * params.scale : -INFINITY;
    });
    const float risen = fmaxf(maximum, block.Max(scores));
    const float decay = expf(maximum - risen);
    block.ForEach([&](int thread) {
      scores[thread] = thread < count ? expf(scores[thread] - risen) : 0.0F;
      weights[thread] = scores[thread];
    });
    total = total * decay + block.Sum(scores);
    maximum = risen;
    block.ForEach([&](int thread) {
      if (kQuad * thread >= head_dim) return;
      const float* value = values + first * kv_row + kQuad * thread;
      Quad sum = sums[thread];
      for (float& lane : sum.lanes)
        lane *= decay;
      for (int key = 0; key < count; ++key) {
        for (int lane = 0; lane < kQuad; ++lane)
          sum.lanes[lane] += weights[key] * value[key * kv_row + lane];
      }
      sums[thread] = sum;
    });
    block.Sync();
  }
  float* y = params.y + (row * attention.heads + block.y()) * head_dim;
  block.ForEach([&](int thread) {
    if (kQuad * thread >= head_dim) return;
    for (int lane = 0; lane < kQuad; ++lane)
      y[kQuad * thread + lane] = sums[thread].lanes[lane] / total;
  });
}

COPPICE_ACCESSES(Attend, AttendParams) {
  const AttentionParams& attention = params.attention;
  DeclareAttention(attention, accesses);
  accesses.Reads(attention.qkv, RowElements(attention) * accesses.grid_x());
  accesses.Reads(attention.keys, CacheElements(attention));
  accesses.Reads(attention.values, CacheElements(attention));
  accesses.Writes(params.y, accesses.grid_x() * attention.heads * attention.head_dim);
}

COPPICE_KERNEL(Gate, kRowThreads, GateParams) {
  const int64_t row = block.x();
  if (row >= *params.live_rows) return;
  const float* gate = params.gate_up + 2 * row * params.width;
  const float* up = gate + params.width;
  float* y = params.y + row * params.width;
  block.ForEach([&](int thread) {
    for (int64_t i = thread; i < params.width; i += Block::kThreads)
      y[i] = gate[i] / (1.0F + expf(-gate[i])) * up[i];
  });
}

COPPICE_ACCESSES(Gate, GateParams) {
  const int64_t elements = accesses.grid_x() * params.width;
  accesses.Reads(params.live_rows, 1);
  accesses.Reads(params.gate_up, 2 * elements);
  accesses.Writes(params.y, elements);
}

COPPICE_KERNEL(Sample, kRowThreads, SampleParams) {
  const int64_t row = block.x();
  if (row >= *params.live_rows) return;
  const float* logits = params.logits + row * params.width;
  auto values = block.Register<float>();
  auto indices = block.Register<int32_t>();
  block.ForEach([&](int thread) {
    values[thread] = thread < params.width ? logits[thread] : -INFINITY;
    indices[thread] = thread < params.width ? thread : INT32_MAX;
    for (int64_t i = int64_t{thread} + Block::kThreads; i < params.width; i += Block::kThreads) {
      if (logits[i] <= values[thread]) continue;
      values[thread] = logits[i];
      indices[thread] = static_cast<int32_t>(i);
    }
  });
  const int32_t token = block.ArgMax(values, indices);
  block.ForEach([&](int thread) {
    if (thread == 0) params.tokens[row] = token;
  });
}

COPPICE_ACCESSES(Sample, SampleParams) {
  accesses.Reads(params.live_rows, 1);
  accesses.Reads(params.logits, accesses.grid_x() * params.width);
  accesses.Writes(params.tokens, accesses.grid_x());
}

COPPICE_KERNEL_IMAGE(decoder,
                     &EmbedHostKernel,
                     &NormHostKernel,
                     &ProjectHostKernel,
                     &RotateHostKernel,
                     &AttendHostKernel,
                     &GateHostKernel,
                     &SampleHostKernel);

}  // namespace coppice
