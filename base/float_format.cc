// Bits of floats as numbers.

#include "coppice/base/float_format.h"

#include <cmath>
#include <limits>

namespace coppice {

double FloatFormat::NumberOf(uint64_t bits) const {
  const uint64_t magnitude = bits & ((uint64_t{1} << sign_bit()) - 1);
  const double sign = (bits >> sign_bit() & 1) != 0 ? -1 : 1;
  const bool has_infinity = nan != overflow;
  if (has_infinity && magnitude == overflow) return sign * std::numeric_limits<double>::infinity();
  if (magnitude >= overflow) return std::numeric_limits<double>::quiet_NaN();
  const uint64_t hidden = uint64_t{1} << mantissa_bits;
  const uint64_t mantissa = magnitude & (hidden - 1);
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  // Subnormal numbers lack the hidden bit and share the smallest exponent.
  if (exponent == 0)
    return sign * std::ldexp(static_cast<double>(mantissa), 1 - bias() - mantissa_bits);
  return sign *
         std::ldexp(static_cast<double>(mantissa | hidden), exponent - bias() - mantissa_bits);
}

}  // namespace coppice
