// What atomic operations, and reductions of bulk copies, make of what is there.
//
// Threads: pure functions.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/emulator/ptx/forms/narrow_format.h"

namespace coppice::ptx {

// What is written, of what was there and one operand.
struct AtomicAdd {
  template <typename T>
  static T Of(T old, T b) {
    return static_cast<T>(old + b);
  }
};
struct AtomicAnd {
  template <typename T>
  static T Of(T old, T b) {
    return old & b;
  }
};
struct AtomicOr {
  template <typename T>
  static T Of(T old, T b) {
    return old | b;
  }
};
struct AtomicXor {
  template <typename T>
  static T Of(T old, T b) {
    return old ^ b;
  }
};
struct AtomicMin {
  template <typename T>
  static T Of(T old, T b) {
    return std::min(old, b);
  }
};
struct AtomicMax {
  template <typename T>
  static T Of(T old, T b) {
    return std::max(old, b);
  }
};
struct AtomicInc {
  static uint32_t Of(uint32_t old, uint32_t b) { return old >= b ? 0 : old + 1; }
};
struct AtomicDec {
  static uint32_t Of(uint32_t old, uint32_t b) { return old == 0 || old > b ? b : old - 1; }
};
// Where floats are added in global memory, numbers too small for a normal one are 0, as the ISA
// says of atom.global; in shared memory they are kept.
struct AtomicAddFlushed {
  static float Of(float old, float b) { return Flush(Flush(old) + Flush(b)); }
};

// Halves, one or a pair of them, in registers of their bits.
template <typename T, typename Format>
struct AtomicAddHalves {
  static T Of(T old, T b) {
    T sums = 0;
    for (size_t shift = 0; shift < 8 * sizeof(T); shift += 16) {
      const float sum = Widen<Format>(old >> shift & 0xffff) + Widen<Format>(b >> shift & 0xffff);
      sums = static_cast<T>(sums | Narrow<Format>(sum) << shift);
    }
    return sums;
  }
};

}  // namespace coppice::ptx
