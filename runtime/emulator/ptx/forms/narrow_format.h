// Floats of 16 bits and fewer.
//
//   format   exponent  mantissa   largest    infinity
//   F16          5        10      65504        yes
//   BF16         8         7      as f32       yes
//   E4M3         4         3      448          no: what would be one, and NaN, is 0x7f
//   E5M2         5         2      57344        yes
//   TF32         8        10      as f32       yes; kept in the upper bits of 32
//
// Threads: pure functions.

#pragma once

#include <cstdint>

#include "runtime/emulator/ptx/forms/float_format.h"

namespace coppice::ptx {

// Of magnitudes, which are rounded away from zero, or towards it, by their sign.
enum class NarrowRounding : uint8_t { kNearest, kTowardZero, kDown, kUp, kNearestAway };

template <int exponent_bits, int mantissa_bits, uint32_t largest, uint32_t nan>
struct NarrowFormat {
  static constexpr int kExponentBits = exponent_bits;
  static constexpr int kMantissaBits = mantissa_bits;
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr uint32_t kSign = uint32_t{1} << (exponent_bits + mantissa_bits);
  static constexpr uint32_t kLargest = largest;       // The bits of the largest finite number.
  static constexpr uint32_t kInfinity = largest + 1;  // Those of infinity; of E4M3, of NaN.
  static constexpr uint32_t kNaN = nan;
};
using F16 = NarrowFormat<5, 10, 0x7bff, 0x7fff>;
using BF16 = NarrowFormat<8, 7, 0x7f7f, 0x7fff>;
using E4M3 = NarrowFormat<4, 3, 0x7e, 0x7f>;
using E5M2 = NarrowFormat<5, 2, 0x7b, 0x7f>;
using TF32 = NarrowFormat<8, 10, 0x3fbff, 0x3ffff>;

// The nearest float in a format, as its bits: correctly rounded, subnormal numbers included. With
// `finite`, what is too large becomes the largest number (.satfinite).
template <typename Format, NarrowRounding rounding = NarrowRounding::kNearest, bool finite = false>
[[gnu::always_inline]] inline uint32_t Narrow(float value) {
  constexpr uint32_t kDropped = 23 - Format::kMantissaBits;
  constexpr uint32_t kRebias = 127 - Format::kBias;
  const uint32_t bits = ToBits(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const bool negative = (bits >> 31) != 0;

  uint32_t from = magnitude - (kRebias << 23);
  uint32_t drop = kDropped;
  if constexpr (kRebias > 0) {
    // Subnormal in the format: the mantissa with its leading one, which more is dropped of.
    const uint32_t exponent = magnitude >> 23;
    const bool subnormal = exponent <= kRebias;
    const uint32_t more = kDropped + 1 + kRebias - exponent;
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    // A subnormal float is far below half of the smallest number: any mantissa stands for it.
    from = subnormal ? (magnitude == 0 ? 0 : mantissa) : from;
    drop = subnormal ? (more < 31 ? more : 31) : kDropped;
  }
  const uint32_t kept = from >> drop;
  const uint32_t rest = from & ((uint32_t{1} << drop) - 1);
  const uint32_t half = uint32_t{1} << (drop - 1);
  bool up = false;
  if constexpr (rounding == NarrowRounding::kNearest)
    up = rest > half || (rest == half && (kept & 1) != 0);
  if constexpr (rounding == NarrowRounding::kNearestAway) up = rest >= half;
  if constexpr (rounding == NarrowRounding::kDown) up = negative && rest != 0;
  if constexpr (rounding == NarrowRounding::kUp) up = !negative && rest != 0;
  uint32_t result = kept + (up ? 1 : 0);

  constexpr bool kToZero = rounding == NarrowRounding::kTowardZero;
  const bool inward = finite || kToZero || (rounding == NarrowRounding::kDown && !negative) ||
                      (rounding == NarrowRounding::kUp && negative);
  const uint32_t too_large = inward ? Format::kLargest : Format::kInfinity;
  result = result > Format::kLargest ? too_large : result;
  if constexpr (!finite) result = magnitude == 0x7f800000 ? Format::kInfinity : result;
  result |= negative ? Format::kSign : 0;
  return magnitude > 0x7f800000 ? Format::kNaN : result;
}

[[gnu::always_inline]] inline float WidenF16(uint32_t bits) {
  const uint32_t magnitude = (bits & 0x7fff) << 13;
  // As a float of the same mantissa its exponent is 112 too low: exact, also for subnormals.
  const float value = FromBits<float>(magnitude) * 0x1p112f;
  const uint32_t exponent = magnitude >= 0x0f800000 ? 0x7f800000 : 0;  // Infinity and NaN.
  return FromBits<float>(ToBits(value) | exponent | (bits & 0x8000) << 16);
}

// The float that bits of a format are: always exact.
template <typename Format>
[[gnu::always_inline]] inline float Widen(uint32_t bits);
template <>
[[gnu::always_inline]] inline float Widen<F16>(uint32_t bits) {
  return WidenF16(bits);
}
template <>
[[gnu::always_inline]] inline float Widen<BF16>(uint32_t bits) {
  return FromBits<float>(bits << 16);
}
// The upper byte of an f16.
template <>
[[gnu::always_inline]] inline float Widen<E5M2>(uint32_t bits) {
  return WidenF16((bits & 0xff) << 8);
}
template <>
[[gnu::always_inline]] inline float Widen<E4M3>(uint32_t bits) {
  const float value = FromBits<float>((bits & 0x7f) << 20) * 0x1p120f;
  const float number = (bits & 0x7f) == 0x7f ? FromBits<float>(FloatBits<float>::kNaN) : value;
  return FromBits<float>(ToBits(number) | (bits & 0x80) << 24);
}

// What is rounded twice is rounded to odd first: `rounded`, which lost something of the sign of
// `rest`, becomes the neighbour with an odd mantissa, which no second rounding takes for a tie.
template <typename F>
[[gnu::always_inline]] inline F ToOdd(F rounded, F rest) {
  const BitsOf<F> bits = ToBits(rounded);
  const bool outward = (rest < 0) == ((bits & FloatBits<F>::kSign) != 0);
  const BitsOf<F> odd = outward ? bits + 1 : bits - 1;
  return FromBits<F>(rest != 0 && rest == rest && (bits & 1) == 0 ? odd : bits);
}

// A 64-bit float as one of 32 bits that can be rounded again.
[[gnu::always_inline]] inline float ToOddFloat(double value) {
  const auto rounded = static_cast<float>(value);
  const double lost = value - static_cast<double>(rounded);
  const bool exact = lost == 0 || value - value != 0;  // Infinities and NaN are.
  const uint32_t bits = ToBits(rounded);
  const bool outward = (lost < 0) == ((bits >> 31) != 0);
  const uint32_t odd = outward ? bits + 1 : bits - 1;
  return FromBits<float>(!exact && (bits & 1) == 0 ? odd : bits);
}

// a * b + c rounded to odd, if the product is exact in F.
template <typename F>
[[gnu::always_inline]] inline F FmaToOdd(F a, F b, F c) {
  const F product = a * b;
  const F sum = product + c;
  // What the sum lost, exactly.
  const F of_c = sum - product;
  const F rest = (product - (sum - of_c)) + (c - of_c);
  return ToOdd(sum, rest);
}

}  // namespace coppice::ptx
