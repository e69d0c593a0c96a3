// The arguments of the decoder's kernels, shared by the host that fills them and the kernels.
//
// `live_rows` is the real extent, a word of the parameter block; rows from there on are padding,
// which no kernel reads or writes. Matrices are row-major and dense but where a stride is named.
//
// Units: sizes and strides in elements. Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

inline constexpr int kRowThreads = 128;        // Of the kernels that take one row per block.
inline constexpr int kProjectionRows = 4;      // Rows of a projection's tile, one block.
inline constexpr int kProjectionColumns = 64;  // Columns of the tile; weights are padded to it.
inline constexpr int kProjectionSteps = 16;    // Of the depth, whose weights are loaded at once.
inline constexpr int kAttentionThreads = 64;
inline constexpr int kQuad = 4;  // Dimensions of a head that one of them sums.
inline constexpr int kHeadDimMax = kAttentionThreads * kQuad;

// x[row] = table[tokens[row]]. Grid: rows.
struct EmbedParams {
  const float* table;  // [vocab, width].
  const int32_t* tokens;
  float* x;  // [rows, width].
  const int64_t* live_rows;
  int64_t vocab;
  int64_t width;
};

// y[row] = weight * x[row] / sqrt(mean(x[row]^2) + epsilon). Grid: rows, or 1 for the last row
// alone, which then goes to y[0].
struct NormParams {
  const float* x;       // [rows, width].
  const float* weight;  // [width].
  float* y;
  const int64_t* live_rows;
  int64_t row_count;  // Of x.
  int64_t width;
  float epsilon;
  int32_t last_row_only;
};

// y = x * weight, or y += x * weight. Every element sums over `depth` in one serial order, so that
// it does not depend on the number of rows. Grid: row tiles x column tiles.
struct ProjectParams {
  const float* x;       // [rows, depth].
  const float* weight;  // [depth, weight_stride]; columns from `width` on are zeros.
  float* y;             // [rows, width].
  const int64_t* live_rows;
  int64_t row_count;  // Rows that y has; fewer than live_rows if only the first ones are wanted.
  int64_t depth;
  int64_t width;
  int64_t weight_stride;  // A multiple of kProjectionColumns.
  int32_t accumulate;
};

// What the two attention kernels share: where a row stands in the cache of one layer.
struct AttentionParams {
  float* qkv;                // [rows, heads + 2 * kv_heads, head_dim]: queries, keys, values.
  float* keys;               // [slots, max_context, kv_heads, head_dim].
  float* values;             // The same.
  const int32_t* positions;  // Of each row; null: the rows are positions 0, 1, ... of one slot.
  const int32_t* slots;      // Of each row; of all of them, if positions is null.
  const int64_t* live_rows;
  int64_t slot_count;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t max_context;
};

// Rotates queries and keys by their position, in place, and writes keys and values to the cache.
// Dimension i of a head turns with dimension i + head_dim / 2. Grid: rows.
struct RotateParams {
  AttentionParams attention;
  const float* cosines;  // [max_context, head_dim / 2].
  const float* sines;
};

// y[row, head] = softmax(q . k / sqrt(head_dim)) . v over positions [0, position]. Grid: rows x
// heads.
struct AttendParams {
  AttentionParams attention;
  float* y;  // [rows, heads, head_dim].
  float scale;
};

// y = silu(gate) * up. Grid: rows.
struct GateParams {
  const float* gate_up;  // [rows, 2, width].
  float* y;              // [rows, width].
  const int64_t* live_rows;
  int64_t width;
};

// tokens[row] = the lowest index of the largest logit. Grid: rows.
struct SampleParams {
  const float* logits;  // [rows, width].
  int32_t* tokens;
  const int64_t* live_rows;
  int64_t width;
};

}  // namespace coppice
