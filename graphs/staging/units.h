// What kernels that move memory have in common: units of up to 16 bytes in place of elements.
// Private to graphs/.
//
// Threads: device code; pure functions.

#pragma once

#include <cstdint>

#include "coppice/runtime/block_kernel.h"

// Loops over the axes of a copy, or over the few units of a thread: unrolled, they are most of a
// kernel's code.
#ifdef __CUDACC__
#define COPPICE_NOT_UNROLLED _Pragma("unroll 1")
#else
#define COPPICE_NOT_UNROLLED
#endif

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

// The unit in the low bytes.
template <typename Unit>
COPPICE_ANYWHERE Unit LowOf(const Unit16& bytes) {
  if constexpr (sizeof(Unit) == sizeof(Unit16))
    return bytes;
  else
    return static_cast<Unit>(bytes.low);
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
