// Goal: every sentence of poison.h. Method: patterns written out; noise of every dtype is read as
// numbers by a decoder of its own, and counted.

#include "coppice/graphs/poison.h"

#include "tests/graphs/staging_scene.h"
#include "tests/support/test.h"

namespace coppice {
namespace {

constexpr PaddingContents kContents[] = {PaddingContents::kAny, PaddingContents::kFinite,
                                         PaddingContents::kFill};

bool IsFloat(DType dtype) {
  constexpr DType kFloats[] = {DType::kFloat32,  DType::kFloat16,    DType::kBFloat16,
                               DType::kFloat64,  DType::kFloat8E4M3, DType::kFloat8E5M2,
                               DType::kComplex64};
  return std::ranges::count(kFloats, dtype) > 0;
}

// Exponent bits and mantissa bits.
std::pair<int, int> FieldsOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {11, 52};
    case DType::kFloat16:
      return {5, 10};
    case DType::kBFloat16:
      return {8, 7};
    case DType::kFloat8E4M3:
      return {4, 3};
    case DType::kFloat8E5M2:
      return {5, 2};
    default:
      return {8, 23};
  }
}

std::vector<uint64_t> Noise(DType dtype, PaddingContents contents, uint64_t seed, int64_t count) {
  std::vector<uint64_t> noise;
  for (int64_t i = 0; i < count; ++i)
    noise.push_back(PoisonElement(Poison::kNoise, dtype, contents, seed, i));
  return noise;
}

TEST(PoisonTest, AnyBitsPoisonEverythingFiniteValuesFloatsAndFillsNothing) {
  for (const DType dtype : kDTypes) {
    EXPECT_TRUE(MayPoison(PaddingContents::kAny, dtype));
    EXPECT_EQ(MayPoison(PaddingContents::kFinite, dtype), IsFloat(dtype)) << NameOf(dtype);
    EXPECT_EQ(MayPoison(PaddingContents::kRowIndependent, dtype), IsFloat(dtype));
    EXPECT_FALSE(MayPoison(PaddingContents::kFill, dtype));
  }
}

TEST(PoisonTest, NanIsAQuietNanOrTheTopBit) {
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kFloat32), 0x7FC0'0000U);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kFloat16), 0x7E00U);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kBFloat16), 0x7FC0U);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kInt32), 0x8000'0000U);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kInt64), uint64_t{1} << 63);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kUInt8), 0x80U);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kBool), 0x80U);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kFloat64), 0x7FF8'0000'0000'0000U);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kFloat8E4M3), 0x7FU);
  EXPECT_EQ(PoisonPattern(Poison::kNan, DType::kComplex64), 0x7FC0'0000'7FC0'0000U);
}

