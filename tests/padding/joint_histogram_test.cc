// Goal: every sentence of joint_histogram.h. Method: small histograms counted by hand.

#include "coppice/padding/joint_histogram.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(JointHistogramTest, SortsSizesAndAddsTheirCountsUp) {
  const std::vector<JointCount> counts = {{{2, 1}, 1}, {{1, 9}, 0.5}, {{2, 1}, 2}, {{0, 0}, 1}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const JointHistogram histogram, JointHistogram::From(counts));
  EXPECT_THAT(histogram.counts(),
              ElementsAre(JointCount{{0, 0}, 1}, JointCount{{1, 9}, 0.5}, JointCount{{2, 1}, 3}));
  EXPECT_EQ(histogram.mass(), 4.5);
  EXPECT_FALSE(histogram.empty());
  EXPECT_TRUE(JointHistogram().empty());
  EXPECT_EQ(JointHistogram().mass(), 0);
}

TEST(JointHistogramTest, FromSizesCountsEachOnce) {
  const std::vector<JointSize> sizes = {{1, 2}, {1, 2}, {3, 4}};
  EXPECT_THAT(JointHistogram::FromSizes(sizes)->counts(),
              ElementsAre(JointCount{{1, 2}, 2}, JointCount{{3, 4}, 1}));
  EXPECT_THAT(JointHistogram::FromSizes({})->counts(), IsEmpty());
  const std::vector<JointSize> negative = {{1, -2}};
  EXPECT_THAT(JointHistogram::FromSizes(negative), StatusIs(kWrongArgument));
}

TEST(JointHistogramTest, RejectsWhatIsNoCount) {
  const double most = std::numeric_limits<double>::max();
  for (const std::vector<JointCount>& counts : {std::vector<JointCount>{{{-1, 1}, 1}},
                                                {{{1, -1}, 1}},
                                                {{{1, 1}, 0}},
                                                {{{1, 1}, -1}},
                                                {{{1, 1}, std::nan("")}},
                                                {{{1, 1}, HUGE_VAL}},
                                                {{{1, 1}, most}, {{2, 1}, most}}})
    EXPECT_THAT(JointHistogram::From(counts), StatusIs(kWrongArgument));
}

TEST(JointHistogramTest, ScoresCallsThatHaveABucket) {
  const std::vector<JointCount> counts = {{{1, 3}, 2}, {{2, 4}, 1}, {{3, 1}, 5}};
  const JointHistogram histogram = *JointHistogram::From(counts);
  const JointPolicy policy = *JointPolicy::Parse("1x4,2x4", {2, 4});
  const JointScore score = ScoreJoint(histogram, policy);
  EXPECT_EQ(score.calls, 3);
  EXPECT_EQ(score.beyond, 5);
  EXPECT_EQ(score.cost, 2 * 4 + 8);
  EXPECT_EQ(score.real_cost, 2 * 3 + 8);
  EXPECT_DOUBLE_EQ(score.waste_pct, 100.0 * 2 / 14);
  const JointCost rows = [](JointSize size) { return static_cast<double>(size.a); };
  EXPECT_EQ(ScoreJoint(histogram, policy, rows).waste_pct, 0);
  EXPECT_EQ(ScoreJoint(JointHistogram(), policy).waste_pct, 0);
  const JointCost nothing = [](JointSize) { return 0.0; };
  EXPECT_EQ(ScoreJoint(histogram, policy, nothing).waste_pct, 0);
}

}  // namespace
}  // namespace coppice
