// The one kernel of the simulated traffic, and the function it computes, which its model calls too.
//
// Elements are words of 32 bits whatever the tensors' dtype says, so that results are compared bit
// for bit and every input bit reaches every output bit: no wrong input gives a right output.
//
// Units: elements. Threads: plain values.

#pragma once

#include <cstdint>

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
