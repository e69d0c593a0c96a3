// Goal: every sentence of padding_policy.h. Method: the header's picture row by row, all ladders of
// up to 300 extents against a linear search, and each bad spelling and argument by name.

#include "coppice/padding/padding_policy.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

std::vector<int64_t> BucketsOf(const std::string& text, int64_t maximum) {
  const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(text, maximum);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? policy->buckets() : std::vector<int64_t>();
}

void ExpectInvalid(const absl::StatusOr<PaddingPolicy>& policy) {
  ASSERT_FALSE(policy.ok()) << policy->name();
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument) << policy.status();
}

// Spellings of every kind of ladder, tame and wild.
const char* const kTexts[] = {"exact",
                              "pow2",
                              "linear",
                              "linear:1",
                              "linear:7",
                              "linear:1000",
                              "geometric",
                              "geometric:1.5:8",
                              "geometric:1.1:1",
                              "geometric:16:3",
                              "geometric:2:64",
                              "ramp",
                              "ramp:1:1",
                              "ramp:3:16",
                              "ramp:5:1000",
                              "1",
                              "1,1,1"};

TEST(PaddingPolicyTest, MakesTheLaddersOfThePicture) {
  EXPECT_THAT(BucketsOf("pow2", 48), ElementsAre(1, 2, 4, 8, 16, 32, 48));
  EXPECT_THAT(BucketsOf("linear:16", 48), ElementsAre(16, 32, 48));
  EXPECT_THAT(BucketsOf("geometric:1.5:8", 48), ElementsAre(8, 16, 24, 40, 48));
  EXPECT_THAT(BucketsOf("ramp:4:16", 48), ElementsAre(4, 8, 16, 32, 48));
  EXPECT_THAT(BucketsOf("1,2,4,48", 48), ElementsAre(1, 2, 4, 48));
  EXPECT_THAT(BucketsOf("1,2,4", 48), ElementsAre(1, 2, 4, 48));
  EXPECT_THAT(BucketsOf("exact", 4), ElementsAre(1, 2, 3, 4));
}

TEST(PaddingPolicyTest, FindsTheSmallestBucketThatHoldsTheExtent) {
  for (const char* text : kTexts) {
    for (int64_t maximum = 1; maximum <= 300; ++maximum) {
      const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(text, maximum);
      ASSERT_TRUE(policy.ok()) << policy.status();
      const std::vector<int64_t> buckets = policy->buckets();
      ASSERT_FALSE(buckets.empty());
      ASSERT_EQ(buckets.back(), maximum) << text;
      ASSERT_GE(buckets.front(), 1) << text;
      size_t rung = 0;
      for (int64_t extent = 0; extent <= maximum; ++extent) {
        if (extent > buckets[rung]) {
          ++rung;
          ASSERT_GT(buckets[rung], buckets[rung - 1]) << text << " maximum " << maximum;
        }
        ASSERT_EQ(policy->Find(extent), buckets[rung]) << text << " maximum " << maximum;
      }
      ASSERT_EQ(rung + 1, buckets.size()) << text << " maximum " << maximum;
    }
  }
}

TEST(PaddingPolicyTest, FindsNothingAboveTheMaximum) {
  for (const char* text : kTexts) {
    const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(text, 48);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_EQ(policy->Find(49), std::nullopt) << text;
    EXPECT_EQ(policy->Find(INT64_MAX), std::nullopt) << text;
  }
}

TEST(PaddingPolicyDeathTest, FindChecksItsExtent) {
  const PaddingPolicy policy = *PaddingPolicy::Pow2(48);
  EXPECT_DEATH(policy.Find(-1), "an extent is negative");
}

TEST(PaddingPolicyTest, GeometricBucketsGrowByTheRatioAndKeepTheAlignmentButTheLast) {
  for (const double ratio : {1.0001, 1.1, 1.25, 1.5, 2.0, 3.7, 16.0}) {
    for (const int64_t align : {1, 3, 8, 64}) {
      const std::vector<int64_t> buckets = PaddingPolicy::Geometric(ratio, align, 5000)->buckets();
      EXPECT_EQ(buckets.front(), align);
      for (size_t i = 0; i + 1 < buckets.size(); ++i) {
        EXPECT_EQ(buckets[i] % align, 0) << ratio << ":" << align;
        if (i + 2 < buckets.size()) {
          EXPECT_GE(static_cast<double>(buckets[i + 1]), static_cast<double>(buckets[i]) * ratio);
        }
      }
    }
  }
}

