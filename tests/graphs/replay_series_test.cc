// Goal: buckets have labels in the order in which they come, up to the bounds of metrics.h, and
// keep them. Method: programs and buckets up to the bounds and beyond.

#include "graphs/metrics/replay_series.h"

#include "coppice/graphs/metrics.h"

#include "tests/support/test.h"

namespace coppice::internal {
namespace {

ProgramSpec Spec(std::string name,
                 std::string variant = {},
                 std::vector<std::string> symbols = {"n"}) {
  ProgramSpec spec{.name = std::move(name), .variant = std::move(variant)};
  for (std::string& symbol : symbols)
    (void)spec.AddSymbol(std::move(symbol), *PaddingPolicy::Pow2(64));
  return spec;
}

std::string TextOf(const ReplaySeries& series, int32_t number) {
  const ReplaySeries::Labels& labels = *series.labels()[static_cast<size_t>(number)];
  return labels.program + "/" + labels.variant + "/" + labels.bucket;
}

TEST(ReplaySeriesTest, BucketsAreNumberedAsTheyComeAndKeepTheirNumber) {
  ReplaySeries series;
  const std::vector<int64_t> four = {4};
  const std::vector<int64_t> eight = {8};
  EXPECT_EQ(series.NumberOf(Spec("f"), eight), 0);
  EXPECT_EQ(series.NumberOf(Spec("f"), four), 1);
  EXPECT_EQ(series.NumberOf(Spec("f"), eight), 0);
  EXPECT_EQ(series.NumberOf(Spec("f", "fast"), eight), 2);
  EXPECT_EQ(series.NumberOf(Spec("g"), eight), 3);
  EXPECT_EQ(TextOf(series, 0), "f//n=8");
  EXPECT_EQ(TextOf(series, 2), "f/fast/n=8");
}

TEST(ReplaySeriesTest, BucketsNameTheirSymbols) {
  ReplaySeries series;
  const std::vector<int64_t> two = {8, 128};
  EXPECT_EQ(TextOf(series, series.NumberOf(Spec("f", "", {"batch", "length"}), two)),
            "f//batch=8,length=128");
  EXPECT_EQ(TextOf(series, series.NumberOf(Spec("f", "", {}), {})), "f//fixed");
}

TEST(ReplaySeriesTest, BucketsBeyondTheBoundOfAProgramAreOther) {
  ReplaySeries series;
  for (int64_t i = 0; i < kMetricsBucketsMax; ++i)
    EXPECT_EQ(series.NumberOf(Spec("f"), std::vector{i}), i);
  const int32_t other = series.NumberOf(Spec("f"), std::vector<int64_t>{kMetricsBucketsMax});
  EXPECT_EQ(TextOf(series, other), "f//other");
  EXPECT_EQ(series.NumberOf(Spec("f"), std::vector<int64_t>{1'000'000}), other);
  EXPECT_EQ(series.NumberOf(Spec("f"), std::vector<int64_t>{0}), 0);
  // A bound for each.
  EXPECT_EQ(TextOf(series, series.NumberOf(Spec("g"), std::vector<int64_t>{1})), "g//n=1");
  EXPECT_EQ(series.labels().size(), static_cast<size_t>(kMetricsBucketsMax) + 2);
}

TEST(ReplaySeriesTest, ProgramsBeyondTheBoundAreOther) {
  ReplaySeries series;
  const std::vector<int64_t> one = {1};
  for (int i = 0; i < kMetricsProgramsMax; ++i)
    (void)series.NumberOf(Spec(std::to_string(i)), one);
  const int32_t other = series.NumberOf(Spec("late"), one);
  EXPECT_EQ(TextOf(series, other), "other//other");
  EXPECT_EQ(series.NumberOf(Spec("later"), std::vector<int64_t>{2}), other);
  EXPECT_EQ(series.labels().size(), static_cast<size_t>(kMetricsProgramsMax) + 1);
}

TEST(ReplaySeriesTest, AProgramCalledOtherSharesNoLabelsWithWhatIsBeyond) {
  ReplaySeries series;
  const int32_t own = series.NumberOf(Spec("other"), std::vector<int64_t>{1});
  for (int i = 0; i < kMetricsProgramsMax; ++i)
    (void)series.NumberOf(Spec(std::to_string(i)), std::vector<int64_t>{1});
  EXPECT_EQ(TextOf(series, own), "other//n=1");
  // Only what is beyond both bounds: one series, of all of it.
  for (int64_t i = 2; i < kMetricsBucketsMax + 3; ++i)
    (void)series.NumberOf(Spec("other"), std::vector{i});
  int others = 0;
  for (const ReplaySeries::Labels* labels : series.labels())
    others += labels->program == "other" && labels->bucket == "other" ? 1 : 0;
  EXPECT_EQ(others, 1);
}

}  // namespace
}  // namespace coppice::internal
