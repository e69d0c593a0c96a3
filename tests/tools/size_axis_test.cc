// Goal: every sentence of size_axis.h. Method: axes short and long, in both directions.

#include "tools/tune/size_axis.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coppice {
namespace {

using testing::Contains;
using testing::ElementsAre;

TEST(SizeAxisTest, GrowsFromOneEndToTheOther) {
  for (const int64_t limit : {1, 8, 64, 65, 8192}) {
    for (const auto& [begin, end] : {std::pair(100.0, 1000.0), {700.0, 60.0}}) {
      const SizeAxis axis(limit, begin, end);
      EXPECT_DOUBLE_EQ(axis.At(0), begin);
      EXPECT_DOUBLE_EQ(axis.At(limit), end);
      EXPECT_DOUBLE_EQ(axis.At(limit + 1), end);
      for (int64_t size = 0; size < limit; ++size)
        EXPECT_EQ(axis.At(size) < axis.At(size + 1), begin < end);
    }
  }
}

TEST(SizeAxisTest, IsToScaleWhereSizesSpanLittle) {
  EXPECT_DOUBLE_EQ(SizeAxis(64, 0, 640).At(16), 160);
  EXPECT_GT(SizeAxis(8192, 0, 640).At(16), 160);
}

TEST(SizeAxisTest, NumbersStandUpToTheLimit) {
  EXPECT_THAT(SizeAxis(4, 0, 100).Ticks(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(SizeAxis(100, 0, 100).Ticks(), ElementsAre(1, 2, 4, 8, 16, 32, 64));
}

TEST(SizeAxisTest, EdgesLieApartButForThoseThatAreKept) {
  for (const int64_t limit : {1, 5, 64, 500, 8192, 1 << 24}) {
    const SizeAxis axis(limit, 700, 60);
    const std::vector<int64_t> plain = axis.Edges(6, {});
    EXPECT_EQ(plain.front(), 0);
    EXPECT_EQ(plain.back(), limit);
    EXPECT_LE(plain.size(), 640 / 6 + 2U);
    for (size_t i = 1; i + 1 < plain.size(); ++i)
      EXPECT_GE(std::abs(axis.At(plain[i]) - axis.At(plain[i - 1])), 6) << plain[i];
    const std::vector<int64_t> kept = {limit, limit / 2, limit / 2};
    const std::vector<int64_t> more = axis.Edges(6, kept);
    EXPECT_THAT(more, Contains(limit / 2));
    EXPECT_TRUE(std::adjacent_find(more.begin(), more.end(), std::greater_equal<>()) == more.end());
  }
}

}  // namespace
}  // namespace coppice
