// Goal: a size that people write is the size that is meant, and any other text is refused.
// Method: sizes on both sides of every unit and limit.

#include "tools/support/byte_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

TEST(ByteTextTest, SizesAreWrittenInTheLargestUnitThatTheyFill) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(kKiB), "1.00 KiB");
  EXPECT_EQ(FormatBytes(kMiB - 1), "1024.00 KiB");
  EXPECT_EQ(FormatBytes(3 * kGiB / 2), "1.50 GiB");
}

TEST(ByteTextTest, SizesAreReadWithAndWithoutAUnit) {
  EXPECT_EQ(*ParseBytes("1"), 1);
  EXPECT_EQ(*ParseBytes("17B"), 17);
  EXPECT_EQ(*ParseBytes("64KiB"), 64 * kKiB);
  EXPECT_EQ(*ParseBytes("512MiB"), 512 * kMiB);
  EXPECT_EQ(*ParseBytes("4GiB"), 4 * kGiB);
  EXPECT_EQ(*ParseBytes("9223372036854775807"), INT64_MAX);
}

TEST(ByteTextTest, WhatIsNoSizeIsRefusedWithItsText) {
  for (const char* text : {"", "0", "-1", "1.5GiB", "4GB", "4 GiB", "GiB", "4gib", "0x10",
                           "9223372036854775808", "8589934592GiB"}) {
    const auto size = ParseBytes(text);
    EXPECT_THAT(size, StatusIs(absl::StatusCode::kInvalidArgument)) << text;
    EXPECT_THAT(size.status().message(), testing::HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(ByteTextTest, AStepOfAnAxisIsAPowerOfTwo) {
  EXPECT_EQ(ByteStep(1, 10), 1);
  EXPECT_EQ(ByteStep(1000, 10), 128);
  EXPECT_EQ(ByteStep(10 * kMiB, 10), kMiB);
}

}  // namespace
}  // namespace coppice
