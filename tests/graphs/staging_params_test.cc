// Goal: the layout that host, g++ and nvcc must agree on. Method: sizes, offsets and defaults
// written out as numbers, which the compilers cannot move together.

#include "coppice/graphs/staging_params.h"

#include <cstddef>
#include <type_traits>

#include "gtest/gtest.h"

namespace coppice {
namespace {

TEST(StagingParamsTest, StructsAreCopiedByteForByte) {
  EXPECT_TRUE(std::is_trivially_copyable_v<StagingParams>);
  EXPECT_TRUE(std::is_standard_layout_v<StagingParams>);
}

TEST(StagingParamsTest, CopyHasNoPadding) {
  EXPECT_EQ(sizeof(StagedCopy), 136U);
  EXPECT_EQ(offsetof(StagedCopy, sizes), 16U);
  EXPECT_EQ(offsetof(StagedCopy, padded), 48U);
  EXPECT_EQ(offsetof(StagedCopy, strides), 80U);
  EXPECT_EQ(offsetof(StagedCopy, fill), 112U);
  EXPECT_EQ(offsetof(StagedCopy, tiles), 120U);
  EXPECT_EQ(offsetof(StagedCopy, element_bytes), 128U);
  EXPECT_EQ(offsetof(StagedCopy, padding), 132U);
}

TEST(StagingParamsTest, HeaderHasNoPadding) {
  EXPECT_EQ(sizeof(StagingHeader), 224U);
  EXPECT_EQ(offsetof(StagingHeader, words), 16U);
}

TEST(StagingParamsTest, SmallParametersAreAPrefixOfTheLargeOnes) {
  using Small = StagingParamsOf<kSmallStagingCopies>;
  EXPECT_EQ(sizeof(Small), 224U + 4 * 136U);
  EXPECT_EQ(sizeof(StagingParams), 224U + 24 * 136U);
  EXPECT_EQ(offsetof(Small, copies), offsetof(StagingParams, copies));
}

TEST(StagingParamsTest, ADefaultCopyIsOneElementOfPadding) {
  const StagedCopy copy;
  EXPECT_EQ(copy.source, 0U);
  EXPECT_EQ(copy.padding, StagedCopy::kFill);
  for (int axis = 0; axis < kStagingRank; ++axis) {
    EXPECT_EQ(copy.sizes[axis], 1);
    EXPECT_EQ(copy.padded[axis], 1);
    EXPECT_EQ(copy.strides[axis], 0);
  }
}

TEST(StagingParamsTest, DefaultParametersStageNothing) {
  const StagingParams params{};
  EXPECT_EQ(params.header.copy_count, 0);
  EXPECT_EQ(params.header.word_count, 0);
}

TEST(StagingParamsTest, TilesCoverTheElements) {
  EXPECT_EQ(TilesFor(0), 0);
  EXPECT_EQ(TilesFor(1), 1);
  EXPECT_EQ(TilesFor(kStagingElementsPerBlock), 1);
  EXPECT_EQ(TilesFor(kStagingElementsPerBlock + 1), 2);
}

}  // namespace
}  // namespace coppice
