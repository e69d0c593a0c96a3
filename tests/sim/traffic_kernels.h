// The kernels of the simulated traffic, and the functions they compute, which its model calls too.
//
// An element is as many bytes as the tensors' dtype says, and nothing else of the dtype matters, so
// that results are compared bit for bit. What is mixed lets every input bit reach every output bit:
// hardly any wrong input gives a right output. What is reduced runs over whole rows, padding and
// all, so that a filling which is not the reduction's own shows in every element.
//
// Units: elements. Threads: plain values.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "coppice/runtime/block_kernel.h"
#include "coppice/runtime/kernel_image.h"

namespace coppice {

inline constexpr int kTrafficThreads = 64;

// Elements in memory, one behind the other, each the low bytes of a word.
struct TrafficElements {
  uint8_t* data = nullptr;
  int64_t bytes = 1;  // Of each; up to 8.

  COPPICE_ANYWHERE TrafficElements From(int64_t first) const {
    return {data + first * bytes, bytes};
  }
  COPPICE_ANYWHERE uint64_t At(int64_t i) const {
    uint64_t word = 0;
    memcpy(&word, data + i * bytes, static_cast<size_t>(bytes));
    return word;
  }
  COPPICE_ANYWHERE void Set(int64_t i, uint64_t word) const {
    memcpy(data + i * bytes, &word, static_cast<size_t>(bytes));
  }
};

COPPICE_ANYWHERE uint64_t MixWord(uint64_t x, uint64_t y, uint64_t salt) {
  uint64_t hash = x * 0x9E3779B97F4A7C15U + (y ^ 0x85EBCA77C2B2AE63U) * 0xC2B2AE3D27D4EB4FU +
                  salt * 0x165667B19E3779F9U;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBU;
  return hash ^ (hash >> 31);
}

// A salt that depends on a word of the parameter block as well.
COPPICE_ANYWHERE uint64_t FoldSalt(uint64_t salt, int64_t word) {
  return MixWord(salt, static_cast<uint64_t>(word), 0);
}

// What a row is reduced to, and which filling of its padding changes nothing.
enum class TrafficReduction : int32_t {
  kSum,      // Of the words; 0.
  kMaximum,  // Of the logits; what stands for no logit.
  kSoftmax,  // The share of each logit; the same.
  kChanges,  // Of all neighbours that differ, mixed; the last element again.
};

// A word's logit lies between -8 and 8, but that of `none`, which is -inf.
COPPICE_ANYWHERE float LogitOf(uint64_t word, uint64_t none) {
  if (word == none) return -INFINITY;
  return static_cast<float>(static_cast<int32_t>(MixWord(word, 0, 0))) * 0x1p-28F;
}

COPPICE_ANYWHERE uint32_t BitsOf(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Element `i` of what the first `n` elements of `row` are reduced to, in order.
COPPICE_ANYWHERE uint64_t ReduceRow(
    TrafficReduction reduction, const TrafficElements& row, int64_t n, int64_t i, uint64_t none) {
  uint64_t sum = 0;
  uint64_t changes = 0;
  float maximum = -INFINITY;
  for (int64_t k = 0; k < n; ++k) {
    sum += row.At(k);
    if (k > 0 && row.At(k) != row.At(k - 1)) changes += MixWord(row.At(k), row.At(k - 1), 0);
    maximum = fmaxf(maximum, LogitOf(row.At(k), none));
  }
  if (reduction == TrafficReduction::kSum) return sum;
  if (reduction == TrafficReduction::kChanges) return changes;
  if (reduction == TrafficReduction::kMaximum) return BitsOf(maximum);
  if (maximum == -INFINITY) return 0;  // The bits of a NaN may be any.
  float total = 0;
  for (int64_t k = 0; k < n; ++k)
    total += expf(LogitOf(row.At(k), none) - maximum);
  return BitsOf(expf(LogitOf(row.At(i), none) - maximum) / total);
}

// No struct of parameters has padding, whose bytes an audit of keys would compare.

// "TrafficReduce": z[i] = ReduceRow of the row of `n` elements that x[i] is in, for i < count.
struct TrafficReduceParams {
  TrafficElements x;
  TrafficElements z;
  int64_t count = 0;
  int64_t n = 1;
  uint64_t none = 0;  // The element that stands for no logit.
  TrafficReduction reduction = TrafficReduction::kSum;
  int32_t unused = 0;
};

// "TrafficMix": z[i] = MixWord(x[i], y[i % y_count], salt) for i < count; without y, of 0. With a
// `live_word` >= 0, only for i < words[live_word]. The salt is folded with the `salt_count` words
// from `salt_word` on.
struct TrafficMixParams {
  TrafficElements x;
  TrafficElements y;
  TrafficElements z;
  const int64_t* words = nullptr;  // The parameter block.
  int64_t count = 0;
  int64_t y_count = 1;
  uint64_t salt = 0;
  int32_t live_word = -1;
  int32_t salt_word = 0;
  int32_t salt_count = 0;
  int32_t unused = 0;
};

// How many of `n` elements a program counts, of which `x` is the first.
COPPICE_ANYWHERE int64_t CountOf(uint64_t x, int64_t n) {
  return n == 0 ? 0 : static_cast<int64_t>(MixWord(x, 0, 0) % static_cast<uint64_t>(n + 1));
}

// "TrafficCount": *z = CountOf(x[0], words[live_word]).
struct TrafficCountParams {
  TrafficElements x;
  TrafficElements z;
  const int64_t* words = nullptr;  // The parameter block.
  int32_t live_word = 0;
  int32_t unused = 0;
};

extern const KernelImage traffic_kernels_image;

}  // namespace coppice
