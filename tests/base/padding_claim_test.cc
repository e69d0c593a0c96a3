// Goal: claims compare as padding_claim.h says. Method: pairs of elements on both sides of every
// bound, in each kind of dtype.

#include "coppice/base/padding_claim.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

using testing::Optional;

constexpr Equality kBits;
constexpr Equality kTenth = {.bits = false, .relative = 0.1};
constexpr Equality kOne = {.bits = false, .absolute = 1};

bool AgreeFloats(const Equality& equal, float expected, float actual) {
  return Agree(equal, DType::kFloat32, std::bit_cast<uint32_t>(expected),
               std::bit_cast<uint32_t>(actual));
}

TEST(PaddingClaimTest, EqualBitsMeansEqualBits) {
  EXPECT_TRUE(AgreeFloats(kBits, 1.5F, 1.5F));
  EXPECT_FALSE(AgreeFloats(kBits, 0.0F, -0.0F));
  EXPECT_FALSE(Agree(kBits, DType::kFloat32, 0x7FC0'0000, 0x7FC0'0001)) << "two NaNs";
  EXPECT_TRUE(Agree(kBits, DType::kFloat32, 0x7FC0'0001, 0x7FC0'0001));
}

TEST(PaddingClaimTest, ToleranceIsAbsoluteAndRelativeToTheExpectedValue) {
  EXPECT_TRUE(AgreeFloats(kTenth, 100, 110));
  EXPECT_FALSE(AgreeFloats(kTenth, 100, 111));
  EXPECT_FALSE(AgreeFloats(kTenth, 100, 89));
  EXPECT_TRUE(AgreeFloats(kTenth, -110, -99));
  EXPECT_FALSE(AgreeFloats(kTenth, -99, -110)) << "relative to -99";
  EXPECT_TRUE(AgreeFloats(kOne, 100, 101));
  EXPECT_FALSE(AgreeFloats(kOne, 100, 101.5F));
  EXPECT_TRUE(AgreeFloats({.bits = false, .absolute = 1, .relative = 0.1}, 100, 111));
  EXPECT_TRUE(AgreeFloats(kTenth, 0.0F, -0.0F));
}

TEST(PaddingClaimTest, NansAgreeWithEachOtherAndInfinitiesWithThemselves) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Equality wide = {.bits = false, .absolute = 1e300, .relative = 1e300};
  EXPECT_TRUE(Agree(wide, DType::kFloat32, 0x7FC0'0000, 0xFFC0'0001));
  EXPECT_FALSE(AgreeFloats(wide, kNan, 1));
  EXPECT_FALSE(AgreeFloats(wide, 1, kNan));
  EXPECT_TRUE(AgreeFloats(wide, kInfinity, kInfinity));
  EXPECT_FALSE(AgreeFloats(wide, kInfinity, -kInfinity));
  EXPECT_FALSE(AgreeFloats(wide, kInfinity, 3e38F));
  EXPECT_FALSE(AgreeFloats(wide, 3e38F, kInfinity));
}

TEST(PaddingClaimTest, NarrowFloatsAreComparedAsNumbers) {
  EXPECT_TRUE(Agree(kTenth, DType::kFloat16, 0x3C00, 0x3C64)) << "1 and 1.098";
  EXPECT_FALSE(Agree(kTenth, DType::kFloat16, 0x3C00, 0x3C80)) << "1 and 1.125";
  EXPECT_FALSE(Agree(kTenth, DType::kFloat16, 0x3C00, 0xBC00)) << "1 and -1";
  EXPECT_TRUE(Agree(kOne, DType::kFloat8E4M3, 0x38, 0x40)) << "1 and 2";
  EXPECT_FALSE(Agree(kOne, DType::kFloat8E4M3, 0x38, 0x41)) << "1 and 2.25";
}

TEST(PaddingClaimTest, PartsOfComplexNumbersAreComparedByThemselves) {
  const auto complex = [](float real, float imaginary) {
    return uint64_t{std::bit_cast<uint32_t>(imaginary)} << 32 | std::bit_cast<uint32_t>(real);
  };
  EXPECT_TRUE(Agree(kTenth, DType::kComplex64, complex(100, 1), complex(109, 1.09F)));
  EXPECT_FALSE(Agree(kTenth, DType::kComplex64, complex(100, 1), complex(100, 2)));
  EXPECT_FALSE(Agree(kTenth, DType::kComplex64, complex(1, 100), complex(2, 100)));
}

TEST(PaddingClaimTest, IntegersAreComparedAsNumbersWithoutRounding) {
  EXPECT_TRUE(Agree(kOne, DType::kInt8, 0xFF, 0x00)) << "-1 and 0";
  EXPECT_FALSE(Agree(kOne, DType::kUInt8, 0xFF, 0x00)) << "255 and 0";
  EXPECT_TRUE(Agree(kTenth, DType::kInt32, 0xFFFF'FF9C, 0xFFFF'FF92)) << "-100 and -110";
  EXPECT_FALSE(Agree(kTenth, DType::kInt32, 0xFFFF'FF9C, 0xFFFF'FF91)) << "-100 and -111";
  constexpr uint64_t kLarge = uint64_t{1} << 62;
  EXPECT_TRUE(Agree(kOne, DType::kInt64, kLarge, kLarge + 1));
  EXPECT_FALSE(Agree(kOne, DType::kInt64, kLarge, kLarge + 2));
  EXPECT_FALSE(Agree(kOne, DType::kUInt64, 2 * kLarge, 2 * kLarge - 2));
  EXPECT_FALSE(Agree(kOne, DType::kInt64, 2 * kLarge, 2 * kLarge - 1)) << "the least and the most";
}

