// How bulk copies and products of warpgroups spread rows over the banks of shared memory.
//
// Pieces of 16 bytes change places within a row of 16 << mode bytes; bits of the address say which:
//
//   mode 1, rows of  32 bytes    bit 4       ^= bit 7
//   mode 2, rows of  64 bytes    bits 4 to 5 ^= bits 7 to 8
//   mode 3, rows of 128 bytes    bits 4 to 6 ^= bits 7 to 9
//
// Units: bytes. Threads: pure functions.

#pragma once

#include <cstdint>

namespace coppice::ptx {

inline constexpr uint32_t kSwizzleUnit = 16;
inline constexpr int kSwizzleModes = 4;  // 0: nothing changes.

constexpr uint64_t Swizzled(uint64_t address, int mode) {
  const uint64_t rows = address >> 7 & ((uint64_t{1} << mode) - 1);
  return address ^ rows << 4;
}

}  // namespace coppice::ptx
