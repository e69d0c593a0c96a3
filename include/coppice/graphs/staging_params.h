// The arguments of the staging kernels, shared by the host that fills them and the kernels that
// read them. See staging.h.
//
//   | header | copy 0 | copy 1 | ...      copies of one launch have one rank, so one size
//
// The three kernels differ in the bytes of their parameters alone, because a driver copies all of
// them at every launch: the arguments of a smaller one are a prefix of a larger one's.
//
// Units: sizes and strides in elements. Threads: plain values.

#pragma once

#include <cstddef>
#include <cstdint>

namespace coppice {

inline constexpr int kStagingRankMax = 8;      // A power of two; ranks are rounded up to one.
inline constexpr int kStagingCopiesMax = 256;  // Of one launch: a thread looks at each.
inline constexpr int kParameterWordsMax = 26;  // kSymbolsMax + kScalarsMax + the random state.
inline constexpr int kStagingCountsMax = 8;    // kSymbolsMax.
inline constexpr int kStagingElementsPerBlock = 1024;

// Bytes of the kernels' parameters. Since CUDA 12.1 a kernel for compute capability 7.0 or later
// may have 32,764 (CUDA C++ Programming Guide, Kernel Function Arguments).
inline constexpr int kSmallStagingBytes = 896;
inline constexpr int kMediumStagingBytes = 4'096;
inline constexpr int kWideStagingBytes = 32'760;

// What a copy's padding becomes.
enum class StagedPadding : int32_t { kFill, kRepeatLast, kSkip, kNoise };

// How one tensor gets from its source to its place. Leading axes that it lacks have one element.
template <int kRank>
struct StagedCopyOf {
  unsigned long long source;  // May be 0: then every element is padding.
  unsigned long long target;
  uint64_t fill;          // Bit pattern of a padding element; of noise its seed.
  int64_t tiles;          // Blocks that stage it: see TilesFor.
  int16_t element_bytes;  // 1, 2, 4 or 8.
  int8_t noise_set;       // In noise, the bit of each float that is 1; -1: none. Below bit 32 of an
                          // element of 8 bytes it is there in both halves, as is the next.
  int8_t noise_clear;     // The bit that is 0, below that one.
  StagedPadding padding;
  int64_t sizes[kRank];    // Real; -1 - i: what word i becomes.
  int64_t strides[kRank];  // Of the source.
  int64_t padded[kRank];   // Of the target.
  int64_t target_strides[kRank];
};

// Bytes of one copy of this rank.
constexpr int64_t StagedCopyBytes(int rank) {
  return 40 + 32 * int64_t{rank};
}
static_assert(sizeof(StagedCopyOf<1>) == StagedCopyBytes(1));
static_assert(sizeof(StagedCopyOf<8>) == StagedCopyBytes(8));

// Blocks that stage `elements` padded elements.
constexpr int64_t TilesFor(int64_t elements) {
  return (elements + kStagingElementsPerBlock - 1) / kStagingElementsPerBlock;
}

struct StagingHeader {
  unsigned long long parameter_block = 0;  // Where the words go.
  int16_t word_count = 0;
  int16_t copy_count = 0;
  int16_t rank = 1;            // Of the copies: 1, 2, 4 or 8.
  uint16_t narrow_counts = 0;  // Bit per count that has 4 bytes, not 8.
  // Addresses of what the first words become, signed, held to [0, word]; 0: the word itself.
  unsigned long long counts[kStagingCountsMax] = {};
  int64_t words[kParameterWordsMax] = {};
};

template <int kBytes>
struct StagingParamsOf {
  StagingHeader header;
  // StagedCopyOf<header.rank>, one behind the other.
  alignas(8) unsigned char copies[static_cast<size_t>(kBytes) - sizeof(StagingHeader)];
};

}  // namespace coppice
