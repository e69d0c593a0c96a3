// Goal: percentiles are within 1/64 of those of the sorted durations. Method: drawn durations of
// all sizes.

#include "tools/prof/duration_histogram.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_device.h"

namespace coppice {
namespace {

TEST(DurationHistogramTest, PercentilesAreCloseToThoseOfTheSortedDurations) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    DurationHistogram histogram;
    std::vector<int64_t> sorted;
    const int bits = static_cast<int>(random() % 62) + 1;
    for (int i = 0; i <= round; ++i) {
      sorted.push_back(static_cast<int64_t>(random() >> (63 - bits) >> random() % 4 >> 1));
      histogram.Add(sorted.back());
    }
    std::ranges::sort(sorted);
    EXPECT_EQ(histogram.count(), std::ssize(sorted));
    EXPECT_EQ(histogram.most(), sorted.back());
    EXPECT_EQ(histogram.Percentile(100), sorted.back());
    for (const double percent : {0.1, 1.0, 50.0, 90.0, 99.0}) {
      const auto rank =
          static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(round + 1)));
      const int64_t exact = sorted[std::max<size_t>(rank, 1) - 1];
      EXPECT_GE(histogram.Percentile(percent), exact);
      EXPECT_LE(histogram.Percentile(percent), exact + exact / 64);
    }
  }
}

TEST(DurationHistogramTest, SmallDurationsAreExactAndNoneAreZero) {
  DurationHistogram histogram;
  EXPECT_EQ(histogram.Percentile(50), 0);
  for (int64_t ns = 1; ns <= 100; ++ns)
    histogram.Add(ns);
  EXPECT_EQ(histogram.Percentile(50), 50);
  EXPECT_EQ(histogram.Percentile(99), 99);
}

}  // namespace
}  // namespace coppice
