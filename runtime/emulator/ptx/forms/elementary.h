// 2^x and log2(x) in a way that becomes vector code.
//
// Both are computed on 64-bit floats by polynomials, so that what is rounded to 32 bits is the
// correctly rounded result in all but a few cases.
//
// Threads: pure functions.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/emulator/ptx/forms/float_format.h"

namespace coppice::ptx {

// Added to a small number, it leaves the nearest integer in the lowest bits.
inline constexpr double kShifter = 0x1.8p52;

// c[0] + c[1] x + c[2] x^2 + ...
template <size_t n>
[[gnu::always_inline]] inline double Polynomial(const std::array<double, n>& c, double x) {
  double sum = c[n - 1];
  for (size_t i = n - 1; i > 0; --i)
    sum = sum * x + c[i - 1];
  return sum;
}

// ln(2)^k / k!: the series of 2^x, whose rest for |x| <= 1/2 is below 2^-39.
inline constexpr auto kExp2Series = [] {
  constexpr double kLn2 = 0.693147180559945309417;
  std::array<double, 10> series = {1};
  for (size_t k = 1; k < series.size(); ++k)
    series[k] = series[k - 1] * kLn2 / static_cast<double>(k);
  return series;
}();

[[gnu::always_inline]] inline float Exp2(float value) {
  // Behind these bounds every result is 0 or infinite.
  const double low = value < -200 ? -200.0 : static_cast<double>(value);
  const double x = low > 200 ? 200.0 : low;
  const double shifted = x + kShifter;
  const double fraction = x - (shifted - kShifter);
  // The integer's bits, moved to where the exponent is.
  const uint64_t scale = (ToBits(shifted) + 1023) << 52;
  return static_cast<float>(Polynomial(kExp2Series, fraction) * FromBits<double>(scale));
}

// 2/ln(2) / (2k + 1): log2(m) is s times the series in s^2, with s = (m - 1) / (m + 1).
inline constexpr auto kLog2Series = [] {
  constexpr double kTwoByLn2 = 2.885390081777926814720;
  std::array<double, 9> series = {};
  for (size_t k = 0; k < series.size(); ++k)
    series[k] = kTwoByLn2 / static_cast<double>(2 * k + 1);
  return series;
}();

[[gnu::always_inline]] inline float Log2(float value) {
  constexpr uint64_t kMantissa = 0x000fffffffffffff;
  const uint64_t bits = ToBits(static_cast<double>(value));
  // m in [sqrt(1/2), sqrt(2)), so that numbers next to 1 keep their digits.
  const uint64_t upper = (bits & kMantissa) > (ToBits(0x1.6a09e667f3bcdp0) & kMantissa) ? 1 : 0;
  const double m = FromBits<double>((bits & kMantissa) | ((1023 - upper) << 52));
  const uint64_t exponent = (bits >> 52) + upper;
  const double whole = FromBits<double>(ToBits(0x1p52) | exponent) - (0x1p52 + 1023);
  const double s = (m - 1) / (m + 1);
  const auto result = static_cast<float>(whole + s * Polynomial(kLog2Series, s * s));
  const float infinity = FromBits<float>(FloatBits<float>::kInfinity);
  if (value == 0) return -infinity;
  if (value == infinity) return infinity;
  return value > 0 ? result : FromBits<float>(FloatBits<float>::kNaN);
}

}  // namespace coppice::ptx
