// The staging kernels: each copies and pads tensors and writes the parameter block; they differ in
// how many copies their parameters hold.
//
// The padded elements of every copy are cut into tiles, the last one of a copy perhaps short, and
// the tiles of all copies are laid end to end: block x does tile x. Block 0 also writes the words.
//
//   copy        0        1  (empty)  2
//   tiles    |--|--|-|           |--|--|--|-|
//   block     0  1  2             3  4  5  6
//
// Where rows lie so that it can, a tile moves units of up to 16 bytes in place of elements. A tile
// of ragged rows first learns where those of its sequences begin: see sequences.h.

#include <type_traits>

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

#include "graphs/staging/copies.h"
#include "graphs/staging/sequences.h"
#include "graphs/staging/units.h"

namespace coppice {
namespace {

using internal::Filled;
using internal::ForEachOffset;
using internal::InUnits;
using internal::NoiseAt;
using internal::PaddedElements;
using internal::Place;
using internal::PointerTo;
using internal::TotalRows;
using internal::UnitBytes;
using internal::Widened;
using internal::WithUnit;

// A thread has few units, and with whole rows of 16 bytes one: unrolled, the divisions of a place
// are most of the code of this file.
#ifdef __CUDACC__
#define COPPICE_NOT_UNROLLED _Pragma("unroll 1")
#else
#define COPPICE_NOT_UNROLLED
#endif

constexpr int kThreads = 256;
constexpr int kNoCopy = -1;
static_assert(kThreads >= kStagingCopiesMax);

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

// The copy with the sizes that the device decides.
template <int kRank>
COPPICE_DEVICE StagedCopyOf<kRank> Counted(StagedCopyOf<kRank> copy, const StagingHeader& header) {
  for (int axis = 0; axis < kRank; ++axis)
    if (copy.sizes[axis] < 0)
      copy.sizes[axis] = WordAt(header, static_cast<int>(-1 - copy.sizes[axis]));
  return copy;
}

// The source of a copy whose rows are no rectangle.
struct PlainSource {
  template <int kRank>
  COPPICE_DEVICE bool Has(const StagedCopyOf<kRank>&, const Place<kRank>&) const {
    return true;
  }
  COPPICE_DEVICE int64_t Before(int64_t) const { return 0; }
};

// The source of some of a rectangle's sequences: their offsets and the end of the last, in rows.
struct RaggedSource {
  const int64_t* offsets;
  int64_t first;   // Sequence.
  int64_t real;    // Sequences; those from there on have no offset.
  int64_t stride;  // Of a row.

