// What the emulated device can run: the figures of an H200.
//
// Units: as the names say; blocks and threads are counts. Threads: constants.

#pragma once

#include <cstdint>

namespace coppice::emulator {

inline constexpr unsigned kGridXMax = 0x7FFFFFFF;
inline constexpr unsigned kGridYzMax = 65535;
inline constexpr int kBlockThreadsMax = 1024;
inline constexpr int kMultiprocessors = 132;
inline constexpr int kSharedBytesDefault = 48 * 1024;
inline constexpr int kSharedBytesMax = 227 * 1024;  // Where the function was given leave.
inline constexpr uint64_t kPortableClusterBlocksMax = 8;
inline constexpr uint64_t kClusterBlocksMax = 16;

}  // namespace coppice::emulator
