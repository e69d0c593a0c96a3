// The bit fields of a float dtype, and the number that a bit pattern stands for.
//
//   sign | exponent | mantissa      the highest bit first; a complex number has two such parts
//
// Units: bits. Threads: pure functions.

#pragma once

#include <cstdint>
#include <optional>

#include "coppice/base/tensor.h"

namespace coppice {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  uint64_t overflow;  // The pattern above the largest finite number: infinity, if there is one.
  uint64_t nan;       // A quiet NaN.

  constexpr int sign_bit() const { return exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  static constexpr FloatFormat Ieee(int exponent_bits, int mantissa_bits) {
    const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
    return {exponent_bits, mantissa_bits, infinity, infinity | uint64_t{1} << (mantissa_bits - 1)};
  }
  // The format of a float, or of each part of a complex number; nothing for other dtypes.
  static constexpr std::optional<FloatFormat> Of(DType dtype);

  // The exact number that `bits` stand for. Requires: the bits above the sign are 0.
  double NumberOf(uint64_t bits) const;
};

constexpr std::optional<FloatFormat> FloatFormat::Of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64:
      return Ieee(8, 23);
    case DType::kFloat16:
      return Ieee(5, 10);
    case DType::kBFloat16:
      return Ieee(8, 7);
    case DType::kFloat64:
      return Ieee(11, 52);
    case DType::kFloat8E5M2:
      return Ieee(5, 2);
    case DType::kFloat8E4M3:
      // Its largest exponent holds numbers, too; only the pattern of all ones is NaN (OCP 8-bit
      // floating point, 1.0).
      return FloatFormat{4, 3, 0x7F, 0x7F};
    default:
      return std::nullopt;
  }
}

}  // namespace coppice
