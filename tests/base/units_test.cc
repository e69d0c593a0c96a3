// Goal: alignment arithmetic is exact at its edges.
// Method: values on both sides of every boundary.

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(UnitsTest, UnitsArePowersOf1024) {
  EXPECT_EQ(kKiB, 1024);
  EXPECT_EQ(kMiB, 1024 * kKiB);
  EXPECT_EQ(kGiB, 1024 * kMiB);
  EXPECT_TRUE(IsPowerOfTwo(kBufferAlignment));
}

TEST(UnitsTest, PowersOfTwoArePositive) {
  for (const int64_t value : {int64_t{1}, int64_t{2}, int64_t{256}, int64_t{1} << 62}) {
    EXPECT_TRUE(IsPowerOfTwo(value)) << value;
  }
  for (const int64_t value : {int64_t{0}, int64_t{3}, int64_t{-2}, INT64_MIN, INT64_MAX}) {
    EXPECT_FALSE(IsPowerOfTwo(value)) << value;
  }
}

TEST(UnitsTest, AlignUpIsTheLeastMultipleNotBelow) {
  EXPECT_EQ(AlignUp(0, 256), 0);
  EXPECT_EQ(AlignUp(1, 256), 256);
  EXPECT_EQ(AlignUp(256, 256), 256);
  EXPECT_EQ(AlignUp(257, 256), 512);
  EXPECT_EQ(AlignUp(7, 3), 9);
  EXPECT_EQ(AlignUp(INT64_MAX, 1), INT64_MAX);
}

TEST(UnitsDeathTest, AlignUpRefusesWhatItCannotAlign) {
  EXPECT_DEATH(AlignUp(-1, 256), "positive alignment");
  EXPECT_DEATH(AlignUp(1, 0), "positive alignment");
  EXPECT_DEATH(AlignUp(INT64_MAX, 2), "overflows");
}

TEST(UnitsTest, CeilDivideRoundsUp) {
  EXPECT_EQ(CeilDivide(0, 4), 0);
  EXPECT_EQ(CeilDivide(1, 4), 1);
  EXPECT_EQ(CeilDivide(4, 4), 1);
  EXPECT_EQ(CeilDivide(5, 4), 2);
  EXPECT_EQ(CeilDivide(INT64_MAX, 1), INT64_MAX);
}

}  // namespace
}  // namespace coppice
