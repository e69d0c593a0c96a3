// The staging kernels: each copies and pads tensors and writes the parameter block; they differ in
// how many copies their parameters hold, and in whether some rows are those of ragged sequences.
//
// The padded bytes of every copy are cut into tiles, the last one of a copy perhaps short, and the
// tiles of all copies are laid end to end: block x does tile x. Block 0 also writes the words.
//
//   copy        0        1  (empty)  2
//   tiles    |--|--|-|           |--|--|--|-|
//   block     0  1  2             3  4  5  6
//
// One thread finds what its block stages, and all of them read that. Ranks and units are values,
// not types, so that there is one small loop for all. A tile of ragged rows first learns where
// those of its sequences begin: see sequences.h.

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

#include "graphs/staging/copies.h"
#include "graphs/staging/sequences.h"
#include "graphs/staging/tile.h"
#include "graphs/staging/units.h"

namespace coppice {
namespace {

using internal::AxesOf;
using internal::CopyAt;
using internal::CopyOfTile;
using internal::ForEachIndex;
using internal::ForEachOffset;
using internal::LowOf;
using internal::PaddingAt;
using internal::PointerTo;
using internal::SetTile;
using internal::Tile;
using internal::TotalRows;
using internal::Unit16;
using internal::WithUnit;

constexpr int kThreads = 256;
constexpr int kSequencesMax = kStagingTileBytes;  // Of a tile.

// What word `index` of the parameter block becomes.
COPPICE_DEVICE int64_t WordAt(const StagingHeader& header, int index) {
  const int64_t word = header.words[index];
  const unsigned long long count = index < kStagingCountsMax ? header.counts[index] : 0;
  if (count == 0) return word;
  const bool narrow = (header.narrow_counts >> index & 1) != 0;
  const int64_t value =
      narrow ? *PointerTo<const int32_t>(count) : *PointerTo<const int64_t>(count);
  return value < 0 ? 0 : value < word ? value : word;
}

// The real size of a copy's axis, which the device may decide.
COPPICE_DEVICE int64_t SizeAlong(const StagingHeader& header, const StagedAxis& axis) {
  return axis.size < 0 ? WordAt(header, static_cast<int>(-1 - axis.size)) : axis.size;
}

// Whether word `index` is for StageOffsets to write.
COPPICE_DEVICE bool IsTotal(const StagingHeader& header, int index) {
  for (int i = 0; i < header.ragged_count; ++i)
    if (header.ragged[i].total_word == index) return true;
  return false;
}

template <typename Block>
COPPICE_DEVICE void StageWords(const Block& block, const StagingHeader& header) {
  if (block.x() != 0) return;
  block.ForEach([&](int thread) {
    if (thread < header.word_count && !IsTotal(header, thread))
      PointerTo<int64_t>(header.parameter_block)[thread] = WordAt(header, thread);
  });
}

// Writes where the sequences of the header begin and the last one ends, and those totals.
template <typename Block>
COPPICE_DEVICE void StageOffsets(const Block& block, const StagingHeader& header) {
  if (block.x() != 0 || header.word_count == 0) return;
  for (int i = 0; i < header.ragged_count; ++i) {
    const StagedRagged& ragged = header.ragged[i];
    ForEachOffset(block, ragged, ragged.slots, [&](int64_t sequence, int64_t offset) {
      if (ragged.narrow)
        PointerTo<int32_t>(ragged.offsets)[sequence] = static_cast<int32_t>(offset);
      else
        PointerTo<int64_t>(ragged.offsets)[sequence] = offset;
      if (sequence == ragged.slots)
        PointerTo<int64_t>(header.parameter_block)[ragged.total_word] = offset;
    });
  }
}

// The source of a copy whose rows are no rectangle.
struct PlainSource {
  // Whether it has the row that ForEachIndex has come to.
  COPPICE_DEVICE bool Has(int64_t, int64_t) const { return true; }
  COPPICE_DEVICE int64_t Before(int64_t) const { return 0; }
};

// The source of some of a rectangle's sequences.
struct RectangleSource {
  const int64_t* offsets;  // Of those sequences, and the end of the last, in rows.
  int64_t first;           // Sequence.
  int64_t real;            // Sequences; those from there on have no offset.
  int64_t stride;          // Of a row.

