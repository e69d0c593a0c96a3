// The kernel that packs what a program made of ragged sequences in a rectangle.
//
// The units of the packed rows are cut into tiles, one block each. Whose row one is, a binary
// search in the offsets finds, as threads of one row do alike.

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

#include "graphs/staging/units.h"

namespace coppice {
namespace {

using internal::PointerTo;
using internal::WithUnit;

constexpr int kPackThreads = 256;

COPPICE_DEVICE int64_t OffsetAt(const PackParams& params, int64_t index) {
  return params.offset_bytes == 4 ? PointerTo<const int32_t>(params.offsets)[index]
                                  : PointerTo<const int64_t>(params.offsets)[index];
}

// The last sequence that begins at `row` or before; -1: none, or `row` is behind the last one's
// end.
COPPICE_DEVICE int64_t SequenceOf(const PackParams& params, int64_t row) {
  if (row >= OffsetAt(params, params.sequences)) return -1;
  int64_t begin = 0;  // The first offset beyond the row is in [begin, end].
  int64_t end = params.sequences;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (OffsetAt(params, middle) > row)
      end = middle;
    else
      begin = middle + 1;
  }
  return begin - 1;
}

template <typename Block>
COPPICE_DEVICE void Pack(const Block& block, const PackParams& params) {
  const int64_t count = params.rows * params.row_units;
  const int64_t begin = int64_t{block.x()} * kPackUnitsPerBlock;
  const int64_t end = begin + kPackUnitsPerBlock < count ? begin + kPackUnitsPerBlock : count;
  const int64_t limit = begin < count ? *PointerTo<const int64_t>(params.limit) : 0;
  const int64_t length = limit < params.length ? limit : params.length;
  block.ForEach([&](int thread) {
    COPPICE_NOT_UNROLLED
    for (int64_t i = begin + thread; i < end; i += Block::kThreads) {
      const int64_t row = i / params.row_units;
      const int64_t sequence = SequenceOf(params, row);
      const int64_t place = sequence < 0 ? length : row - OffsetAt(params, sequence);
      const int64_t from =
          (sequence * params.length + place) * params.row_units + (i - row * params.row_units);
      WithUnit(params.unit_bytes, [&](auto any) {
        using Unit = decltype(any);
        PointerTo<Unit>(params.target)[i] =
            place < length ? PointerTo<const Unit>(params.source)[from] : Unit{};
      });
    }
  });
}

}  // namespace

COPPICE_KERNEL(PackRows, kPackThreads, PackParams) {
  Pack(block, params);
}

COPPICE_ACCESSES(PackRows, PackParams) {
  if (params.rows == 0) return;
  const int64_t row_bytes = params.row_units * params.unit_bytes;
  accesses.Reads(PointerTo<const char>(params.source),
                 params.sequences * params.length * row_bytes);
  accesses.Reads(PointerTo<const char>(params.offsets),
                 (params.sequences + 1) * params.offset_bytes);
  accesses.Reads(PointerTo<const int64_t>(params.limit), 1);
  accesses.Writes(PointerTo<char>(params.target), params.rows * row_bytes);
}

COPPICE_KERNEL_IMAGE(pack, &PackRowsHostKernel);

}  // namespace coppice
