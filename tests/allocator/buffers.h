// Buffers as the allocator's tests make them, and what is said of two of them or of their plans.
//
// Units: bytes and steps, as in plan.h. Threads: stateless.

#pragma once

#include "coppice/allocator/plan.h"

#include "tests/support/test.h"

namespace coppice {

constexpr int64_t kFullHeight = 1 << 20;  // Of the rectangles that are cut.

inline Buffer MakeBuffer(const std::vector<Interval>& lifetime,
                         int64_t bytes,
                         int64_t alignment = 1) {
  Buffer buffer;
  buffer.lifetime.assign(lifetime.begin(), lifetime.end());
  buffer.bytes = bytes;
  buffer.alignment = alignment;
  return buffer;
}
inline Buffer MakeBuffer(Interval lifetime, int64_t bytes, int64_t alignment = 1) {
  return MakeBuffer(std::vector<Interval>{lifetime}, bytes, alignment);
}
inline Buffer MakeFixed(Interval lifetime, int64_t bytes, int64_t offset, int64_t alignment = 1) {
  Buffer buffer = MakeBuffer(lifetime, bytes, alignment);
  buffer.fixed_offset = offset;
  return buffer;
}

// The first buffer of those that `i` is in place with.
inline size_t RootOf(std::span<const Buffer> buffers, size_t i) {
  while (buffers[i].in_place_with)
    i = *buffers[i].in_place_with;
  return i;
}

inline bool LiveTogether(const Buffer& a, const Buffer& b) {
  for (const Interval& x : a.lifetime)
    for (const Interval& y : b.lifetime)
      if (x.lower < y.upper && y.lower < x.upper) return true;
  return false;
}

// The lowest offset of buffer `i` that is free of the `placed` ones.
inline int64_t LowestFree(const std::vector<Buffer>& buffers,
                          const std::vector<int64_t>& offsets,
                          const std::vector<size_t>& placed,
                          size_t i) {
  int64_t offset = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (const size_t other : placed) {
      if (!LiveTogether(buffers[i], buffers[other])) continue;
      const int64_t top = offsets[other] + buffers[other].bytes;
      if (offset >= top || offset + buffers[i].bytes <= offsets[other]) continue;
      offset = AlignUp(top, buffers[i].alignment);
      moved = true;
    }
  }
  return offset;
}

// The least height of all orders, placed first-fit: an optimal plan pushed down is one of them.
inline int64_t LeastHeight(const std::vector<Buffer>& buffers) {
  std::vector<int64_t> offsets(buffers.size());
  std::vector<size_t> fixed;
  std::vector<size_t> order;
  int64_t fixed_height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].fixed_offset) {
      order.push_back(i);
      continue;
    }
    fixed.push_back(i);
    offsets[i] = *buffers[i].fixed_offset;
    fixed_height = std::max(fixed_height, offsets[i] + buffers[i].bytes);
  }
  int64_t least = std::numeric_limits<int64_t>::max();
  do {
    std::vector<size_t> placed = fixed;
    int64_t height = fixed_height;
    for (const size_t i : order) {
      offsets[i] = LowestFree(buffers, offsets, placed, i);
      height = std::max(height, offsets[i] + buffers[i].bytes);
      placed.push_back(i);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

// Cuts a rectangle of kFullHeight into `count`, where `draw` says, which draws from
// [lower, upper].
inline std::vector<Buffer> CutRectangles(
    const std::function<int64_t(int64_t lower, int64_t upper)>& draw, size_t count) {
  struct Piece {
    Interval steps;
    int64_t bytes;
  };
  std::vector<Piece> pieces{{{0, 1000}, kFullHeight}};
  while (pieces.size() < count) {
    const auto at = static_cast<size_t>(draw(0, std::ssize(pieces) - 1));
    Piece& piece = pieces[at];
    Piece other = piece;
    if (draw(0, 1) == 0) {
      if (piece.bytes < 8192) continue;
      piece.bytes = draw(1, piece.bytes / 1024 - 1) * 1024;
      other.bytes -= piece.bytes;
    } else {
      if (piece.steps.upper - piece.steps.lower < 8) continue;
      piece.steps.upper = draw(piece.steps.lower + 1, piece.steps.upper - 1);
      other.steps.lower = piece.steps.upper;
    }
    pieces.push_back(other);
  }
  std::vector<Buffer> buffers;
  for (const Piece& piece : pieces)
    buffers.push_back(MakeBuffer(piece.steps, piece.bytes));
  return buffers;
}

}  // namespace coppice
