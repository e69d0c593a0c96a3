// The arguments of the staging kernel, shared by the host that fills them and the kernel that reads
// them. See staging.h.
//
// Units: sizes and strides in elements. Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

inline constexpr int kStagingRank = 4;
inline constexpr int kSmallStagingCopies = 4;
inline constexpr int kLargeStagingCopies = 24;
inline constexpr int kParameterWordsMax = 26;  // kSymbolsMax + kScalarsMax + the random state.
inline constexpr int kStagingElementsPerBlock = 1024;

// How one input gets from the caller's memory to its staged place.
struct StagedCopy {
  enum Padding : int32_t { kFill = 0, kRepeatLast = 1, kSkip = 2 };

  unsigned long long source = 0;  // May be 0: then every element is padding.
  unsigned long long target = 0;
  int64_t sizes[kStagingRank] = {1, 1, 1, 1};    // Real.
  int64_t padded[kStagingRank] = {1, 1, 1, 1};   // Of the dense target.
  int64_t strides[kStagingRank] = {0, 0, 0, 0};  // Of the source.
  uint64_t fill = 0;                             // Bit pattern of a padding element.
  int64_t tiles = 1;                             // Blocks that stage it: see TilesFor.
  int32_t element_bytes = 4;                     // 1, 2, 4 or 8.
  int32_t padding = kFill;
};

// Blocks that stage `elements` padded elements.
constexpr int64_t TilesFor(int64_t elements) {
  return (elements + kStagingElementsPerBlock - 1) / kStagingElementsPerBlock;
}

// Everything but the copies; the two kernel sizes share it.
struct StagingHeader {
  unsigned long long parameter_block = 0;  // Where the words go.
  int32_t word_count = 0;
  int32_t copy_count = 0;
  int64_t words[kParameterWordsMax] = {};
};

template <int kCopies>
struct StagingParamsOf {
  StagingHeader header;
  StagedCopy copies[kCopies];
};

using StagingParams = StagingParamsOf<kLargeStagingCopies>;
static_assert(sizeof(StagingParams) <= 4096, "kernel parameters are limited to 4 KiB");

}  // namespace coppice