TEST(PaddingClaimTest, BoolsAgreeWithTheirOwnBitsAlone) {
  EXPECT_TRUE(Agree(kOne, DType::kBool, 1, 1));
  EXPECT_FALSE(Agree(kOne, DType::kBool, 1, 0));
}

TEST(PaddingClaimTest, FindsTheFirstElementThatDisagrees) {
  const std::vector<float> expected = {1, 2, 3, 4};
  std::vector<float> actual = expected;
  const auto find = [&](const Equality& equal) {
    return FindDisagreement(equal, DType::kFloat32, std::as_bytes(std::span(expected)),
                            std::as_bytes(std::span(actual)));
  };
  EXPECT_EQ(find(kBits), std::nullopt);
  actual[1] = 2.1F;
  actual[3] = 5;
  EXPECT_THAT(find(kBits), Optional(1));
  EXPECT_THAT(find(kTenth), Optional(3));
  EXPECT_EQ(find(kOne), std::nullopt);
  EXPECT_EQ(FindDisagreement(kBits, DType::kInt64, {}, {}), std::nullopt);
}

TEST(PaddingClaimDeathTest, TensorsOfDifferentSizesAreNotCompared) {
  const std::vector<std::byte> bytes(8);
  const std::span<const std::byte> all = bytes;
  EXPECT_DEATH(FindDisagreement(kBits, DType::kInt32, all, all.first(4)), "same number of bytes");
  EXPECT_DEATH(FindDisagreement(kBits, DType::kInt32, all.first(6), all.first(6)),
               "same number of bytes");
}

TEST(PaddingClaimTest, JoinedAsksForBitsOnlyIfBothDo) {
  EXPECT_EQ(Joined(kBits, kBits), kBits);
  EXPECT_EQ(Joined(kBits, kTenth), kTenth);
  EXPECT_EQ(Joined(kTenth, kBits), kTenth);
  EXPECT_EQ(Joined({.bits = false, .absolute = 1, .relative = 0.5},
                   {.bits = false, .absolute = 2, .relative = 0.25}),
            (Equality{.bits = false, .absolute = 3, .relative = 0.75}));
}

TEST(PaddingClaimTest, IsDescribedInWords) {
  EXPECT_STREQ(NameOf(PaddingContents::kAny), "any");
  EXPECT_STREQ(NameOf(PaddingContents::kFinite), "finite");
  EXPECT_STREQ(NameOf(PaddingContents::kFill), "fill");
  EXPECT_STREQ(NameOf(PaddingContents::kRowIndependent), "row_independent");
  EXPECT_THAT(DescribeClaim({.padding = PaddingContents::kAny}),
              AllOf(HasSubstr("any bits"), HasSubstr("equal bit for bit")));
  EXPECT_THAT(DescribeClaim({.padding = PaddingContents::kFinite, .equal = kTenth}),
              AllOf(HasSubstr("finite values"), HasSubstr("within 0 + 0.1 x |value|")));
  EXPECT_THAT(DescribeClaim({.padding = PaddingContents::kFill}), HasSubstr("exactly its fill"));
}

TEST(PaddingClaimTest, IsReadFromItsWordWithTolerancesBehind) {
  for (const PaddingContents contents : {PaddingContents::kAny, PaddingContents::kFinite,
                                         PaddingContents::kFill, PaddingContents::kRowIndependent})
    EXPECT_EQ(**ParseClaim(NameOf(contents)), PaddingClaim{.padding = contents});
  EXPECT_EQ(**ParseClaim("masked"), PaddingClaim{.padding = PaddingContents::kAny});
  EXPECT_EQ(*ParseClaim("exact"), std::nullopt);
  EXPECT_EQ((**ParseClaim("finite:0.5")).equal, (Equality{.bits = false, .absolute = 0.5}));
  EXPECT_EQ((**ParseClaim("any:0:0.25")).equal, (Equality{.bits = false, .relative = 0.25}));
}

TEST(PaddingClaimTest, RefusesWhatIsNoClaimWithTheWordsThatThereAre) {
  for (const char* text : {"", "none", "rows", "Any", "any:", "any:x", "any:-1", "any:inf",
                           "any:1:", "any:1:2:3", "exact:1", ":1"}) {
    const auto refused = ParseClaim(text);
    ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("exact, any, masked, row_independent, finite or fill"));
  }
}

TEST(PaddingClaimTest, ContentsAllowWhatThoseBehindThemAllow) {
  EXPECT_LT(PaddingContents::kAny, PaddingContents::kFinite);
  EXPECT_LT(PaddingContents::kFinite, PaddingContents::kFill);
}

}  // namespace
}  // namespace coppice