  COPPICE_DEVICE bool Has(int64_t sequence, int64_t row) const {
    if (sequence >= real) return false;
    const int64_t* const begin = offsets + (sequence - first);
    return row < begin[1] - begin[0];
  }
  // Units before the first row of this sequence, which there is.
  COPPICE_DEVICE int64_t Before(int64_t sequence) const {
    return offsets[sequence - first] * stride;
  }
};

template <typename Source>
COPPICE_DEVICE void StageUnit(const StagedCopy& copy,
                              const Tile& tile,
                              int unit,
                              const Source& source) {
  bool inside = true;
  int64_t from = 0;
  int64_t to = 0;
  int64_t sequence = 0;
  int64_t row = 0;
  ForEachIndex(tile, unit, [&](int axis, int64_t index) {
    const auto& along = tile.axes[axis];
    const bool real = index < along.size;
    inside = inside && real;
    from += (real ? index : along.size - 1) * along.stride;
    to += index * along.target_stride;
    if (axis == copy.rows_axis) sequence = index;
    if (axis == copy.rows_axis + 1) row = index;
  });
  if (inside && source.Has(sequence, row))
    from += source.Before(sequence);
  else
    inside = false;
  if (tile.readable && (inside || copy.padding == StagedPadding::kRepeatLast)) {
    WithUnit(tile.unit_bytes, [&](auto any) {
      using Unit = decltype(any);
      PointerTo<Unit>(copy.target)[to] = PointerTo<const Unit>(copy.source)[from];
    });
  } else if (copy.padding != StagedPadding::kSkip) {
    const Unit16 padding = PaddingAt(copy, tile.fill, to, tile.unit_bytes);
    WithUnit(tile.unit_bytes, [&](auto any) {
      using Unit = decltype(any);
      PointerTo<Unit>(copy.target)[to] = LowOf<Unit>(padding);
    });
  }
}

template <typename Block, typename Source>
COPPICE_DEVICE void StageUnits(const Block& block,
                               const StagedCopy& copy,
                               const Tile& tile,
                               const Source& source) {
  block.ForEach([&](int thread) {
    COPPICE_NOT_UNROLLED
    for (int unit = thread; unit < tile.count; unit += Block::kThreads)
      StageUnit(copy, tile, unit, source);
  });
}

// Makes the block's tile of copy `index`, whose axis of packed rows has `packed` at most.
template <typename Block>
COPPICE_DEVICE void FindTile(
    const Block& block, const StagingHeader& header, int index, int64_t packed, Tile* tile) {
  const StagedCopy& copy = CopyAt(header, index);
  const int64_t first = index == 0 ? 0 : CopyAt(header, index - 1).end_tile;
  block.ForEach([&](int thread) {
    if (thread != 0) return;
    const auto size_of = [&](int axis) {
      const int64_t size = SizeAlong(header, AxesOf(copy)[axis]);
      const bool held = copy.rows == StagedRows::kPacked && axis == copy.rows_axis;
      return held && packed < size ? packed : size;
    };
    SetTile(copy, block.x() - first, size_of, *tile);
  });
  block.Sync();
}

// The usual launch.
template <typename Block>
COPPICE_DEVICE void StagePlain(const Block& block, const StagingHeader& header) {
  COPPICE_SHARED(Tile, tile, 1);
  StageWords(block, header);
  const int index = CopyOfTile(header, block.x());
  if (index == header.copy_count) return;
  FindTile(block, header, index, 0, tile);
  StageUnits(block, CopyAt(header, index), *tile, PlainSource());
}

// Stages a tile of a rectangle.
template <typename Block>
COPPICE_DEVICE void StageRectangle(const Block& block,
                                   const StagingHeader& header,
                                   const StagedCopy& copy,
                                   const Tile& tile,
                                   int64_t* offsets) {
  const StagedRagged& ragged = header.ragged[copy.ragged];
  const int64_t first = tile.axes[copy.rows_axis].first;
  int64_t behind = first;
  ForEachIndex(tile, tile.count - 1, [&](int axis, int64_t index) {
    if (axis == copy.rows_axis) behind = index + 1;
  });
  ForEachOffset(block, ragged, behind, [&](int64_t sequence, int64_t offset) {
    if (sequence >= first) offsets[sequence - first] = offset;
  });
  StageUnits(block, copy, tile,
             RectangleSource{.offsets = offsets,
                             .first = first,
                             .real = ragged.count,
                             .stride = tile.axes[copy.rows_axis + 1].stride});
}

template <typename Block>
COPPICE_DEVICE void StageRagged(const Block& block, const StagingHeader& header) {
  COPPICE_SHARED(Tile, tile, 1);
  COPPICE_SHARED(int64_t, offsets, kSequencesMax + 1);
  StageWords(block, header);
  StageOffsets(block, header);
  const int index = CopyOfTile(header, block.x());
  if (index == header.copy_count) return;
  const StagedCopy& copy = CopyAt(header, index);
  const bool packed = copy.rows == StagedRows::kPacked;
  FindTile(block, header, index, packed ? TotalRows(block, header.ragged[copy.ragged]) : 0, tile);
  if (copy.rows == StagedRows::kRectangle)
    StageRectangle(block, header, copy, *tile, offsets);
  else
    StageUnits(block, copy, *tile, PlainSource());
}

// The bytes from the first to behind the last of such elements, whose strides may be any.
struct Extent {
  int64_t before = 0;  // Elements that the first one in memory lies before the address.
  int64_t behind = 1;
  bool empty = false;

