// Where ragged sequences begin: a scan of their lengths by each block that needs it, so that one
// launch is enough. Private to graphs/.
//
//   lengths   3  0  1 | 2  5  4 | ...    rounds of a block's threads
//   offsets   0  3  3   4  6 11   15     the end of one round is where the next begins
//
// Units: rows. Threads: device code, called by whole blocks. Cost: a block scan for each kThreads
// sequences up to the last one asked for, which are read from the cache but for the first block.

#pragma once

#include <cstdint>

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

#include "graphs/staging/units.h"

namespace coppice::internal {

COPPICE_DEVICE int64_t HeldTo(int64_t value, int64_t maximum) {
  return value < 0 ? 0 : value < maximum ? value : maximum;
}

// Entry `index` of the lengths or offsets.
COPPICE_DEVICE int64_t GivenAt(const StagedRagged& ragged, int64_t index) {
  const int64_t at = index * ragged.stride;
  return ragged.narrow ? PointerTo<const int32_t>(ragged.lengths)[at]
                       : PointerTo<const int64_t>(ragged.lengths)[at];
}

// Rows of a sequence, in [0, ragged.rows].
COPPICE_DEVICE int64_t LengthOf(const StagedRagged& ragged, int64_t sequence) {
  if (ragged.lengths == 0 || sequence >= ragged.count) return 0;
  if (!ragged.by_offsets) return HeldTo(GivenAt(ragged, sequence), ragged.rows);
  return HeldTo(HeldTo(GivenAt(ragged, sequence + 1), ragged.rows) -
                    HeldTo(GivenAt(ragged, sequence), ragged.rows),
                ragged.rows);
}

// Calls visit(sequence, offset) for each sequence from 0 to `last`, in whatever order, by some
// thread: where it begins, or what is behind the real ones where those end. Ends in a Sync. Returns
// the offset behind `last`.
template <typename Block, typename Visit>
COPPICE_DEVICE int64_t
ForEachOffset(const Block& block, const StagedRagged& ragged, int64_t last, const Visit& visit) {
  auto offsets = block.template Register<int64_t>();
  int64_t carry =
      ragged.by_offsets && ragged.lengths != 0 ? HeldTo(GivenAt(ragged, 0), ragged.rows) : 0;
  for (int64_t first = 0; first <= last; first += Block::kThreads) {
    block.ForEach([&](int thread) { offsets[thread] = LengthOf(ragged, first + thread); });
    const int64_t total = block.ExclusiveScan(offsets);
    block.ForEach([&](int thread) {
      if (first + thread <= last)
        visit(first + thread, HeldTo(carry + offsets[thread], ragged.rows));
    });
    carry = HeldTo(carry + total, ragged.rows);
  }
  block.Sync();
  return carry;
}

// Where the last sequence ends.
template <typename Block>
COPPICE_DEVICE int64_t TotalRows(const Block& block, const StagedRagged& ragged) {
  return ForEachOffset(block, ragged, ragged.count, [](int64_t, int64_t) {});
}

}  // namespace coppice::internal
