// Goal: bits are read as the numbers they are. Method: every pattern of the narrow formats against
// their definition as a sum of powers of two; the wide ones against the processor's.

#include "coppice/base/float_format.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

double NumberOf(DType dtype, uint64_t bits) {
  return FloatFormat::Of(dtype)->NumberOf(bits);
}

// Reads a pattern bit by bit.
double Summed(uint64_t bits, int exponent_bits, int mantissa_bits) {
  double sum = 0;
  int exponent = 0;
  for (int i = 0; i < exponent_bits; ++i)
    if ((bits >> (mantissa_bits + i) & 1) != 0) exponent += 1 << i;
  const int scale = std::max(exponent, 1) - ((1 << (exponent_bits - 1)) - 1);
  if (exponent > 0) sum = std::pow(2.0, scale);
  for (int i = 0; i < mantissa_bits; ++i)
    if ((bits >> i & 1) != 0) sum += std::pow(2.0, scale - mantissa_bits + i);
  return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -sum : sum;
}

TEST(FloatFormatTest, ReadsEveryFiniteNarrowFloat) {
  struct Narrow {
    DType dtype;
    int exponent_bits;
    int mantissa_bits;
    uint64_t end;  // Behind the largest finite number.
  };
  const Narrow formats[] = {{DType::kFloat16, 5, 10, 0x7C00},
                            {DType::kBFloat16, 8, 7, 0x7F80},
                            {DType::kFloat8E5M2, 5, 2, 0x7C},
                            {DType::kFloat8E4M3, 4, 3, 0x7F}};
  for (const Narrow& format : formats) {
    const uint64_t sign = uint64_t{1} << (format.exponent_bits + format.mantissa_bits);
    for (uint64_t bits = 0; bits < format.end; ++bits) {
      for (const uint64_t pattern : {bits, bits | sign})
        ASSERT_EQ(NumberOf(format.dtype, pattern),
                  Summed(pattern, format.exponent_bits, format.mantissa_bits))
            << NameOf(format.dtype) << " " << pattern;
    }
  }
}

TEST(FloatFormatTest, ReadsWideFloatsAsTheProcessorDoes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t bits = random();
    const auto narrow = static_cast<uint32_t>(bits);
    for (const DType dtype : {DType::kFloat32, DType::kComplex64}) {
      const double expected = std::bit_cast<float>(narrow);
      const double actual = NumberOf(dtype, narrow);
      ASSERT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected))) << narrow;
    }
    const auto expected = std::bit_cast<double>(bits);
    const double actual = NumberOf(DType::kFloat64, bits);
    ASSERT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected))) << bits;
  }
}

TEST(FloatFormatTest, KnowsWhatIsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(NumberOf(DType::kFloat16, 0x7C00), kInfinity);
  EXPECT_EQ(NumberOf(DType::kFloat16, 0xFC00), -kInfinity);
  EXPECT_EQ(NumberOf(DType::kFloat8E5M2, 0x7C), kInfinity);
  EXPECT_TRUE(std::isnan(NumberOf(DType::kFloat16, 0x7C01)));
  EXPECT_TRUE(std::isnan(NumberOf(DType::kBFloat16, 0xFFFF)));
  EXPECT_TRUE(std::isnan(NumberOf(DType::kFloat8E4M3, 0x7F)));
  EXPECT_EQ(NumberOf(DType::kFloat8E4M3, 0x7E), 448) << "its last exponent holds numbers";
  for (const DType dtype : {DType::kFloat16, DType::kFloat8E4M3, DType::kFloat64})
    EXPECT_TRUE(std::isnan(NumberOf(dtype, FloatFormat::Of(dtype)->nan)));
}

TEST(FloatFormatTest, IntegersAndBoolsHaveNone) {
  for (const DType dtype : {DType::kBool, DType::kInt8, DType::kInt64, DType::kUInt16})
    EXPECT_FALSE(FloatFormat::Of(dtype).has_value());
}

}  // namespace
}  // namespace coppice
