// Goal: every sentence of size_histogram.h. Method: small histograms, and each bad count by name.

#include "coppice/padding/size_histogram.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

absl::StatusOr<SizeHistogram> From(const std::vector<SizeCount>& counts) {
  return SizeHistogram::From(counts);
}

TEST(SizeHistogramTest, BeginsWithoutACall) {
  const SizeHistogram histogram;
  EXPECT_TRUE(histogram.empty());
  EXPECT_EQ(histogram.mass(), 0);
  EXPECT_EQ(histogram.largest(), 0);
}

TEST(SizeHistogramTest, SortsAndAddsUpRepeats) {
  const absl::StatusOr<SizeHistogram> histogram = From({{7, 1}, {0, 2}, {7, 0.5}, {3, 4}});
  ASSERT_TRUE(histogram.ok()) << histogram.status();
  EXPECT_THAT(histogram->counts(),
              ElementsAre(SizeCount{0, 2}, SizeCount{3, 4}, SizeCount{7, 1.5}));
  EXPECT_EQ(histogram->mass(), 7.5);
  EXPECT_EQ(histogram->largest(), 7);
}

TEST(SizeHistogramTest, TakesOneCallPerSize) {
  const std::vector<int64_t> sizes = {5, 1, 5};
  EXPECT_THAT(SizeHistogram::FromSizes(sizes)->counts(),
              ElementsAre(SizeCount{1, 1}, SizeCount{5, 2}));
  const std::vector<int64_t> bad = {5, -1};
  EXPECT_EQ(SizeHistogram::FromSizes(bad).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SizeHistogramTest, AddingIsAsFrom) {
  SizeHistogram histogram;
  histogram.Add(7);
  histogram.Add(0, 2);
  histogram.Add(7, 0.5);
  histogram.Add(3, 4);
  EXPECT_EQ(histogram.counts(), From({{7, 1}, {0, 2}, {7, 0.5}, {3, 4}})->counts());
  EXPECT_EQ(histogram.mass(), 7.5);
}

TEST(SizeHistogramTest, RejectsWhatIsNoCount) {
  const double most = std::numeric_limits<double>::max();
  for (const std::vector<SizeCount>& counts : {std::vector<SizeCount>{{-1, 1}},
                                               {{1, 0}},
                                               {{1, -1}},
                                               {{1, HUGE_VAL}},
                                               {{1, std::nan("")}},
                                               {{1, most}, {2, most}}})
    EXPECT_EQ(From(counts).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SizeHistogramDeathTest, AddChecksItsArguments) {
  SizeHistogram histogram;
  EXPECT_DEATH(histogram.Add(-1), "a size is negative");
  EXPECT_DEATH(histogram.Add(1, 0), "a count is not above 0");
  EXPECT_DEATH(histogram.Add(1, HUGE_VAL), "a count is not above 0");
}

}  // namespace
}  // namespace coppice
