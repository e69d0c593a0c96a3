// What the emulated device can run: the figures of an H200, but for what its compute capability
// says.
//
// Units: as the names say; blocks and threads are counts. Threads: constants and plain values.

#pragma once

#include <array>
#include <cstdint>

namespace coppice::emulator {

inline constexpr int kDriverVersion = 13000;  // CUDA 13.0.
inline constexpr int kDevicesMax = 16;
inline constexpr unsigned kGridXMax = 0x7FFFFFFF;
inline constexpr unsigned kGridYzMax = 65535;
inline constexpr int kBlockThreadsMax = 1024;
inline constexpr std::array<unsigned, 3> kBlockMax = {1024, 1024, 64};
inline constexpr int kMultiprocessors = 132;
inline constexpr int kSharedBytesDefault = 48 * 1024;
inline constexpr uint64_t kPortableClusterBlocksMax = 8;
inline constexpr uint64_t kClusterBlocksMax = 16;

// What differs between devices.
struct DeviceLimits {
  int capability = 90;                // 89 is 8.9.
  int shared_bytes_max = 227 * 1024;  // Of a block, where the function was given leave.
  bool has_clusters = true;

  // Those of a device of `capability`, or nothing that is known: `capability` of it is 0.
  static constexpr DeviceLimits Of(int capability) {
    switch (capability) {
      case 80:
        return {80, 163 * 1024, false};
      case 86:
      case 89:
        return {capability, 99 * 1024, false};
      case 90:
        return {};
      default:
        return {0, 0, false};
    }
  }
};

}  // namespace coppice::emulator
