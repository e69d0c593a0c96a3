// Host memory that a kernel may touch: each allocation apart from the others.
//
// Units: bytes. Threads: one at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/emulator/ptx/launch.h"

namespace coppice {

class KernelMemory {
 public:
  // Where a device's allocations begin.
  static constexpr uint64_t kAlignment = 512;
  // Around each: whoever runs past its end meets no other.
  static constexpr int64_t kRoomBytes = int64_t{1} << 20;

  // Memory of undefined content, as long as this lives. Cost: allocates.
  std::span<std::byte> Add(int64_t bytes, bool writable);

  // All that was added, ascending.
  std::span<const ptx::MemoryRange> ranges() const { return ranges_; }

 private:
  std::vector<std::unique_ptr<std::byte[]>> allocations_;
  std::vector<ptx::MemoryRange> ranges_;
};

}  // namespace coppice
