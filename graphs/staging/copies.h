// What a staged copy is made of: its units, the place of each, its noise, and its axes. Private to
// graphs/.
//
// Units: as staging_params.h. Threads: device code; pure functions.

#pragma once

#include <cstdint>

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

#include "graphs/staging/units.h"

namespace coppice::internal {

template <int kRank>
COPPICE_ANYWHERE int64_t PaddedElements(const StagedCopyOf<kRank>& copy) {
  int64_t count = 1;
  for (int axis = 0; axis < kRank; ++axis)
    count *= copy.padded[axis];
  return count;
}

// The bytes of the largest unit in which rows can be moved: all that begins or ends one is a
// multiple of it.
template <int kRank>
COPPICE_ANYWHERE int UnitBytes(const StagedCopyOf<kRank>& copy) {
  constexpr int kLast = kRank - 1;
  const auto element = static_cast<uint64_t>(copy.element_bytes);
  const bool whole_rows = copy.sizes[kLast] == copy.padded[kLast];
  // A sequence of rows that are one element each begins anywhere.
  const bool anywhere = copy.rows == StagedRows::kRectangle && copy.rows_axis + 1 == kLast;
  if (copy.strides[kLast] != 1 || copy.target_strides[kLast] != 1 || anywhere ||
      (copy.padding == StagedPadding::kRepeatLast && !whole_rows)) {
    return copy.element_bytes;
  }
  uint64_t bits = copy.source | copy.target | 16;
  bits |= static_cast<uint64_t>(copy.sizes[kLast] | copy.padded[kLast]) * element;
  for (int axis = 0; axis < kLast; ++axis)
    bits |= static_cast<uint64_t>(copy.strides[axis] | copy.target_strides[axis]) * element;
  return static_cast<int>(bits & (~bits + 1));
}

// The copy with units of `bytes` in place of elements.
template <int kRank>
COPPICE_ANYWHERE StagedCopyOf<kRank> InUnits(StagedCopyOf<kRank> copy, int bytes) {
  const int64_t elements = bytes / copy.element_bytes;
  if (copy.padding != StagedPadding::kNoise)
    for (int width = copy.element_bytes; width < 8 && width < bytes; width *= 2)
      copy.fill |= copy.fill << (8 * width);
  for (int axis = 0; axis + 1 < kRank; ++axis) {
    copy.strides[axis] /= elements;
    copy.target_strides[axis] /= elements;
  }
  copy.sizes[kRank - 1] /= elements;
  copy.padded[kRank - 1] /= elements;
  return copy;
}

// The place of one element in the padded tensor, outermost axis first.
template <int kRank>
struct Place {
  int64_t index[kRank] = {};

  // Moves `count` elements on. Divides only where that leaves the row.
  COPPICE_DEVICE void Advance(int64_t count, const StagedCopyOf<kRank>& copy) {
    index[kRank - 1] += count;
    for (int axis = kRank - 1; axis > 0; --axis) {
      if (index[axis] < copy.padded[axis]) return;
      const int64_t rows = index[axis] / copy.padded[axis];
      index[axis] -= rows * copy.padded[axis];
      index[axis - 1] += rows;
    }
  }
};

// Word `index` of the noise of this seed; patterns.cc draws the same.
COPPICE_ANYWHERE uint64_t NoiseWord(uint64_t seed, uint64_t index) {
  uint64_t word = seed + (index + 1) * 0x9E37'79B9'7F4A'7C15;
  word = (word ^ word >> 30) * 0xBF58'476D'1CE4'E5B9;
  word = (word ^ word >> 27) * 0x94D0'49BB'1331'11EB;
  return word ^ word >> 31;
}

// The same with the bits of floats that the copy holds.
template <int kRank>
COPPICE_ANYWHERE uint64_t HeldNoise(const StagedCopyOf<kRank>& copy, uint64_t index) {
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

// The noise `at` units from the start of the target, whatever the unit.
template <typename Unit, int kRank>
COPPICE_ANYWHERE Unit NoiseAt(const StagedCopyOf<kRank>& copy, int64_t at) {
  const uint64_t byte = static_cast<uint64_t>(at) * sizeof(Unit);
  const uint64_t word = HeldNoise(copy, byte / 8);
  if constexpr (sizeof(Unit) == 16)
    return {word, HeldNoise(copy, byte / 8 + 1)};
  else
    return static_cast<Unit>(word >> (8 * (byte % 8)));
}

// The copy with as many axes as there may be: those that it lacks lead, with one element.
template <int kRank>
COPPICE_DEVICE StagedCopyOf<kStagingRankMax> Widened(const StagedCopyOf<kRank>& from) {
  constexpr int kMore = kStagingRankMax - kRank;
  StagedCopyOf<kStagingRankMax> copy = {.source = from.source,
                                        .target = from.target,
                                        .fill = from.fill,
                                        .tiles = from.tiles,
                                        .element_bytes = from.element_bytes,
                                        .noise_set = from.noise_set,
                                        .noise_clear = from.noise_clear,
                                        .padding = from.padding,
                                        .rows = from.rows,
                                        .rows_axis = static_cast<int8_t>(from.rows_axis + kMore),
                                        .ragged = from.ragged};
  for (int axis = 0; axis < kStagingRankMax; ++axis) {
    const int at = axis - kMore;
    copy.sizes[axis] = at < 0 ? 1 : from.sizes[at];
    copy.strides[axis] = at < 0 ? 0 : from.strides[at];
    copy.padded[axis] = at < 0 ? 1 : from.padded[at];
    copy.target_strides[axis] = at < 0 ? 0 : from.target_strides[at];
  }
  return copy;
}

}  // namespace coppice::internal