TEST(PaddingPolicyTest, GeometricGrowsEvenByTheLeastRatio) {
  const absl::StatusOr<PaddingPolicy> policy =
      PaddingPolicy::Geometric(std::nextafter(1.0, 2.0), 1, 300);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->buckets(), PaddingPolicy::Exact(300)->buckets());
}

TEST(PaddingPolicyTest, RampDoublesUpToTheStepWhichIsABucket) {
  EXPECT_THAT(PaddingPolicy::Ramp(3, 16, 60)->buckets(), ElementsAre(3, 6, 12, 16, 32, 48, 60));
  EXPECT_THAT(PaddingPolicy::Ramp(16, 16, 60)->buckets(), ElementsAre(16, 32, 48, 60));
  EXPECT_THAT(PaddingPolicy::Ramp(4, INT64_MAX, 60)->buckets(), ElementsAre(4, 8, 16, 32, 60));
}

TEST(PaddingPolicyTest, AFirstBucketAboveTheMaximumLeavesTheMaximum) {
  EXPECT_THAT(PaddingPolicy::Linear(INT64_MAX, 48)->buckets(), ElementsAre(48));
  EXPECT_THAT(PaddingPolicy::Geometric(2, INT64_MAX, 48)->buckets(), ElementsAre(48));
  EXPECT_THAT(PaddingPolicy::Ramp(100, 200, 48)->buckets(), ElementsAre(48));
}

TEST(PaddingPolicyTest, ListTakesAnyOrderAndDropsRepeats) {
  const std::vector<int64_t> buckets = {8, 2, 8, 48, 2, 1};
  EXPECT_THAT(PaddingPolicy::List(buckets, 48)->buckets(), ElementsAre(1, 2, 8, 48));
}

TEST(PaddingPolicyTest, ListRejectsWhatIsNoBucket) {
  for (const std::vector<int64_t>& buckets :
       {std::vector<int64_t>{}, {0}, {1, -2}, {49}, {1, INT64_MAX}}) {
    ExpectInvalid(PaddingPolicy::List(buckets, 48));
  }
}

TEST(PaddingPolicyTest, FactoriesRejectArgumentsOutOfRange) {
  ExpectInvalid(PaddingPolicy::Linear(0, 48));
  ExpectInvalid(PaddingPolicy::Linear(-16, 48));
  for (const double ratio : {1.0, 0.5, -2.0, 16.001, std::nan(""), HUGE_VAL, -HUGE_VAL})
    ExpectInvalid(PaddingPolicy::Geometric(ratio, 1, 48));
  ExpectInvalid(PaddingPolicy::Geometric(1.5, 0, 48));
  ExpectInvalid(PaddingPolicy::Geometric(1.5, -8, 48));
  ExpectInvalid(PaddingPolicy::Ramp(0, 16, 48));
  ExpectInvalid(PaddingPolicy::Ramp(-4, 16, 48));
  ExpectInvalid(PaddingPolicy::Ramp(17, 16, 48));
}

TEST(PaddingPolicyTest, EveryFactoryChecksTheMaximum) {
  const std::vector<int64_t> one = {1};
  for (const int64_t maximum :
       {int64_t{0}, int64_t{-1}, PaddingPolicy::kExtentMax + 1, INT64_MAX}) {
    ExpectInvalid(PaddingPolicy::Exact(maximum));
    ExpectInvalid(PaddingPolicy::Linear(16, maximum));
    ExpectInvalid(PaddingPolicy::Pow2(maximum));
    ExpectInvalid(PaddingPolicy::Geometric(1.5, 8, maximum));
    ExpectInvalid(PaddingPolicy::Ramp(4, 16, maximum));
    ExpectInvalid(PaddingPolicy::List(one, maximum));
  }
}

TEST(PaddingPolicyTest, HoldsTheLargestMaximum) {
  const int64_t maximum = PaddingPolicy::kExtentMax;
  EXPECT_EQ(PaddingPolicy::Exact(maximum)->Find(maximum), maximum);
  const PaddingPolicy policy = *PaddingPolicy::Pow2(maximum);
  EXPECT_EQ(policy.Find(maximum), maximum);
  EXPECT_EQ(policy.Find(maximum / 2), maximum / 2);
  EXPECT_EQ(policy.Find(maximum / 2 + 1), maximum);
}

