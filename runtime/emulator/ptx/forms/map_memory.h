// Tensor maps in memory that a lane names.
//
// Threads: as Warp.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/emulator/ptx/tensor_map.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {

// The memory of a tensor map: both of its halves, which are what it is aligned to.
struct MapMemory {
  static constexpr int64_t kHalf = 64;

  std::array<std::byte*, 2> halves = {};

  // False: the lane may not.
  bool Find(Warp& warp, Space space, uint64_t address, AccessKind kind, int lane) {
    for (size_t i = 0; i < halves.size(); ++i) {
      halves[i] = warp.At(space, address + i * kHalf, kHalf, kind, lane);
      if (halves[i] == nullptr) return false;
    }
    return true;
  }
  TensorMap Load() const {
    std::array<std::byte, TensorMap::kBytes> bytes;
    for (size_t i = 0; i < halves.size(); ++i)
      std::memcpy(&bytes[i * kHalf], halves[i], kHalf);
    return TensorMap::Load(bytes.data());
  }
  void Store(const TensorMap& map) const {
    std::array<std::byte, TensorMap::kBytes> bytes;
    map.Store(bytes.data());
    for (size_t i = 0; i < halves.size(); ++i)
      std::memcpy(halves[i], &bytes[i * kHalf], kHalf);
  }
};

}  // namespace coppice::ptx
