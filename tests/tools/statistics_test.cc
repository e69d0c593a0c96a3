// Goal: a measurement's summary is the one that statistics packages print.
// Method: lists whose quantiles are known by hand.

#include "tools/support/statistics.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace coppice {
namespace {

TEST(StatisticsTest, MedianIsTheMiddleOrTheMeanOfTwo) {
  EXPECT_EQ(Median(std::vector<int64_t>{}), 0);
  EXPECT_EQ(Median(std::vector<int64_t>{5}), 5);
  EXPECT_EQ(Median(std::vector<int64_t>{9, 1, 5}), 5);
  EXPECT_EQ(Median(std::vector<double>{4, 1, 9, 5}), 4.5);
}

TEST(StatisticsTest, QuantilesInterpolateBetweenTheNearestTwo) {
  const std::vector<double> values = {40, 10, 30, 20, 50};
  EXPECT_EQ(Quantile(values, 0), 10);
  EXPECT_EQ(Quantile(values, 0.25), 20);
  EXPECT_EQ(Quantile(values, 0.9), 46);
  EXPECT_EQ(Quantile(values, 1), 50);
}

TEST(StatisticsTest, SpreadIsBetweenTheFirstAndTheLastTenth) {
  EXPECT_EQ(FormatSpread({0, 10}, 1), "1.0..9.0");
  EXPECT_EQ(FormatSpread({2.5}, 2), "2.50..2.50");
}

}  // namespace
}  // namespace coppice
