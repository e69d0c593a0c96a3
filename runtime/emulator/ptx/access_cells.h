// What is kept of granules, a *cell* of each, as bits that loops compare: a Stamp in shared memory,
// a Visitor in global memory.
//
// Most cells are *fine*: nobody's, of this thread, or of this block and before everything. What is
// not has to be looked at by Accesses::IsBefore.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "runtime/emulator/ptx/order.h"
#include "runtime/emulator/ptx/shadow.h"

namespace coppice::ptx {

// Of the lanes of a warp. `mine` is the cell of lane 0; lanes that follow add 1. Bits in
// [base, base + floor) are of this block, and before everything.
template <typename Bits>
struct Row {
  Bits mine;
  Bits base;
  Bits floor;
  Bits who;         // All bits but the time.
  size_t granules;  // Of a lane.

  bool IsFine(Bits cell, Bits mine_here) const {
    return (cell == 0) | (cell - base < floor) | (((cell ^ mine_here) & who) == 0);
  }
};

inline constexpr uint32_t kThreadMask = (uint32_t{1} << Stamp::kThreadBits) - 1;
inline constexpr uint64_t kBlockMask = ~uint64_t{0} << 32;

inline Row<uint32_t> SharedRow(Stamp mine, const BlockOrder& order, size_t granules) {
  return {mine.bits(), 0, order.floor_bits(), kThreadMask, granules};
}

// Whose accesses are together finds those of its whole warp fine.
inline Row<uint64_t> GlobalRow(Visitor mine, const BlockOrder& order, size_t granules) {
  const uint32_t who = mine.stamp().is_together() ? kThreadMask & ~uint32_t{kLanes - 1}
                                                  : kThreadMask & ~Stamp::kTogether;
  return {mine.bits(), mine.bits() & kBlockMask, order.floor_bits(), kBlockMask | who, granules};
}

inline uint32_t* CellsOf(std::vector<Stamp>& stamps) {
  static_assert(sizeof(Stamp) == sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(stamps.data());
}

inline uint64_t* CellsOf(Visitor* visitors) {
  static_assert(sizeof(Visitor) == sizeof(uint64_t));
  return reinterpret_cast<uint64_t*>(visitors);
}

// Whether all cells of a lane are fine, whose own would be `mine`.
template <typename Bits, typename Count>
bool AreAllFine(const Row<Bits>& row, Count count, const Bits* cells, Bits mine) {
  Bits astray = 0;  // As wide as a cell, so that the loop becomes vector code.
  for (size_t i = 0; i < count; ++i)
    astray |= row.IsFine(cells[i], mine) ? 0 : 1;
  return astray == 0;
}

// Calls `body` with how many granules a lane has: the usual numbers as constants, of which the
// compiler makes vector code.
template <typename Body>
void WithGranules(size_t granules, const Body& body) {
  switch (granules) {
    case 1:
      return body(std::integral_constant<size_t, 1>());
    case 4:
      return body(std::integral_constant<size_t, 4>());
    default:
      return body(granules);
  }
}

// Of the bytes of a lane, each of which has a flag, 0 or 1: whether all are set.
inline bool AreAllSet(const uint8_t* flags, uint64_t bytes) {
  static constexpr std::array<uint8_t, 16> kSet = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  switch (bytes) {
    case 4:
      return std::memcmp(flags, kSet.data(), 4) == 0;
    case 8:
      return std::memcmp(flags, kSet.data(), 8) == 0;
    case 16:
      return std::memcmp(flags, kSet.data(), 16) == 0;
    default:
      return std::memchr(flags, 0, bytes) == nullptr;
  }
}

inline void SetAll(uint8_t* flags, uint64_t bytes) {
  if (bytes == 16) {
    std::memset(flags, 1, 16);
  } else {
    std::memset(flags, 1, bytes);
  }
}

}  // namespace coppice::ptx
