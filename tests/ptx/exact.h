// Exact numbers, and their rounding to any binary format: what handlers of float forms are compared
// with. Integers of any length; nothing is shared with the handlers.
//
// Threads: pure functions.

#pragma once

#include <cstdint>

#include <boost/multiprecision/cpp_int.hpp>

namespace coppice::ptx {

using Integer = boost::multiprecision::cpp_int;

struct BinaryFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  bool has_infinity = true;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t nan() const { return (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1; }
  uint64_t sign() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t infinity() const { return nan() >> mantissa_bits << mantissa_bits; }
  uint64_t largest() const { return has_infinity ? infinity() - 1 : nan() - 1; }
};
inline constexpr BinaryFormat kFormatF16 = {5, 10};
inline constexpr BinaryFormat kFormatBF16 = {8, 7};
inline constexpr BinaryFormat kFormatTF32 = {8, 10};
inline constexpr BinaryFormat kFormatF32 = {8, 23};
inline constexpr BinaryFormat kFormatF64 = {11, 52};
inline constexpr BinaryFormat kFormatE4M3 = {4, 3, false};
inline constexpr BinaryFormat kFormatE5M2 = {5, 2};

enum class Direction : uint8_t { kNearest, kZero, kDown, kUp, kAway };

// (-1)^negative * magnitude * 2^exponent, infinity, or NaN.
struct Exact {
  enum class Kind : uint8_t { kFinite, kInfinity, kNaN };
  Kind kind = Kind::kFinite;
  bool negative = false;
  Integer magnitude = 0;
  int exponent = 0;

  static Exact NaN() { return {.kind = Kind::kNaN}; }
  static Exact Infinity(bool negative) { return {.kind = Kind::kInfinity, .negative = negative}; }
  static Exact Of(const Integer& value);

  bool is_nan() const { return kind == Kind::kNaN; }
  bool is_infinite() const { return kind == Kind::kInfinity; }
  bool is_zero() const { return kind == Kind::kFinite && magnitude == 0; }
};

Exact FromFormat(const BinaryFormat& format, uint64_t bits);

// The nearest number of the format in a direction; with `finite`, too large ones become the
// largest.
uint64_t ToFormat(const BinaryFormat& format,
                  const Exact& value,
                  Direction direction,
                  bool finite = false);

// A zero that is the sum of numbers of different signs is -0 when rounding down.
Exact Sum(const Exact& a, const Exact& b, Direction direction);
Exact Product(const Exact& a, const Exact& b);
// Not exact, but with more digits than any format, and a last one that says that some are missing.
Exact Quotient(const Exact& a, const Exact& b);
Exact SquareRoot(const Exact& a);

Exact Negated(Exact a);
Exact Magnitude(Exact a);

// -1, 0, 1; 2 if either is a NaN.
int Order(const Exact& a, const Exact& b);

// The integral value next to it in a direction, its sign kept.
Exact Integral(const Exact& a, Direction direction);
// Of an integral value.
Integer ToInteger(const Exact& a);

}  // namespace coppice::ptx
