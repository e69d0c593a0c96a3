// What kernels that move memory have in common: units of up to 16 bytes in place of elements.
// Private to graphs/.
//
// Threads: device code; pure functions.

#pragma once

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

namespace coppice::internal {

template <typename T>
COPPICE_ANYWHERE T* PointerTo(unsigned long long address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

// The largest unit that memory is read and written in.
struct alignas(16) Unit16 {
  uint64_t low;
  uint64_t high;
};

template <typename Unit>
COPPICE_ANYWHERE Unit Filled(uint64_t pattern) {
  if constexpr (sizeof(Unit) == 16)
    return {pattern, pattern};
  else
    return static_cast<Unit>(pattern);
}

// Calls `visit` with a value of the unit of so many bytes.
template <typename Visit>
COPPICE_DEVICE void WithUnit(int bytes, const Visit& visit) {
  switch (bytes) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    case 8:
      return visit(uint64_t{});
    default:
      return visit(Unit16{});
  }
}

}  // namespace coppice::internal
