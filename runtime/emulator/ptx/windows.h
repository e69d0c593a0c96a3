// Windows: which memory a generic address is of.
//
// A generic address is one of global memory, which is the host's, or of a window, which its highest
// byte tells:
//
//   0x01  shared memory of the block     0x02  memory of the thread     0x03  the parameter bank
//
// In the .shared space an address is an offset. In .local it is the generic one, or its low half;
// in .param it is generic too if it is of the thread, and else an offset in the bank.
//
// Threads: constants.

#pragma once

#include <cstdint>

namespace coppice::ptx {

inline constexpr int kWindowShift = 56;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift;
inline constexpr uint64_t kThreadWindow = uint64_t{2} << kWindowShift;
inline constexpr uint64_t kBankWindow = uint64_t{3} << kWindowShift;
inline constexpr uint64_t kWindowMask = uint64_t{0xff} << kWindowShift;

// An address in shared memory is that of another block of the cluster where it has a rank: one more
// than the block's. In the .shared space, too.
inline constexpr int kRankShift = 24;
constexpr uint64_t RankedAddress(uint64_t address, unsigned rank) {
  return (address & ~(uint64_t{0xff} << kRankShift)) | uint64_t{rank + 1} << kRankShift;
}

}  // namespace coppice::ptx
