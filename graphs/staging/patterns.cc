// Bit patterns of padding: fills, and poison.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "coppice/base/check.h"
#include "coppice/base/float_format.h"
#include "coppice/graphs/poison.h"
#include "coppice/graphs/staging.h"

namespace coppice {
namespace {

// `value` rounded to the nearest of the format, ties to even.
uint64_t FloatPattern(double value, const FloatFormat& format) {
  const int bias = format.bias();
  const uint64_t sign = uint64_t{std::signbit(value)} << format.sign_bit();
  if (std::isnan(value)) return sign | format.nan;
  if (std::isinf(value)) return sign | format.overflow;
  const double magnitude = std::fabs(value);
  // Subnormals share the smallest exponent. The implicit bit of a normal number is part of
  // `last_places` and carries into the exponent field, and so does rounding up.
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const double last_places = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // Far beyond the range a pattern would not fit its field.
  if (exponent > bias + 1) return sign | format.overflow;
  const uint64_t pattern = (static_cast<uint64_t>(exponent + bias - 1) << format.mantissa_bits) +
                           static_cast<uint64_t>(last_places);
  return sign | std::min(pattern, format.overflow);
}

// `value` rounded to the nearest integer, ties to even, and held to the range of Integer.
template <typename Integer>
uint64_t IntegerPattern(double value) {
  using Limits = std::numeric_limits<Integer>;
  // The first power of two above the range is a double even where its largest integer is not.
  const double end = std::ldexp(1.0, Limits::digits);
  const double rounded = std::nearbyint(value);
  Integer integer = 0;
  if (rounded >= end)
    integer = Limits::max();
  else if (rounded <= static_cast<double>(Limits::min()))
    integer = Limits::min();
  else if (!std::isnan(rounded))
    integer = static_cast<Integer>(rounded);
  return static_cast<uint64_t>(integer);
}

// The bits of `pattern` that one element has.
uint64_t Truncate(uint64_t pattern, DType dtype) {
  return pattern & ~uint64_t{0} >> (64 - 8 * SizeOf(dtype));
}

uint64_t ValuePattern(double value, DType dtype) {
  if (const std::optional<FloatFormat> format = FloatFormat::Of(dtype))
    return FloatPattern(value, *format);  // A complex number's other part is 0.
  switch (dtype) {
    case DType::kBool:
      return value != 0 ? 1 : 0;
    case DType::kInt8:
      return Truncate(IntegerPattern<int8_t>(value), dtype);
    case DType::kInt16:
      return Truncate(IntegerPattern<int16_t>(value), dtype);
    case DType::kInt32:
      return Truncate(IntegerPattern<int32_t>(value), dtype);
    case DType::kInt64:
      return IntegerPattern<int64_t>(value);
    case DType::kUInt8:
      return IntegerPattern<uint8_t>(value);
    case DType::kUInt16:
      return IntegerPattern<uint16_t>(value);
    case DType::kUInt32:
      return IntegerPattern<uint32_t>(value);
    case DType::kUInt64:
      return IntegerPattern<uint64_t>(value);
    default:
      return 0;
  }
}

// Word `index` of the noise; staging.cu draws the same. Mixes as splitmix64 does.
uint64_t NoiseWord(uint64_t seed, uint64_t index) {
  uint64_t word = seed + (index + 1) * 0x9E37'79B9'7F4A'7C15;
  word = (word ^ word >> 30) * 0xBF58'476D'1CE4'E5B9;
  word = (word ^ word >> 27) * 0x94D0'49BB'1331'11EB;
  return word ^ word >> 31;
}

}  // namespace

uint64_t FillPattern(const Fill& fill, DType dtype) {
  switch (fill.kind) {
    case FillKind::kValue:
      return ValuePattern(fill.value, dtype);
    case FillKind::kSentinel:
      return dtype == DType::kBool ? 1 : Truncate(~uint64_t{0}, dtype);
    case FillKind::kZero:
    case FillKind::kRepeatLast:
    case FillKind::kUndefined:
      return 0;
  }
  return 0;
}

bool MayPoison(PaddingContents contents, DType dtype) {
  if (contents == PaddingContents::kFinite || contents == PaddingContents::kRowIndependent)
    return FloatFormat::Of(dtype).has_value();
  return contents == PaddingContents::kAny;
}

uint64_t PoisonPattern(Poison poison, DType dtype, PaddingContents contents) {
  if (poison == Poison::kOff || poison == Poison::kNoise) return 0;
  COPPICE_CHECK(MayPoison(contents, dtype), "the claim allows only the fill");
  if (poison == Poison::kPattern) return Truncate(0x5A5A'5A5A'5A5A'5A5A, dtype);
  const std::optional<FloatFormat> format = FloatFormat::Of(dtype);
  if (!format) return uint64_t{1} << (8 * SizeOf(dtype) - 1);
  const uint64_t least = uint64_t{1} << format->sign_bit() | (format->overflow - 1);
  const uint64_t part = contents == PaddingContents::kFinite ? least : format->nan;
  return dtype == DType::kComplex64 ? part << 32 | part : part;
}

// An exponent whose last bit is clear is never that of infinities and NaNs.
NoiseBits NoiseBitsOf(DType dtype, PaddingContents contents) {
  const std::optional<FloatFormat> format = FloatFormat::Of(dtype);
  if (contents != PaddingContents::kFinite || !format) return {};
  return {.set = static_cast<int8_t>(format->sign_bit() - 1),
          .clear = static_cast<int8_t>(format->mantissa_bits)};
}

uint64_t PoisonElement(
    Poison poison, DType dtype, PaddingContents contents, uint64_t seed, int64_t index) {
  if (poison != Poison::kNoise) return PoisonPattern(poison, dtype, contents);
  COPPICE_CHECK(MayPoison(contents, dtype), "the claim allows only the fill");
  const uint64_t byte = static_cast<uint64_t>(index) * static_cast<uint64_t>(SizeOf(dtype));
  uint64_t bits = NoiseWord(seed, byte / 8) >> (8 * (byte % 8));
  const NoiseBits held = NoiseBitsOf(dtype, contents);
  if (held.set >= 0) {
    const int part_bits = dtype == DType::kComplex64 ? 32 : 64;
    for (int part = 0; part < 64; part += part_bits) {
      bits |= uint64_t{1} << (part + held.set);
      bits &= ~(uint64_t{1} << (part + held.clear));
    }
  }
  return Truncate(bits, dtype);
}

}  // namespace coppice
