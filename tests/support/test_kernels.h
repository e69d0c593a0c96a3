// Small kernels that tests launch: their parameters, and the image that holds them.
//
// Every kernel runs blocks of kTestThreads threads. Those that work on elements take one element
// per thread: launch GridFor(count) blocks. Also compiled by nvcc.
//
// Units: counts in elements. Threads: plain values.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace coppice {

inline constexpr int kTestThreads = 64;

// Blocks that cover `count` elements; at least one.
constexpr unsigned GridFor(int64_t count) {
  return count > 0 ? static_cast<unsigned>((count + kTestThreads - 1) / kTestThreads) : 1U;
}

// "Fill": target[i] = value.
struct FillParams {
  float* target = nullptr;
  int64_t count = 0;
  float value = 0;
  int32_t unused = 0;  // No struct here has padding, whose bytes an audit would compare.
};

// "Scale": y[i] = factor * x[i].
struct ScaleParams {
  const float* x = nullptr;
  float* y = nullptr;
  int64_t count = 0;
  float factor = 1;
  int32_t unused = 0;
};

// "Add": z[i] = x[i] + y[i].
struct AddParams {
  const float* x = nullptr;
  const float* y = nullptr;
  float* z = nullptr;
  int64_t count = 0;
};

// "MaskedScale": y[i] = factor * x[i] for i < words[word]; writes nothing beyond.
struct MaskedScaleParams {
  const float* x = nullptr;
  float* y = nullptr;
  const int64_t* words = nullptr;  // A parameter block.
  int32_t word = 0;
  float factor = 1;
};

// "Compact": y holds the positive x of those before words[word], in order, and *count or
// *narrow_count, whichever is there, how many; by one thread. Writes nothing beyond.
struct CompactParams {
  const float* x = nullptr;
  float* y = nullptr;
  const int64_t* words = nullptr;  // A parameter block.
  int32_t word = 0;
  int32_t unused = 0;
  int64_t capacity = 0;  // Of x and y.
  int64_t* count = nullptr;
  int32_t* narrow_count = nullptr;
};

// "Philox": y[i] = number i behind the state at words[word]: of one sequence, or, with `sequences`,
// of sequence i, as curand_uniform of the i-th thread of PyTorch's kernels draws it.
struct PhiloxParams {
  uint32_t* y = nullptr;
  const int64_t* words = nullptr;  // A parameter block.
  int64_t count = 0;
  int32_t word = 0;  // Of the seed.
  int32_t sequences = 0;
};

// "RaggedRows": rows of packed sequences, [rows, width], or of a rectangle, [sequences, length,
// width]: y = 2 * x + the row within its sequence + 1000 * the sequence. Packed rows from
// words[word] on, and rows of no sequence, become -1.
struct RaggedRowsParams {
  const float* x = nullptr;
  float* y = nullptr;
  const int32_t* narrow_offsets = nullptr;  // Of the sequences, and the end; one of the two.
  const int64_t* offsets = nullptr;
  const int64_t* words = nullptr;  // A parameter block.
  int64_t sequences = 0;
  int64_t rows = 0;    // Packed.
  int64_t length = 0;  // Of a rectangle; 0: packed.
  int64_t width = 0;
  int32_t word = 0;
  int32_t unused = 0;
};

// "Store": *target = value, by one thread.
struct StoreParams {
  int64_t* target = nullptr;
  int64_t value = 0;
};

// "Collectives": block b = y * grid_x + x works on keys[b * kTestThreads + thread], and writes one
// result per block at index b and one per thread at index b * kTestThreads + thread.
struct CollectivesParams {
  const float* keys = nullptr;        // One per thread.
  float* sum = nullptr;               // One per block.
  float* maximum = nullptr;           // One per block.
  int32_t* arg_max = nullptr;         // One per block: the thread with the largest key.
  int32_t* positive_total = nullptr;  // One per block: threads whose key is > 0.
  int32_t* positive_rank = nullptr;   // One per thread: threads before it whose key is > 0.
  float* sorted_keys = nullptr;       // One per thread.
  int32_t* sorted_threads = nullptr;  // One per thread: where sorted_keys came from.
  float* reversed = nullptr;          // One per thread: keys in reverse order, by shared memory.
};

// "Cube": block b = (z * grid_y + y) * grid_x + x stores b plus the sum of 0 to shared_words - 1 at
// target[b]. The sum goes through dynamic shared memory, which has to hold that many words.
struct CubeParams {
  int64_t* target = nullptr;  // One per block.
  int64_t shared_words = 0;
};

extern const KernelImage test_kernels_image;

}  // namespace coppice
