// The arithmetic of the soak test, shared by its kernel and by the host that knows the answer.
//
// A call's values are a chain: value 0 is the input, and each of kSoakSteps steps makes the next
// one from the value before it and from that kSoakReach steps back, or from the input. The last
// value is the output. So a few values are needed at any time, and the bytes of older ones are free
// for those to come. A step is one-to-one in each of the two words it reads: a word that is written
// over before its time changes what follows from it.
//
// Units: counts and extents are in words of 32 bits. Threads: plain values.

#pragma once

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

namespace coppice {

inline constexpr int kSoakThreads = 256;  // Of a block.
inline constexpr int kSoakSteps = 6;
inline constexpr int kSoakReach = 3;

// Number of the value that step `step` (from 0) reads beside value `step`.
COPPICE_ANYWHERE constexpr int SoakOlder(int step) {
  return step + 1 > kSoakReach ? step + 1 - kSoakReach : 0;
}

// What a step adds beside the call's salt.
COPPICE_ANYWHERE constexpr uint32_t SoakConstant(int step) {
  return 0x7F4A7C15U * static_cast<uint32_t>(step + 1);
}

// Word i of a step's result, of word i of the newer value and word extent - 1 - i of the older.
COPPICE_ANYWHERE constexpr uint32_t SoakMix(uint32_t newer, uint32_t older, uint32_t added) {
  return (newer ^ (older << 13 | older >> 19)) * 0x9E3779B1U + added;
}

// The kernel "SoakStep": one step.
struct SoakStepParams {
  const uint32_t* newer = nullptr;
  const uint32_t* older = nullptr;
  uint32_t* target = nullptr;
  const int64_t* parameters = nullptr;  // The parameter block: the real extent and the salt.
  int64_t capacity = 0;                 // The padded extent.
  int32_t extent_word = 0;
  int32_t salt_word = 0;
  uint32_t constant = 0;
};

extern const KernelImage soak_kernels_image;

}  // namespace coppice
