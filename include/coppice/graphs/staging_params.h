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
inline constexpr int kStagingRaggedMax = 2;    // kRaggedMax.
inline constexpr int kStagingElementsPerBlock = 1024;

// Bytes of the kernels' parameters. Since CUDA 12.1 a kernel for compute capability 7.0 or later
// may have 32,764 (CUDA C++ Programming Guide, Kernel Function Arguments).
inline constexpr int kSmallStagingBytes = 1'008;
inline constexpr int kMediumStagingBytes = 4'096;
inline constexpr int kWideStagingBytes = 32'760;

// What a copy's padding becomes.
enum class StagedPadding : int8_t { kFill, kRepeatLast, kSkip, kNoise };

// Whose rows an axis of a copy's source has.
enum class StagedRows : int8_t {
  kPlain,      // Its own.
  kPacked,     // Those of ragged sequences, as many as their lengths say.
  kRectangle,  // The same, which become two axes of the target: sequences, and rows of each.
};

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
  StagedRows rows;
  int8_t
      rows_axis;  // Of packed rows; of a rectangle the axis of its sequences, which has stride 0.
  int8_t ragged;  // Whose rows they are.
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

// Ragged sequences: where the device finds how long each is, and what it makes of that.
struct StagedRagged {
  unsigned long long lengths = 0;  // One for each, or offsets; 0: all sequences are empty.
  unsigned long long offsets = 0;  // Where each one's offset and the last end go; 0: nowhere.
  int64_t stride = 0;              // Of the lengths.
  int64_t count = 0;               // Real sequences ...
  int64_t slots = 0;               // ... and places for some.
  int64_t rows = 0;                // Of the packed tensors: no offset is larger.
  int16_t total_word = 0;          // What the last end becomes.
  bool narrow = false;             // Lengths and offsets have 4 bytes, not 8.
  bool by_offsets = false;         // What is read are offsets.
  int32_t unused = 0;
};

struct StagingHeader {
  unsigned long long parameter_block = 0;  // Where the words go.
  int16_t word_count = 0;
  int16_t copy_count = 0;
  int16_t rank = 1;           // Of the copies: 1, 2, 4 or 8.
  uint8_t narrow_counts = 0;  // Bit per count that has 4 bytes, not 8.
  uint8_t ragged_count = 0;
  // Addresses of what the first words become, signed, held to [0, word]; 0: the word itself.
  unsigned long long counts[kStagingCountsMax] = {};
  StagedRagged ragged[kStagingRaggedMax] = {};
  int64_t words[kParameterWordsMax] = {};
};

template <int kBytes>
struct StagingParamsOf {  // NOLINT(cppcoreguidelines-pro-type-member-init): bytes of a driver's.
  StagingHeader header;
  // StagedCopyOf<header.rank>, one behind the other.
  alignas(8) unsigned char copies[static_cast<size_t>(kBytes) - sizeof(StagingHeader)];
};

// The arguments of the kernel that packs a rectangle [sequences, length, row] into [rows, row],
// both row-major, by the offsets that staging wrote. What no sequence has becomes zeros,
// as do rows of one beyond the limit.
struct PackParams {
  unsigned long long source;
  unsigned long long target;
  unsigned long long offsets;  // Of `sequences` and the last end.
  unsigned long long limit;    // The address of how many rows of each count, 8 bytes.
  int64_t sequences;
  int64_t length;
  int64_t rows;
  int64_t row_units;     // Units of a row.
  int32_t unit_bytes;    // 1, 2, 4, 8 or 16: what both addresses and the rows are multiples of.
  int32_t offset_bytes;  // 4 or 8.
};

}  // namespace coppice