  void Add(int64_t size, int64_t stride) {
    empty |= size == 0;
    const int64_t span = (size - 1) * stride;
    (span < 0 ? before : behind) += span;
  }
};

// Of what the device decides, the most that it may be.
void DeclareCopy(const StagedCopy& copy, const StagingHeader& header, KernelAccesses& accesses) {
  Extent source{.empty = copy.source == 0};
  Extent target;
  for (int axis = 0; axis < copy.rank; ++axis) {
    const StagedAxis& along = AxesOf(copy)[axis];
    int64_t size = along.size;
    // A rectangle reads all packed rows, whoever has them, and of no sequence more.
    if (copy.rows == StagedRows::kRectangle && axis == copy.rows_axis + 1)
      size = header.ragged[copy.ragged].rows;
    source.Add(size < 0 ? header.words[-1 - size] : size, along.stride);
    target.Add(along.padded, along.target_stride);
  }
  const int64_t bytes = copy.element_bytes;
  if (!source.empty)
    accesses.Reads(PointerTo<const char>(copy.source) + source.before * bytes,
                   (source.behind - source.before) * bytes);
  if (!target.empty)
    accesses.Writes(PointerTo<char>(copy.target) + target.before * bytes,
                    (target.behind - target.before) * bytes);
}

void DeclareSequences(const StagedRagged& ragged,
                      const StagingHeader& header,
                      KernelAccesses& accesses) {
  const int64_t bytes = ragged.narrow ? 4 : 8;
  Extent lengths{.empty = ragged.lengths == 0};
  lengths.Add(ragged.count + (ragged.by_offsets ? 1 : 0), ragged.stride);
  if (!lengths.empty)
    accesses.Reads(PointerTo<const char>(ragged.lengths) + lengths.before * bytes,
                   (lengths.behind - lengths.before) * bytes);
  if (header.word_count > 0)
    accesses.Writes(PointerTo<char>(ragged.offsets), (ragged.slots + 1) * bytes);
}

void DeclareStaging(const StagingHeader& header, KernelAccesses& accesses) {
  accesses.Writes(PointerTo<int64_t>(header.parameter_block), header.word_count);
  for (int i = 0; i < kStagingCountsMax; ++i) {
    if (header.counts[i] == 0) continue;
    const bool narrow = (header.narrow_counts >> i & 1) != 0;
    accesses.Reads(PointerTo<const char>(header.counts[i]), narrow ? 4 : 8);
  }
  for (int i = 0; i < header.ragged_count; ++i)
    DeclareSequences(header.ragged[i], header, accesses);
  for (int i = 0; i < header.copy_count; ++i)
    DeclareCopy(CopyAt(header, i), header, accesses);
}

}  // namespace

COPPICE_KERNEL(StageSmall, kThreads, StagingParamsOf<kSmallStagingBytes>) {
  StagePlain(block, params.header);
}

COPPICE_ACCESSES(StageSmall, StagingParamsOf<kSmallStagingBytes>) {
  DeclareStaging(params.header, accesses);
}

COPPICE_KERNEL(StageMedium, kThreads, StagingParamsOf<kMediumStagingBytes>) {
  StagePlain(block, params.header);
}

COPPICE_ACCESSES(StageMedium, StagingParamsOf<kMediumStagingBytes>) {
  DeclareStaging(params.header, accesses);
}

COPPICE_KERNEL(StageWide, kThreads, StagingParamsOf<kWideStagingBytes>) {
  StagePlain(block, params.header);
}

COPPICE_ACCESSES(StageWide, StagingParamsOf<kWideStagingBytes>) {
  DeclareStaging(params.header, accesses);
}

COPPICE_KERNEL(StageRaggedSmall, kThreads, StagingParamsOf<kSmallStagingBytes>) {
  StageRagged(block, params.header);
}

COPPICE_ACCESSES(StageRaggedSmall, StagingParamsOf<kSmallStagingBytes>) {
  DeclareStaging(params.header, accesses);
}

COPPICE_KERNEL(StageRaggedMedium, kThreads, StagingParamsOf<kMediumStagingBytes>) {
  StageRagged(block, params.header);
}

COPPICE_ACCESSES(StageRaggedMedium, StagingParamsOf<kMediumStagingBytes>) {
  DeclareStaging(params.header, accesses);
}

COPPICE_KERNEL(StageRaggedWide, kThreads, StagingParamsOf<kWideStagingBytes>) {
  StageRagged(block, params.header);
}

COPPICE_ACCESSES(StageRaggedWide, StagingParamsOf<kWideStagingBytes>) {
  DeclareStaging(params.header, accesses);
}

COPPICE_KERNEL_IMAGE(staging,
                     &StageSmallHostKernel,
                     &StageMediumHostKernel,
                     &StageWideHostKernel,
                     &StageRaggedSmallHostKernel,
                     &StageRaggedMediumHostKernel,
                     &StageRaggedWideHostKernel);

}  // namespace coppice
