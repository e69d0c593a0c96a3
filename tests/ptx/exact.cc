// Arithmetic on integers of any length.

#include "tests/ptx/exact.h"

#include <algorithm>
#include <utility>

namespace coppice::ptx {
namespace {

constexpr int kDigits = 256;  // Of quotients and roots: more than any format has, and than any tie.

int Length(const Integer& value) {
  return value == 0 ? 0 : static_cast<int>(msb(value)) + 1;
}

// floor(magnitude * 2^exponent), and what is left: 0 nothing, 1 below half, 2 half, 3 above.
std::pair<Integer, int> Shifted(const Integer& magnitude, int exponent) {
  if (exponent >= 0) return {Integer(magnitude << exponent), 0};
  const int drop = -exponent;
  if (drop > Length(magnitude) + 1) return {0, magnitude == 0 ? 0 : 1};
  const Integer kept = magnitude >> drop;
  const Integer rest = magnitude - (kept << drop);
  const Integer half = Integer(1) << (drop - 1);
  return {kept, rest == 0 ? 0 : rest < half ? 1 : rest == half ? 2 : 3};
}

bool RoundsUp(Direction direction, bool negative, bool odd, int rest) {
  switch (direction) {
    case Direction::kNearest:
      return rest == 3 || (rest == 2 && odd);
    case Direction::kAway:
      return rest >= 2;
    case Direction::kZero:
      return false;
    case Direction::kDown:
      return negative && rest > 0;
    case Direction::kUp:
      return !negative && rest > 0;
  }
  return false;
}

}  // namespace

Exact Exact::Of(const Integer& value) {
  return {.negative = value < 0, .magnitude = abs(value)};
}

Exact FromFormat(const BinaryFormat& format, uint64_t bits) {
  const bool negative = (bits & format.sign()) != 0;
  const uint64_t magnitude = bits & (format.sign() - 1);
  if (magnitude > format.largest()) {
    const bool infinite = format.has_infinity && magnitude == format.infinity();
    Exact special = infinite ? Exact::Infinity(negative) : Exact::NaN();
    special.negative = negative;  // Of a NaN too: .xorsign looks at it.
    return special;
  }
  const uint64_t mantissa = magnitude & ((uint64_t{1} << format.mantissa_bits) - 1);
  const int field = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint64_t leading = field > 0 ? uint64_t{1} << format.mantissa_bits : 0;
  return {.negative = negative,
          .magnitude = Integer(mantissa | leading),
          .exponent = std::max(field, 1) - format.bias() - format.mantissa_bits};
}

uint64_t ToFormat(const BinaryFormat& format,
                  const Exact& value,
                  Direction direction,
                  bool finite) {
  if (value.is_nan()) return format.nan();
  const uint64_t sign = value.negative ? format.sign() : 0;
  const bool inward = finite || direction == Direction::kZero ||
                      (direction == Direction::kDown && !value.negative) ||
                      (direction == Direction::kUp && value.negative);
  const uint64_t beyond = format.has_infinity ? format.infinity() : format.nan();
  if (value.is_infinite()) return sign | (finite ? format.largest() : beyond);
  if (value.magnitude == 0) return sign;
  const int top = Length(value.magnitude) - 1 + value.exponent;
  // The exponent of the last bit that is kept.
  int last = std::max(top, 1 - format.bias()) - format.mantissa_bits;
  auto [kept, rest] = Shifted(value.magnitude, value.exponent - last);
  if (RoundsUp(direction, value.negative, bit_test(kept, 0), rest)) ++kept;
  if (kept == Integer(1) << (format.mantissa_bits + 1)) {
    kept >>= 1;
    ++last;
  }
  const Integer leading = Integer(1) << format.mantissa_bits;
  const Integer field =
      kept < leading ? Integer(0) : Integer(last + format.mantissa_bits + format.bias());
  const Integer mantissa = kept < leading ? kept : Integer(kept - leading);
  const Integer bits = (field << format.mantissa_bits) + mantissa;
  if (bits > format.largest()) return sign | (inward ? format.largest() : beyond);
  return sign | static_cast<uint64_t>(bits);
}

Exact Sum(const Exact& a, const Exact& b, Direction direction) {
  if (a.is_nan() || b.is_nan()) return Exact::NaN();
  if (a.is_infinite() && b.is_infinite() && a.negative != b.negative) return Exact::NaN();
  if (a.is_infinite()) return a;
  if (b.is_infinite()) return b;
  const int exponent = std::min(a.exponent, b.exponent);
  const Integer x = a.magnitude << (a.exponent - exponent);
  const Integer y = b.magnitude << (b.exponent - exponent);
  const Integer sum = (a.negative ? Integer(-x) : x) + (b.negative ? Integer(-y) : y);
  Exact result = Exact::Of(sum);
  result.exponent = exponent;
  if (sum == 0)
    result.negative = a.negative == b.negative ? a.negative : direction == Direction::kDown;
  return result;
}

Exact Product(const Exact& a, const Exact& b) {
  const bool negative = a.negative != b.negative;
  if (a.is_nan() || b.is_nan()) return Exact::NaN();
  if (a.is_infinite() || b.is_infinite())
    return a.is_zero() || b.is_zero() ? Exact::NaN() : Exact::Infinity(negative);
  return {.negative = negative,
          .magnitude = a.magnitude * b.magnitude,
          .exponent = a.exponent + b.exponent};
}

Exact Quotient(const Exact& a, const Exact& b) {
  const bool negative = a.negative != b.negative;
  if (a.is_nan() || b.is_nan() || (a.is_zero() && b.is_zero()) ||
      (a.is_infinite() && b.is_infinite()))
    return Exact::NaN();
  if (a.is_infinite() || b.is_zero()) return Exact::Infinity(negative);
  if (b.is_infinite()) return {.negative = negative};
  const Integer dividend = a.magnitude << kDigits;
  const Integer quotient = dividend / b.magnitude;
  const Integer missing = dividend % b.magnitude == 0 ? 0 : 1;
  return {.negative = negative,
          .magnitude = quotient * 2 + missing,
          .exponent = a.exponent - b.exponent - kDigits - 1};
}

Exact SquareRoot(const Exact& a) {
  if (a.is_nan() || a.is_zero()) return a;
  if (a.negative) return Exact::NaN();
  if (a.is_infinite()) return a;
  const int shift = kDigits + ((a.exponent - kDigits) % 2 != 0 ? 1 : 0);
  const Integer square = a.magnitude << shift;
  const Integer root = sqrt(square);
  const Integer missing = root * root == square ? 0 : 1;
  return {.magnitude = root * 2 + missing, .exponent = (a.exponent - shift) / 2 - 1};
}

Exact Negated(Exact a) {
  a.negative = !a.negative;
  return a;
}

Exact Magnitude(Exact a) {
  a.negative = false;
  return a;
}

int Order(const Exact& a, const Exact& b) {
  if (a.is_nan() || b.is_nan()) return 2;
  if (a.is_infinite() || b.is_infinite()) {
    const int x = a.is_infinite() ? (a.negative ? -1 : 1) : 0;
    const int y = b.is_infinite() ? (b.negative ? -1 : 1) : 0;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const Exact difference = Sum(a, Negated(b), Direction::kNearest);
  return difference.magnitude == 0 ? 0 : difference.negative ? -1 : 1;
}

Exact Integral(const Exact& a, Direction direction) {
  if (a.kind != Exact::Kind::kFinite || a.exponent >= 0) return a;
  auto [kept, rest] = Shifted(a.magnitude, a.exponent);
  if (RoundsUp(direction, a.negative, bit_test(kept, 0), rest)) ++kept;
  return {.negative = a.negative, .magnitude = kept};
}

Integer ToInteger(const Exact& a) {
  const Integer magnitude =
      a.exponent >= 0 ? Integer(a.magnitude << a.exponent) : Integer(a.magnitude >> -a.exponent);
  return a.negative ? Integer(-magnitude) : magnitude;
}

}  // namespace coppice::ptx
