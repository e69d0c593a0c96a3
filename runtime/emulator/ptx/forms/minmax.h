// The smaller and the larger of two floats.
//
// Threads: pure functions.

#pragma once

#include "runtime/emulator/ptx/forms/float_format.h"

namespace coppice::ptx {

// -0 is below +0; a NaN loses against a number, or wins with .NaN.
template <bool larger, bool nan, typename F>
[[gnu::always_inline]] inline F Extreme(F a, F b) {
  const BitsOf<F> x = ToBits(a);
  const BitsOf<F> y = ToBits(b);
  F result = (larger ? a > b : a < b) ? a : b;
  if (a == b) result = FromBits<F>(larger ? x & y : x | y);  // They differ in the sign of zero.
  if constexpr (nan) {
    if (a != a || b != b) result = FromBits<F>(FloatBits<F>::kNaN);
    return result;
  }
  if (a != a) result = b;
  if (b != b) result = a;
  return Canonical(result);
}

// .xorsign.abs: of the magnitudes, with the product of the signs.
template <bool larger, bool nan, typename F>
[[gnu::always_inline]] inline F ExtremeMagnitude(F a, F b) {
  const F result = Extreme<larger, nan>(Abs(a), Abs(b));
  const BitsOf<F> sign = (ToBits(a) ^ ToBits(b)) & FloatBits<F>::kSign;
  return result != result ? result : FromBits<F>(ToBits(result) | sign);
}

}  // namespace coppice::ptx