TEST(PaddingPolicyTest, ParseReadsItsOwnNames) {
  const std::vector<int64_t> list = {4, 1, 4, 2};
  const PaddingPolicy policies[] = {*PaddingPolicy::Exact(48),
                                    *PaddingPolicy::Linear(7, 48),
                                    *PaddingPolicy::Pow2(48),
                                    *PaddingPolicy::Geometric(1.1, 8, 48),
                                    *PaddingPolicy::Geometric(16, 1, 48),
                                    *PaddingPolicy::Geometric(1.0 + 1e-15, 1, 48),
                                    *PaddingPolicy::Ramp(3, 16, 48),
                                    *PaddingPolicy::List(list, 48)};
  for (const PaddingPolicy& policy : policies) {
    const absl::StatusOr<PaddingPolicy> again = PaddingPolicy::Parse(policy.name(), 48);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->name(), policy.name());
    EXPECT_EQ(again->buckets(), policy.buckets());
    EXPECT_EQ(again->is_exact(), policy.is_exact());
    EXPECT_EQ(again->maximum(), 48);
  }
}

TEST(PaddingPolicyTest, NamesAreTheSpellingsOfThePicture) {
  for (const char* text : {"exact", "pow2", "linear:16", "geometric:1.5:8", "ramp:4:16", "1,2,48"})
    EXPECT_EQ(PaddingPolicy::Parse(text, 48)->name(), text);
}

TEST(PaddingPolicyTest, NamesAloneMeanTheirDefaults) {
  EXPECT_EQ(PaddingPolicy::Parse("geometric", 48)->name(), "geometric:1.25:1");
  EXPECT_EQ(PaddingPolicy::Parse("linear", 48)->name(), "linear:16");
  EXPECT_EQ(PaddingPolicy::Parse("ramp", 48)->name(), "ramp:4:16");
}

TEST(PaddingPolicyTest, OnlyExactIsExact) {
  EXPECT_TRUE(PaddingPolicy::Exact(48)->is_exact());
  EXPECT_FALSE(PaddingPolicy::Linear(1, 48)->is_exact());
}

TEST(PaddingPolicyTest, ParseRejectsWhatItCannotReadWhole) {
  for (const char* text : {"",
                           " ",
                           "pow",
                           "pow2 ",
                           " pow2",
                           "Pow2",
                           "pow2:",
                           "pow2:1",
                           "exact:1",
                           "linear:",
                           "linear:x",
                           "linear:1:2",
                           "linear:+1",
                           "linear:-1",
                           "linear: 1",
                           "linear:1 ",
                           "linear:0x10",
                           "linear:1.5",
                           "linear:1e1",
                           "geometric:",
                           "geometric:1.5",
                           "geometric:1.5:",
                           "geometric::8",
                           "geometric:1.5:8:1",
                           "geometric:+1.5:8",
                           "geometric:1.5e0:8",
                           "geometric:inf:8",
                           "geometric:nan:8",
                           "geometric:.5:8",
                           "geometric:1.5:8.0",
                           "ramp:",
                           "ramp:4",
                           "ramp:4:",
                           "ramp:4:16:64",
                           "ramp:-4:16",
                           ",",
                           "1,",
                           ",1",
                           "1,,2",
                           "1, 2",
                           "1;2",
                           "-1",
                           "+1",
                           "1.0",
                           "1,x",
                           "linear:9223372036854775808",
                           "99999999999999999999",
                           "unknown:1"}) {
    const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(text, 48);
    ExpectInvalid(policy);
    EXPECT_THAT(policy.status().ToString(), HasSubstr(fmt::format("\"{}\"", text)));
    EXPECT_THAT(policy.status().ToString(), HasSubstr("geometric:<ratio>:<align>"));
  }
}

TEST(PaddingPolicyTest, ParseQuotesTheTextWhoseArgumentsAreOutOfRange) {
  for (const char* text : {"linear:0", "geometric:1:8", "geometric:17:8", "geometric:1.5:0",
                           "ramp:0:4", "ramp:8:4", "0", "49", "1,2,49"}) {
    const absl::StatusOr<PaddingPolicy> policy = PaddingPolicy::Parse(text, 48);
    ExpectInvalid(policy);
    EXPECT_THAT(policy.status().ToString(), HasSubstr(fmt::format("\"{}\"", text)));
    EXPECT_THAT(policy.status().ToString(), HasSubstr("geometric:<ratio>:<align>"));
  }
  ExpectInvalid(PaddingPolicy::Parse("pow2", 0));
}

