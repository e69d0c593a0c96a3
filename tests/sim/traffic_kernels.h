// The kernels of the simulated traffic, and the functions they compute, which its model calls too.
//
// Elements are words of 32 bits whatever the tensors' dtype says, so that results are compared bit
// for bit. What is mixed lets every input bit reach every output bit: no wrong input gives a right
// output. What is reduced runs over whole rows, padding and all, so that a filling which is not the
// reduction's own shows in every element.
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

COPPICE_ANYWHERE uint32_t MixWord(uint32_t x, uint32_t y, uint32_t salt) {
  uint32_t hash = x * 0x9E3779B1U + (y ^ 0x85EBCA6BU) * 0xC2B2AE3DU + salt * 0x27D4EB2FU;
  hash = (hash ^ (hash >> 15)) * 0x2C1B3C6DU;
  hash = (hash ^ (hash >> 12)) * 0x297A2D39U;
  return hash ^ (hash >> 15);
}

// A salt that depends on a word of the parameter block as well.
COPPICE_ANYWHERE uint32_t FoldSalt(uint32_t salt, int64_t word) {
  return MixWord(salt, static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32));
}

// What a row is reduced to, and which filling of its padding changes nothing.
enum class TrafficReduction : int32_t {
  kSum,      // Of the words; 0.
  kMaximum,  // Of the logits; -inf.
  kSoftmax,  // The share of each logit; -inf.
};

// A word's logit lies between -8 and 8, but that of the float -inf, which is -inf.
COPPICE_ANYWHERE float LogitOf(uint32_t word) {
  constexpr uint32_t kMinusInfinity = 0xFF800000U;
  if (word == kMinusInfinity) return -INFINITY;
  return static_cast<float>(static_cast<int32_t>(word)) * 0x1p-28F;
}

COPPICE_ANYWHERE uint32_t BitsOf(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Element `i` of what `n` elements from `row` on are reduced to, in order.
COPPICE_ANYWHERE uint32_t ReduceRow(TrafficReduction reduction,
                                    const uint32_t* row,
                                    int64_t n,
                                    int64_t i) {
  uint32_t sum = 0;
  float maximum = -INFINITY;
  for (int64_t k = 0; k < n; ++k) {
    sum += row[k];
    maximum = fmaxf(maximum, LogitOf(row[k]));
  }
  if (reduction == TrafficReduction::kSum) return sum;
  if (reduction == TrafficReduction::kMaximum) return BitsOf(maximum);
  float total = 0;
  for (int64_t k = 0; k < n; ++k)
    total += expf(LogitOf(row[k]) - maximum);
  return BitsOf(expf(LogitOf(row[i]) - maximum) / total);
}

// "TrafficReduce": z[i] = ReduceRow of the row of `n` elements that x[i] is in, for i < count.
struct TrafficReduceParams {
  const uint32_t* x = nullptr;
  uint32_t* z = nullptr;
  int64_t count = 0;
  int64_t n = 1;
  TrafficReduction reduction = TrafficReduction::kSum;
};

// "TrafficMix": z[i] = MixWord(x[i], y[i % y_count], salt) for i < count; y may be null, which
// reads as 0. With a `live_word` >= 0, only for i < words[live_word]. The salt is folded with the
// `salt_count` words from `salt_word` on.
struct TrafficMixParams {
  const uint32_t* x = nullptr;
  const uint32_t* y = nullptr;
  uint32_t* z = nullptr;
  const int64_t* words = nullptr;  // The parameter block.
  int64_t count = 0;
  int64_t y_count = 1;
  uint32_t salt = 0;
  int32_t live_word = -1;
  int32_t salt_word = 0;
  int32_t salt_count = 0;
};

extern const KernelImage traffic_kernels_image;

}  // namespace coppice
