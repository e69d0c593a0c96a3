// What a block stages: a tile of one copy, in units of up to 16 bytes in place of elements where
// its rows lie so that they can be moved. Private to graphs/.
//
// A thread finds the place of its unit from that of the tile's first one. A tile has few units, so
// that this takes divisions of 32 bits alone, and none within a row.
//
// Units: sizes and strides in units of the tile. Threads: device code; pure functions.

#pragma once

#include <cstdint>

#include "coppice/graphs/staging_params.h"
#include "coppice/runtime/block_kernel.h"

#include "graphs/staging/copies.h"
#include "graphs/staging/units.h"

namespace coppice::internal {

struct TileAxis {
  int64_t first;  // Index of the tile's first unit.
  int64_t size;
  int64_t stride;
  int64_t padded;
  int64_t target_stride;
};

struct Tile {
  int unit_bytes;
  int rank;
  int count;      // Units.
  bool readable;  // There is a real element to take or to repeat.
  uint64_t fill;  // Of 8 bytes.
  TileAxis axes[kStagingRankMax];
};

// The copy that this tile of a launch is of; copy_count: there are fewer tiles.
COPPICE_DEVICE int CopyOfTile(const StagingHeader& header, int64_t tile) {
  int begin = 0;  // The first copy that ends behind the tile is in [begin, end].
  int end = header.copy_count;
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (CopyAt(header, middle).end_tile > tile)
      end = middle;
    else
      begin = middle + 1;
  }
  return begin;
}

// The bytes of the largest unit in which rows can be moved: all that begins or ends one is a
// multiple of it. The tile's axes are those of the copy, in elements.
COPPICE_DEVICE int UnitBytes(const StagedCopy& copy, const Tile& tile) {
  const int last = tile.rank - 1;
  const TileAxis& row = tile.axes[last];
  // A sequence of rows that are one element each begins anywhere.
  const bool anywhere = copy.rows == StagedRows::kRectangle && copy.rows_axis + 1 == last;
  if (row.stride != 1 || row.target_stride != 1 || anywhere ||
      (copy.padding == StagedPadding::kRepeatLast && row.size != row.padded)) {
    return copy.element_bytes;
  }
  uint64_t multiples = static_cast<uint64_t>(row.size | row.padded);
  COPPICE_NOT_UNROLLED
  for (int axis = 0; axis < last; ++axis)
    multiples |= static_cast<uint64_t>(tile.axes[axis].stride | tile.axes[axis].target_stride);
  const uint64_t bits = copy.source | copy.target | sizeof(Unit16) |
                        multiples * static_cast<uint64_t>(copy.element_bytes);
  return static_cast<int>(bits & (~bits + 1));
}

// Has the tile's axes in its units, not in elements.
COPPICE_DEVICE void SetUnits(const StagedCopy& copy, Tile& tile) {
  tile.unit_bytes = UnitBytes(copy, tile);
  tile.fill = copy.fill;
  for (int width = copy.element_bytes; width < 8; width *= 2)
    tile.fill |= tile.fill << (8 * width);
  const int64_t elements = tile.unit_bytes / copy.element_bytes;
  if (elements == 1) return;
  const int last = tile.rank - 1;
  COPPICE_NOT_UNROLLED
  for (int axis = 0; axis < last; ++axis) {
    tile.axes[axis].stride /= elements;
    tile.axes[axis].target_stride /= elements;
  }
  tile.axes[last].size /= elements;
  tile.axes[last].padded /= elements;
}

// Makes the tile number `index` of the copy. `size_of(axis)` are its real sizes.
template <typename SizeOf>
COPPICE_DEVICE void SetTile(const StagedCopy& copy,
                            int64_t index,
                            const SizeOf& size_of,
                            Tile& tile) {
  const StagedAxis* const axes = AxesOf(copy);
  tile.rank = copy.rank;
  tile.readable = copy.source != 0;
  COPPICE_NOT_UNROLLED
  for (int axis = 0; axis < tile.rank; ++axis) {
    tile.axes[axis] = {.first = 0,
                       .size = size_of(axis),
                       .stride = axes[axis].stride,
                       .padded = axes[axis].padded,
                       .target_stride = axes[axis].target_stride};
    tile.readable = tile.readable && tile.axes[axis].size > 0;
  }
  SetUnits(copy, tile);
  int64_t units = 1;
  COPPICE_NOT_UNROLLED
  for (int axis = 0; axis < tile.rank; ++axis)
    units *= tile.axes[axis].padded;
  const int64_t most = kStagingTileBytes / tile.unit_bytes;
  int64_t before = index * most;
  tile.count = static_cast<int>(units - before < most ? units - before : most);
  COPPICE_NOT_UNROLLED
  for (int axis = tile.rank - 1; axis > 0; --axis) {
    const int64_t rows = before / tile.axes[axis].padded;
    tile.axes[axis].first = before - rows * tile.axes[axis].padded;
    before = rows;
  }
  tile.axes[0].first = before;
}

// The quotient of an index less than 2^31 beyond `size`.
COPPICE_DEVICE int64_t RowsIn(int64_t index, int64_t size) {
  constexpr int64_t kNarrow = int64_t{1} << 31;
  if (size >= kNarrow) return 1;
  return static_cast<uint32_t>(index) / static_cast<uint32_t>(size);
}

// Calls visit(axis, index) for each axis of the place of unit `unit` of the tile, innermost first.
template <typename Visit>
COPPICE_DEVICE void ForEachIndex(const Tile& tile, int unit, const Visit& visit) {
  int64_t carry = unit;
  COPPICE_NOT_UNROLLED
  for (int axis = tile.rank - 1; axis >= 0; --axis) {
    int64_t index = tile.axes[axis].first + carry;
    const int64_t padded = tile.axes[axis].padded;
    carry = index < padded ? 0 : RowsIn(index, padded);
    index -= carry * padded;
    visit(axis, index);
  }
}

}  // namespace coppice::internal