TEST(PaddingPolicyTest, AGuardRefusesWhatWouldBeMostlyPadding) {
  const PaddingPolicy policy = *PaddingPolicy::Pow2(64)->WithGuard({.max_ratio = 1.5});
  for (int64_t extent = 0; extent <= 64; ++extent) {
    const int64_t bucket = *PaddingPolicy::Pow2(64)->Find(extent);
    if (2 * bucket <= 3 * extent) {
      EXPECT_EQ(policy.Find(extent), bucket) << extent;
    } else {
      EXPECT_EQ(policy.Find(extent), std::nullopt) << extent;
      EXPECT_EQ(policy.WhyNone(extent), NoBucket::kPaddedTooMuch);
    }
  }
  EXPECT_EQ(policy.Find(65), std::nullopt);
  EXPECT_EQ(policy.WhyNone(65), NoBucket::kBeyondMaximum);
  EXPECT_EQ(policy.buckets(), PaddingPolicy::Pow2(64)->buckets());
  EXPECT_EQ(policy.name(), "pow2");
  EXPECT_EQ(policy.guard().max_ratio, 1.5);
}

TEST(PaddingPolicyTest, AGuardLeavesSmallExtentsTheirBuckets) {
  const PaddingPolicy policy =
      *PaddingPolicy::Linear(16, 64)->WithGuard({.max_ratio = 1.25, .min_replay_size = 5});
  EXPECT_EQ(policy.Find(0), 16);
  EXPECT_EQ(policy.Find(4), 16);
  EXPECT_EQ(policy.Find(5), std::nullopt);
  EXPECT_EQ(policy.Find(12), std::nullopt);
  EXPECT_EQ(policy.Find(13), 16);
}

TEST(PaddingPolicyTest, ABucketServesDownToItsLowerBound) {
  const PaddingPolicy policy = *PaddingPolicy::Linear(16, 48)->WithGuard(
      {.min_replay_size = 99, .lower_bounds = {0, 20, 48}});
  EXPECT_EQ(policy.Find(0), 16);
  EXPECT_EQ(policy.Find(16), 16);
  EXPECT_EQ(policy.Find(19), std::nullopt);
  EXPECT_EQ(policy.WhyNone(19), NoBucket::kPaddedTooMuch);
  EXPECT_EQ(policy.Find(20), 32);
  EXPECT_EQ(policy.Find(47), std::nullopt);
  EXPECT_EQ(policy.Find(48), 48);
}

TEST(PaddingPolicyTest, AnotherGuardTakesTheOnesPlace) {
  const PaddingPolicy policy = *PaddingPolicy::Linear(16, 48)->WithGuard({.max_ratio = 1.25});
  EXPECT_EQ(policy.Find(1), std::nullopt);
  EXPECT_EQ(policy.WithGuard({})->Find(1), 16);
  EXPECT_EQ(PaddingPolicy::Exact(8)->WithGuard({.max_ratio = 1})->Find(3), 3);
}

TEST(PaddingPolicyTest, AGuardOutOfRangeIsRefused) {
  const PaddingPolicy policy = *PaddingPolicy::Linear(16, 48);
  for (const PaddingGuard& guard : {PaddingGuard{.max_ratio = 0.5},
                                    {.max_ratio = -1},
                                    {.max_ratio = std::nan("")},
                                    {.max_ratio = HUGE_VAL},
                                    {.min_replay_size = -1},
                                    {.lower_bounds = {0, 0}},
                                    {.lower_bounds = {-1, 0, 0}},
                                    {.lower_bounds = {0, 33, 0}}})
    ExpectInvalid(policy.WithGuard(guard));
  ExpectInvalid(PaddingPolicy::Exact(1)->WithGuard({.lower_bounds = {0}}));
}

TEST(PaddingPolicyDeathTest, WhyNoneIsForExtentsWithoutABucket) {
  EXPECT_DEATH(PaddingPolicy::Pow2(48)->WhyNone(48), "has a bucket");
}

TEST(PaddingPolicyTest, ParseIsNotFooledByAnEmbeddedZeroByte) {
  ExpectInvalid(PaddingPolicy::Parse(std::string("pow2\0", 5), 48));
}

}  // namespace
}  // namespace coppice
