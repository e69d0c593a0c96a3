// Noise in place of numbers, element by element.

#include "graphs/case/redact.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "coppice/base/float_format.h"

namespace coppice {

namespace internal {
namespace {

uint64_t BitsAt(const std::string& bytes, size_t at, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + at, size);
  return bits;
}

// From 0.5 to below 1, of either sign.
uint64_t DrawFloat(const FloatFormat& format, std::mt19937_64& random) {
  const uint64_t mantissa = random() & ((uint64_t{1} << format.mantissa_bits) - 1);
  const uint64_t exponent = static_cast<uint64_t>(format.bias() - 1) << format.mantissa_bits;
  return (random() & 1) << format.sign_bit() | exponent | mantissa;
}

bool IsSpecial(const FloatFormat& format, uint64_t bits) {
  const uint64_t magnitude = bits & ((uint64_t{1} << format.sign_bit()) - 1);
  return magnitude == 0 || magnitude >= format.overflow;
}

void RedactFloats(const FloatFormat& format,
                  size_t size,
                  bool keeps_special,
                  std::mt19937_64& random,
                  std::string& bytes) {
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    const uint64_t noise = DrawFloat(format, random);
    if (keeps_special && IsSpecial(format, BitsAt(bytes, at, size))) continue;
    std::memcpy(bytes.data() + at, &noise, size);
  }
}

// An integer of any dtype, as one that is ordered as it is.
int64_t NumberOf(uint64_t bits, size_t size, bool is_signed) {
  const int shift = 64 - 8 * static_cast<int>(size);
  if (is_signed) return static_cast<int64_t>(bits << shift) >> shift;
  // The largest unsigned ones count as the largest signed one.
  return static_cast<int64_t>(std::min<uint64_t>(bits, std::numeric_limits<int64_t>::max()));
}

void RedactIntegers(DType dtype, bool keeps_special, std::mt19937_64& random, std::string& bytes) {
  const auto size = static_cast<size_t>(SizeOf(dtype));
  const bool is_signed = NameOf(dtype)[0] == 'i';
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t largest = std::numeric_limits<int64_t>::min();
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    const int64_t number = NumberOf(BitsAt(bytes, at, size), size, is_signed);
    least = std::min(least, number);
    largest = std::max(largest, number);
  }
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    const int64_t noise = std::uniform_int_distribution(least, largest)(random);
    if (keeps_special && BitsAt(bytes, at, size) == 0) continue;
    std::memcpy(bytes.data() + at, &noise, size);
  }
}

}  // namespace

void Redact(CaseValues values, uint64_t seed, CaseTensor& tensor) {
  if (values == CaseValues::kKeep) return;
  const bool keeps_special = values == CaseValues::kSpecial;
  std::mt19937_64 random(seed);
  if (const std::optional<FloatFormat> format = FloatFormat::Of(tensor.dtype)) {
    const int64_t parts = tensor.dtype == DType::kComplex64 ? 2 : 1;
    RedactFloats(*format, static_cast<size_t>(SizeOf(tensor.dtype) / parts), keeps_special, random,
                 tensor.bytes);
    return;
  }
  RedactIntegers(tensor.dtype, keeps_special, random, tensor.bytes);
}

}  // namespace internal
}  // namespace coppice
