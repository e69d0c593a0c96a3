// The arguments of the kernels in step_kernels.cu, which the host fills.
//
// Units: strides in elements. Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// words[i] = a 64-bit mix of the seed and of how many words were drawn before it.
struct SeedWordsParams {
  int64_t* words;
  const int64_t* state;  // Of the parameter block: the seed, and the offset in 32-bit numbers.
  int64_t first;         // Words that the call drew before these.
  int64_t count;
};

// Elements or bytes that a block of the next two writes.
inline constexpr int kMoveElementsPerBlock = 1024;
inline constexpr int kMoveBytesPerBlock = 4096;

// target[i] = value, in elements of 1 or 4 bytes.
struct FillElementsParams {
  void* target;
  int64_t count;
  uint32_t value;
  int32_t width;
};

// target[i] = source[i], in units of `unit` bytes, of which both addresses and `bytes` are
// multiples.
struct CopyBytesParams {
  const void* source;
  void* target;
  int64_t bytes;
  int64_t unit;  // 1, 2, 4, 8 or 16.
};

enum class GemmElement : int32_t { kFloat32, kFloat16, kBFloat16, kFloat64 };

// y = alpha * a @ b + beta * c, per batch; c is not read if beta is 0. Sums in f32, of f64 in f64.
struct GemmParams {
  const void* a;  // [batch, m, k]
  const void* b;  // [batch, k, n]
  const void* c;  // [batch, m, n]
  void* y;        // [batch, m, n]
  int64_t a_strides[3];
  int64_t b_strides[3];
  int64_t c_strides[3];
  int64_t y_strides[3];
  int64_t batch;
  int64_t m;
  int64_t n;
  int64_t k;
  double alpha;
  double beta;
  GemmElement element;
};

}  // namespace coppice