  template <int kRank>
  COPPICE_DEVICE bool Has(const StagedCopyOf<kRank>& copy, const Place<kRank>& place) const {
    const int64_t sequence = place.index[copy.rows_axis];
    if (sequence >= real) return false;
    const int64_t* const begin = offsets + (sequence - first);
    return place.index[copy.rows_axis + 1] < begin[1] - begin[0];
  }
  // Units before the first row of this sequence, which there is.
  COPPICE_DEVICE int64_t Before(int64_t sequence) const {
    return offsets[sequence - first] * stride;
  }
};

template <typename Unit, int kRank, typename Source>
COPPICE_DEVICE void StageUnit(const StagedCopyOf<kRank>& copy,
                              const Place<kRank>& place,
                              const Source& source) {
  bool readable = copy.source != 0;     // There is a real element to take or to repeat.
  bool real = source.Has(copy, place);  // This is one.
  int64_t from = real ? source.Before(place.index[copy.rows_axis]) : 0;
  int64_t to = 0;
  for (int axis = 0; axis < kRank; ++axis) {
    const bool inside = place.index[axis] < copy.sizes[axis];
    readable = readable && copy.sizes[axis] > 0;
    real = real && inside;
    from += (inside ? place.index[axis] : copy.sizes[axis] - 1) * copy.strides[axis];
    to += place.index[axis] * copy.target_strides[axis];
  }
  Unit* target = PointerTo<Unit>(copy.target) + to;
  if (readable && (real || copy.padding == StagedPadding::kRepeatLast))
    *target = PointerTo<const Unit>(copy.source)[from];
  else if (copy.padding == StagedPadding::kNoise)
    *target = NoiseAt<Unit>(copy, to);
  else if (copy.padding != StagedPadding::kSkip)
    *target = Filled<Unit>(copy.fill);
}

// Stages units [begin, end), which there are.
template <typename Unit, typename Block, int kRank, typename Source>
COPPICE_DEVICE void StageUnits(const Block& block,
                               const StagedCopyOf<kRank>& copy,
                               int64_t begin,
                               int64_t end,
                               const Source& source) {
  Place<kRank> first;
  first.Advance(begin, copy);
  block.ForEach([&](int thread) {
    COPPICE_NOT_UNROLLED
    for (int64_t i = begin + thread; i < end; i += Block::kThreads) {
      Place<kRank> place = first;
      place.Advance(i - begin, copy);
      StageUnit<Unit>(copy, place, source);
    }
  });
}

// What a launch knows of ragged sequences: of none, which is the usual one ...
struct NoSequences {
  static constexpr bool kAny = false;
};

// ... or of some, with room for the offsets of those in a tile.
struct Sequences {
  static constexpr bool kAny = true;
  int64_t* offsets;  // Shared, kStagingElementsPerBlock + 1.
};

// Stages units [begin, end) of a rectangle, which there are, of at most kStagingElementsPerBlock
// elements.
template <typename Unit, typename Block, int kRank>
COPPICE_DEVICE void StageRectangle(const Block& block,
                                   const StagedCopyOf<kRank>& copy,
                                   const StagedRagged& ragged,
                                   int64_t* offsets,
                                   int64_t begin,
                                   int64_t end) {
  Place<kRank> first;
  first.Advance(begin, copy);
  Place<kRank> last;
  last.Advance(end - 1, copy);
  const int axis = copy.rows_axis;
  const int64_t from = first.index[axis];
  const int64_t behind = last.index[axis] + 1;
  ForEachOffset(block, ragged, behind, [&](int64_t sequence, int64_t offset) {
    if (sequence >= from) offsets[sequence - from] = offset;
  });
  StageUnits<Unit>(block, copy, begin, end,
                   RaggedSource{.offsets = offsets,
                                .first = from,
                                .real = ragged.count,
                                .stride = copy.strides[axis + 1]});
}

// The copy with as many packed rows as there are of its sequences.
template <typename Block, int kRank>
COPPICE_DEVICE StagedCopyOf<kRank> WithTotal(const Block& block,
                                             StagedCopyOf<kRank> copy,
                                             const StagingHeader& header) {
  if (copy.rows == StagedRows::kPacked) {
    int64_t& rows = copy.sizes[copy.rows_axis];
    const int64_t total = TotalRows(block, header.ragged[copy.ragged]);
    rows = total < rows ? total : rows;
  }
  return copy;
}

template <typename Block, int kRank, typename AnySequences>
COPPICE_DEVICE void StageTile(const Block& block,
                              const StagedCopyOf<kRank>& copy,
                              const StagingHeader& header,
                              int64_t tile,
                              const AnySequences& sequences) {
  const int bytes = UnitBytes(copy);
  const StagedCopyOf<kRank> units = InUnits(copy, bytes);
  const int64_t per_tile = int64_t{kStagingElementsPerBlock} * copy.element_bytes / bytes;
  const int64_t begin = tile * per_tile;
  const int64_t count = PaddedElements(units);
  const int64_t end = begin + per_tile < count ? begin + per_tile : count;
  if (begin >= end) return;
  WithUnit(bytes, [&](auto unit) {
    using Unit = decltype(unit);
    if constexpr (AnySequences::kAny) {
      if (copy.rows == StagedRows::kRectangle)
        return StageRectangle<Unit>(block, units, header.ragged[copy.ragged], sequences.offsets,
                                    begin, end);
    }
    StageUnits<Unit>(block, units, begin, end, PlainSource());
  });
}

// Writes where the sequences of the header begin and the last one ends, and those totals.
template <typename Block>
COPPICE_DEVICE void StageOffsets(const Block& block, const StagingHeader& header) {
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

// Whether word `index` is for StageOffsets to write.
COPPICE_DEVICE bool IsTotal(const StagingHeader& header, int index) {
  for (int i = 0; i < header.ragged_count; ++i)
    if (header.ragged[i].total_word == index) return true;
  return false;
}

// What a block stages.
struct Chosen {
  int copy;  // kNoCopy: nothing, there are fewer tiles than blocks.
  int64_t tile;
};

// Writes the words, and finds what this block stages.
template <int kRank, typename Block, bool any_sequences>
COPPICE_DEVICE Chosen Choose(const Block& block,
                             const StagingHeader& header,
                             const StagedCopyOf<kRank>* copies) {
  COPPICE_SHARED(int32_t, shared_copy, 1);
  COPPICE_SHARED(int64_t, shared_tile, 1);
  auto first_tiles = block.template Register<int64_t>();
  block.ForEach([&](int thread) {
    if (thread == 0) {
      shared_copy[0] = kNoCopy;
      shared_tile[0] = 0;
    }
    if (thread < header.copy_count) first_tiles[thread] = copies[thread].tiles;
    const bool total = any_sequences && IsTotal(header, thread);
    if (block.x() == 0 && thread < header.word_count && !total)
      PointerTo<int64_t>(header.parameter_block)[thread] = WordAt(header, thread);
  });
  if constexpr (any_sequences)
    if (block.x() == 0 && header.word_count > 0) StageOffsets(block, header);
  block.ExclusiveScan(first_tiles);
  block.ForEach([&](int thread) {
    if (thread >= header.copy_count) return;
    const int64_t tile = block.x() - first_tiles[thread];
    if (tile < 0 || tile >= copies[thread].tiles) return;
    shared_copy[0] = thread;
    shared_tile[0] = tile;
  });
  block.Sync();
  return {shared_copy[0], shared_tile[0]};
}

// Calls `visit` with the rank of the copies as a constant. Those who declare are host code alone.
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <typename Visit>
COPPICE_ANYWHERE void WithRank(const StagingHeader& header, const Visit& visit) {
  switch (header.rank) {
    case 1:
      return visit(std::integral_constant<int, 1>());
    case 2:
      return visit(std::integral_constant<int, 2>());
    case 4:
      return visit(std::integral_constant<int, 4>());
    default:
      return visit(std::integral_constant<int, kStagingRankMax>());
  }
}

// The usual launch. Its code is there for each rank.
template <typename Block, typename Params>
COPPICE_DEVICE void StagePlain(const Block& block, const Params& params) {
  const StagingHeader& header = params.header;
  WithRank(header, [&](auto rank) {
    constexpr int kRank = decltype(rank)::value;
    const auto* copies = reinterpret_cast<const StagedCopyOf<kRank>*>(params.copies);
    const Chosen chosen = Choose<kRank, Block, false>(block, header, copies);
    if (chosen.copy != kNoCopy)
      StageTile(block, Counted(copies[chosen.copy], header), header, chosen.tile, NoSequences());
  });
}

// With ragged sequences all ranks share theirs.
template <typename Block, typename Params>
COPPICE_DEVICE void StageRagged(const Block& block, const Params& params) {
  const StagingHeader& header = params.header;
  COPPICE_SHARED(int64_t, offsets, kStagingElementsPerBlock + 1);
  Chosen chosen = {kNoCopy, 0};
  StagedCopyOf<kStagingRankMax> copy = {};
  WithRank(header, [&](auto rank) {
    constexpr int kRank = decltype(rank)::value;
    const auto* copies = reinterpret_cast<const StagedCopyOf<kRank>*>(params.copies);
    chosen = Choose<kRank, Block, true>(block, header, copies);
    if (chosen.copy != kNoCopy) copy = Widened(copies[chosen.copy]);
  });
  if (chosen.copy == kNoCopy) return;
  copy = WithTotal(block, Counted(copy, header), header);
  StageTile(block, copy, header, chosen.tile, Sequences{offsets});
}

template <typename Block, typename Params>
COPPICE_DEVICE void Stage(const Block& block, const Params& params) {
  if (params.header.ragged_count == 0)
    StagePlain(block, params);
  else
    StageRagged(block, params);
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
template <int kRank>
void DeclareCopy(const StagedCopyOf<kRank>& copy,
                 const StagingHeader& header,
                 KernelAccesses& accesses) {
  Extent source{.empty = copy.source == 0};
  Extent target;
  for (int axis = 0; axis < kRank; ++axis) {
    int64_t size = copy.sizes[axis];
    // A rectangle reads all packed rows, whoever has them, and of no sequence more.
    if (copy.rows == StagedRows::kRectangle && axis == copy.rows_axis + 1)
      size = header.ragged[copy.ragged].rows;
    source.Add(size < 0 ? header.words[-1 - size] : size, copy.strides[axis]);
    target.Add(copy.padded[axis], copy.target_strides[axis]);
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

template <typename Params>
void DeclareStaging(const Params& params, KernelAccesses& accesses) {
  const StagingHeader& header = params.header;
  accesses.Writes(PointerTo<int64_t>(header.parameter_block), header.word_count);
  for (int i = 0; i < kStagingCountsMax; ++i) {
    if (header.counts[i] == 0) continue;
    const bool narrow = (header.narrow_counts >> i & 1) != 0;
    accesses.Reads(PointerTo<const char>(header.counts[i]), narrow ? 4 : 8);
  }
  for (int i = 0; i < header.ragged_count; ++i)
    DeclareSequences(header.ragged[i], header, accesses);
  WithRank(header, [&](auto rank) {
    const auto* copies =
        reinterpret_cast<const StagedCopyOf<decltype(rank)::value>*>(params.copies);
    for (int i = 0; i < header.copy_count; ++i)
      DeclareCopy(copies[i], header, accesses);
  });
}

}  // namespace

COPPICE_KERNEL(StageSmall, kThreads, StagingParamsOf<kSmallStagingBytes>) {
  Stage(block, params);
}

COPPICE_ACCESSES(StageSmall, StagingParamsOf<kSmallStagingBytes>) {
  DeclareStaging(params, accesses);
}

COPPICE_KERNEL(StageMedium, kThreads, StagingParamsOf<kMediumStagingBytes>) {
  Stage(block, params);
}

COPPICE_ACCESSES(StageMedium, StagingParamsOf<kMediumStagingBytes>) {
  DeclareStaging(params, accesses);
}

COPPICE_KERNEL(StageWide, kThreads, StagingParamsOf<kWideStagingBytes>) {
  Stage(block, params);
}

COPPICE_ACCESSES(StageWide, StagingParamsOf<kWideStagingBytes>) {
  DeclareStaging(params, accesses);
}

COPPICE_KERNEL_IMAGE(staging, &StageSmallHostKernel, &StageMediumHostKernel, &StageWideHostKernel);

}  // namespace coppice
