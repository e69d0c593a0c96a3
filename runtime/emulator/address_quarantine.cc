// Two halves of ranges.

#include "runtime/emulator/address_quarantine.h"

#include <iterator>

#include <sys/mman.h>

namespace coppice::emulator {

void AddressQuarantine::Unmap(Ranges ranges) {
  for (const auto& [start, end] : ranges)
    munmap(reinterpret_cast<void*>(start), end - start);  // NOLINT(performance-no-int-to-ptr)
}

void AddressQuarantine::Add(void* start, int64_t bytes) {
  if (newer_bytes_ + bytes > kHalfBytes) {
    Unmap(std::exchange(older_, std::exchange(newer_, {})));
    newer_bytes_ = 0;
  }
  newer_bytes_ += bytes;
  auto from = reinterpret_cast<uintptr_t>(start);
  uintptr_t to = from + static_cast<uintptr_t>(bytes);
  auto above = newer_.lower_bound(from);
  if (above != newer_.end() && above->first == to) {
    to = above->second;
    above = newer_.erase(above);
  }
  if (above != newer_.begin() && std::prev(above)->second == from) {
    std::prev(above)->second = to;
  } else {
    newer_.emplace(from, to);
  }
}

bool AddressQuarantine::Release() {
  const bool any = !newer_.empty() || !older_.empty();
  Unmap(std::exchange(older_, {}));
  Unmap(std::exchange(newer_, {}));
  newer_bytes_ = 0;
  return any;
}

}  // namespace coppice::emulator