TEST(PoisonTest, PatternIs5AInEveryByte) {
  EXPECT_EQ(PoisonPattern(Poison::kPattern, DType::kUInt8), 0x5AU);
  EXPECT_EQ(PoisonPattern(Poison::kPattern, DType::kFloat16), 0x5A5AU);
  EXPECT_EQ(PoisonPattern(Poison::kPattern, DType::kBFloat16), 0x5A5AU);
  EXPECT_EQ(PoisonPattern(Poison::kPattern, DType::kInt32), 0x5A5A'5A5AU);
  EXPECT_EQ(PoisonPattern(Poison::kPattern, DType::kFloat32), 0x5A5A'5A5AU);
  EXPECT_EQ(PoisonPattern(Poison::kPattern, DType::kInt64), 0x5A5A'5A5A'5A5A'5A5AU);
}

TEST(PoisonTest, OffGivesZero) {
  for (const DType dtype : kDTypes)
    EXPECT_EQ(PoisonPattern(Poison::kOff, dtype), 0U);
}

TEST(PoisonTest, NanIsTheLeastNumberWhereValuesAreFinite) {
  const auto least = [](DType dtype) {
    return PoisonPattern(Poison::kNan, dtype, PaddingContents::kFinite);
  };
  EXPECT_EQ(least(DType::kFloat32), 0xFF7F'FFFFU);
  EXPECT_EQ(least(DType::kFloat16), 0xFBFFU) << "-65504";
  EXPECT_EQ(least(DType::kBFloat16), 0xFF7FU);
  EXPECT_EQ(least(DType::kFloat64), 0xFFEF'FFFF'FFFF'FFFFU);
  EXPECT_EQ(least(DType::kFloat8E4M3), 0xFEU) << "-448";
  EXPECT_EQ(least(DType::kFloat8E5M2), 0xFBU) << "-57344";
  EXPECT_EQ(least(DType::kComplex64), 0xFF7F'FFFF'FF7F'FFFFU);
}

TEST(PoisonTest, PatternIsTheSameWhereValuesAreFinite) {
  for (const DType dtype : kDTypes) {
    if (!IsFloat(dtype)) continue;
    EXPECT_EQ(PoisonPattern(Poison::kPattern, dtype, PaddingContents::kFinite),
              PoisonPattern(Poison::kPattern, dtype));
  }
}

TEST(PoisonTest, ElementsAreThePatternButUnderNoise) {
  for (const DType dtype : kDTypes)
    for (const Poison poison : {Poison::kOff, Poison::kNan, Poison::kPattern})
      EXPECT_EQ(PoisonElement(poison, dtype, PaddingContents::kAny, 5, 7),
                PoisonPattern(poison, dtype));
}

TEST(PoisonTest, NoiseIsDrawnFromItsSeedAlone) {
  for (const DType dtype : kDTypes) {
    const std::vector<uint64_t> noise = Noise(dtype, PaddingContents::kAny, 1, 40);
    EXPECT_EQ(noise, Noise(dtype, PaddingContents::kAny, 1, 40));
    EXPECT_NE(noise, Noise(dtype, PaddingContents::kAny, 2, 40));
  }
}

TEST(PoisonTest, NoiseOfAnyBitsHasEachBitSetAboutEverySecondTime) {
  constexpr int64_t kCount = 4000;
  for (const DType dtype : kDTypes) {
    const std::vector<uint64_t> noise = Noise(dtype, PaddingContents::kAny, 3, kCount);
    for (int64_t bit = 0; bit < 64; ++bit) {
      const int64_t set = std::ranges::count_if(
          noise, [bit](uint64_t element) { return (element >> bit & 1) != 0; });
      if (bit >= 8 * SizeOf(dtype)) {
        EXPECT_EQ(set, 0) << NameOf(dtype) << " has no bit " << bit;
      } else {
        EXPECT_LE(std::abs(set - kCount / 2), 200) << NameOf(dtype) << " bit " << bit;
      }
    }
  }
}

TEST(PoisonTest, FiniteNoiseIsOfBothSignsFrom2UpToTheLargestExponents) {
  for (const DType dtype : kDTypes) {
    if (!IsFloat(dtype)) continue;
    const auto [exponent_bits, mantissa_bits] = FieldsOf(dtype);
    const uint64_t all_ones = (uint64_t{1} << exponent_bits) - 1;
    const uint64_t of_two = all_ones / 2 + 1;  // The exponent of 2.
    std::vector<uint64_t> parts = Noise(dtype, PaddingContents::kFinite, 4, 2000);
    if (dtype == DType::kComplex64) {
      for (size_t i = 0; i < 2000; ++i) {
        parts.push_back(parts[i] >> 32);
        parts[i] &= 0xFFFF'FFFF;
      }
    }
    std::set<uint64_t> exponents;
    int64_t negative = 0;
    for (const uint64_t part : parts) {
      exponents.insert(part >> mantissa_bits & all_ones);
      negative += static_cast<int64_t>(part >> (mantissa_bits + exponent_bits) & 1);
    }
    EXPECT_GE(*exponents.begin(), of_two) << NameOf(dtype);
    EXPECT_EQ(*exponents.rbegin(), all_ones - 1) << NameOf(dtype) << " is infinite or too small";
    const int64_t positive = std::ssize(parts) - negative;
    EXPECT_LE(std::abs(positive - negative), std::ssize(parts) / 10) << NameOf(dtype);
  }
}

TEST(PoisonDeathTest, ContentsThatAllowNoPoisonAreRefused) {
  constexpr const char* kWhy = "the claim allows only the fill";
  EXPECT_DEATH(PoisonPattern(Poison::kNan, DType::kFloat32, PaddingContents::kFill), kWhy);
  EXPECT_DEATH(PoisonPattern(Poison::kNan, DType::kInt32, PaddingContents::kFinite), kWhy);
  EXPECT_DEATH(PoisonElement(Poison::kNoise, DType::kBool, PaddingContents::kFinite, 0, 0), kWhy);
  for (const PaddingContents contents : kContents)
    EXPECT_EQ(PoisonPattern(Poison::kOff, DType::kInt8, contents), 0U);
}

}  // namespace
}  // namespace coppice
