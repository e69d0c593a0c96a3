// The arguments of the staging kernels, shared by the host that fills them and the kernels that
// read them. See staging.h.
//
//   | header | copy 0 | its axes | copy 1 | its axes | ...      copies have equal numbers of axes
//
// There are kernels with parameters of several sizes, because a driver copies all parameters at
// every launch. The arguments of a smaller kernel are a prefix of those of a larger one. Some
// kernels handle ragged sequences, too.
//
// Units: sizes and strides in elements. Threads: plain values.

#pragma once

#include <cstddef>
#include <cstdint>

namespace coppice {

inline constexpr int kStagingRankMax = 8;
inline constexpr int kStagingCopiesMax = 256;   // Copies of one launch; a thread checks each.
inline constexpr int kParameterWordsMax = 26;   // kSymbolsMax + kScalarsMax + the random state.
inline constexpr int kStagingCountsMax = 8;     // kSymbolsMax.
inline constexpr int kStagingRaggedMax = 2;     // kRaggedMax.
inline constexpr int kStagingTileBytes = 4096;  // Bytes that a block stages.
inline constexpr int kPackUnitsPerBlock = 1024;

// Bytes of the kernels' parameters. Since CUDA 12.1 a kernel for compute capability 7.0 or later
// may have 32,764 (CUDA C++ Programming Guide, Kernel Function Arguments).
inline constexpr int kSmallStagingBytes = 1'008;
inline constexpr int kMediumStagingBytes = 4'096;
inline constexpr int kWideStagingBytes = 32'760;

// What a copy's padding is filled with.
enum class StagedPadding : int8_t { kFill, kRepeatLast, kSkip, kNoise };

// The meaning of the rows along an axis of a copy's source.
enum class StagedRows : int8_t {
  kPlain,      // Rows of the tensor itself.
  kPacked,     // Rows of ragged sequences. Their number is the sum of the lengths.
  kRectangle,  // The same, but they become two axes of the target: sequences, and rows of each.
};

// One axis of a copy, outermost first.
struct StagedAxis {
  int64_t size;    // Real size; -1 - i: the final value of word i.
  int64_t stride;  // Stride of the source.
  int64_t padded;  // Size of the target.
  int64_t target_stride;
};

// How one tensor is copied from its source to its target. StagedAxis structs follow until the bytes
// of a copy are full; this copy uses the first `rank` of them.
struct StagedCopy {
  unsigned long long source;  // May be 0: then every element is padding.
  unsigned long long target;
  uint64_t fill;         // Bit pattern of a padding element; for noise, its seed.
  int64_t end_tile;      // Where the tiles of the next copy begin, in blocks: see TilesFor.
  int8_t rank;           // At least 1.
  int8_t element_bytes;  // 1, 2, 4 or 8.
  int8_t noise_set;      // For noise, the bit that is set in each float; -1: none. In an element of
                         // 8 bytes, a bit below 32 applies to both halves. The same holds for
                         // `noise_clear`.
  int8_t noise_clear;    // The bit that is cleared, below `noise_set`.
  StagedPadding padding;
  StagedRows rows;
  int8_t rows_axis;  // The axis of packed rows; for a rectangle, the axis of its sequences, with
                     // stride 0.
  int8_t ragged;     // The set of sequences that the rows belong to.
};

// Bytes of one copy in a launch whose copies have `rank` axes.
constexpr int64_t StagedCopyBytes(int rank) {
  return static_cast<int64_t>(sizeof(StagedCopy) + sizeof(StagedAxis) * static_cast<size_t>(rank));
}

// Elements of `element_bytes` bytes that a block stages.
constexpr int64_t TileElements(int64_t element_bytes) {
  return kStagingTileBytes / element_bytes;
}

// Blocks that stage `elements` padded elements of `element_bytes` bytes.
constexpr int64_t TilesFor(int64_t elements, int64_t element_bytes) {
  return (elements * element_bytes + kStagingTileBytes - 1) / kStagingTileBytes;
}

// A set of ragged sequences: where the device finds their lengths, and where it writes their
// offsets.
struct StagedRagged {
  unsigned long long lengths = 0;  // Address of the lengths, or of the offsets; 0: all sequences
                                   // are empty.
  unsigned long long offsets = 0;  // Where the offset of each sequence and the end of the last are
                                   // written; 0: nowhere.
  int64_t stride = 0;              // Of the lengths.
  int64_t count = 0;               // Number of real sequences.
  int64_t slots = 0;               // Number of places for sequences.
  int64_t rows = 0;                // Rows of the packed tensors: no offset is larger.
  int16_t total_word = 0;          // The word that becomes the end of the last sequence.
  bool narrow = false;             // Lengths and offsets have 4 bytes, not 8.
  bool by_offsets = false;         // `lengths` holds offsets.
  int32_t unused = 0;
};

struct StagingHeader {
  unsigned long long parameter_block = 0;  // Where the words go.
  int16_t word_count = 0;
  int16_t copy_count = 0;
  int16_t copy_bytes = 0;     // Bytes of a copy with its axes: see StagedCopyBytes.
  uint8_t narrow_counts = 0;  // One bit per count: set if it has 4 bytes, not 8.
  uint8_t ragged_count = 0;
  // Addresses of signed values that replace the first words, clamped to [0, word]; 0: the word
  // stays.
  unsigned long long counts[kStagingCountsMax] = {};
  StagedRagged ragged[kStagingRaggedMax] = {};
  int64_t words[kParameterWordsMax] = {};
};

template <int kBytes>
struct StagingParamsOf {  // NOLINT(cppcoreguidelines-pro-type-member-init): bytes of a driver's.
  StagingHeader header;
  alignas(8) unsigned char copies[static_cast<size_t>(kBytes) - sizeof(StagingHeader)];
};

// The arguments of the kernel that packs a rectangle [sequences, length, row] into [rows, row],
// both row-major, by the offsets that staging wrote. Packed rows that belong to no sequence become
// zeros, and so do rows of a sequence beyond the limit.
struct PackParams {
  unsigned long long source;
  unsigned long long target;
  unsigned long long offsets;  // Offsets of `sequences` sequences, and the end of the last.
  unsigned long long limit;    // Address of the largest number of rows of a sequence, 8 bytes.
  int64_t sequences;
  int64_t length;
  int64_t rows;
  int64_t row_units;     // Units of a row.
  int32_t unit_bytes;    // 1, 2, 4, 8 or 16; both addresses and the bytes of a row are multiples of
                         // this.
  int32_t offset_bytes;  // 4 or 8.
};

}  // namespace coppice
