// An allocation of the host for each, whose pages nobody touches but those asked for.

#include "tools/ptx/kernel_memory.h"

#include <algorithm>

namespace coppice {

std::span<std::byte> KernelMemory::Add(int64_t bytes, bool writable) {
  const auto size = static_cast<size_t>(bytes);
  allocations_.push_back(std::make_unique_for_overwrite<std::byte[]>(
      size + 2 * static_cast<size_t>(kRoomBytes) + kAlignment));
  const uint64_t least =
      reinterpret_cast<uint64_t>(allocations_.back().get()) + static_cast<uint64_t>(kRoomBytes);
  const uint64_t begin = (least + kAlignment - 1) / kAlignment * kAlignment;
  const ptx::MemoryRange range = {.begin = begin, .end = begin + size, .writable = writable};
  const auto behind = std::upper_bound(
      ranges_.begin(), ranges_.end(), range,
      [](const ptx::MemoryRange& a, const ptx::MemoryRange& b) { return a.begin < b.begin; });
  if (bytes > 0) ranges_.insert(behind, range);
  return {reinterpret_cast<std::byte*>(begin), size};
}

}  // namespace coppice
