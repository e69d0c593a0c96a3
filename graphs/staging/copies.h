// Staged copies as kernels and their declarations read them, and their noise. Private to graphs/.
//
// Units: as staging_params.h. Threads: device code; pure functions.

#pragma once

#include <cstdint>

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

#include "graphs/staging/units.h"

namespace coppice::internal {

// Copy `index` of those behind the header.
COPPICE_ANYWHERE const StagedCopy& CopyAt(const StagingHeader& header, int index) {
  const auto* const copies = reinterpret_cast<const unsigned char*>(&header) + sizeof(header);
  return *reinterpret_cast<const StagedCopy*>(copies + index * header.copy_bytes);
}

COPPICE_ANYWHERE const StagedAxis* AxesOf(const StagedCopy& copy) {
  return reinterpret_cast<const StagedAxis*>(&copy + 1);
}

// The noise of this seed, word `index`; patterns.cc draws the same.
COPPICE_ANYWHERE uint64_t NoiseWord(uint64_t seed, uint64_t index) {
  uint64_t word = seed + (index + 1) * 0x9E37'79B9'7F4A'7C15;
  word = (word ^ word >> 30) * 0xBF58'476D'1CE4'E5B9;
  word = (word ^ word >> 27) * 0x94D0'49BB'1331'11EB;
  return word ^ word >> 31;
}

// The same with the bits of floats that the copy holds.
COPPICE_ANYWHERE uint64_t HeldNoise(const StagedCopy& copy, uint64_t index) {
  uint64_t word = NoiseWord(copy.fill, index);
  if (copy.noise_set < 0) return word;
  const bool halves = copy.element_bytes == 8 && copy.noise_set < 32;
  const int period = halves ? 32 : 8 * copy.element_bytes;
  for (int part = 0; part < 64; part += period) {
    word |= uint64_t{1} << (part + copy.noise_set);
    word &= ~(uint64_t{1} << (part + copy.noise_clear));
  }
  return word;
}

// What padding the unit of `bytes` that begins so far into the target becomes.
COPPICE_ANYWHERE Unit16 PaddingAt(const StagedCopy& copy, uint64_t fill, int64_t unit, int bytes) {
  if (copy.padding != StagedPadding::kNoise) return {fill, fill};
  const uint64_t byte = static_cast<uint64_t>(unit) * static_cast<uint64_t>(bytes);
  const uint64_t word = HeldNoise(copy, byte / 8) >> (8 * (byte % 8));
  return {word, bytes == sizeof(Unit16) ? HeldNoise(copy, byte / 8 + 1) : 0};
}

}  // namespace coppice::internal
