// Goal: the layout that host, g++ and nvcc must agree on. Method: sizes, offsets and defaults
// written out as numbers, which the compilers cannot move together.

#include "coppice/graphs/staging_params.h"

#include <type_traits>

#include "tests/support/test.h"

namespace coppice {
namespace {

using Small = StagingParamsOf<kSmallStagingBytes>;
using Medium = StagingParamsOf<kMediumStagingBytes>;
using Wide = StagingParamsOf<kWideStagingBytes>;

TEST(StagingParamsTest, StructsAreCopiedByteForByte) {
  EXPECT_TRUE(std::is_trivially_copyable_v<Wide>);
  EXPECT_TRUE(std::is_standard_layout_v<Wide>);
  EXPECT_TRUE(std::is_trivially_copyable_v<StagedCopy>);
}

TEST(StagingParamsTest, CopyHasNoPadding) {
  EXPECT_EQ(sizeof(StagedCopy), 40U);
  EXPECT_EQ(offsetof(StagedCopy, target), 8U);
  EXPECT_EQ(offsetof(StagedCopy, fill), 16U);
  EXPECT_EQ(offsetof(StagedCopy, end_tile), 24U);
  EXPECT_EQ(offsetof(StagedCopy, rank), 32U);
  EXPECT_EQ(offsetof(StagedCopy, element_bytes), 33U);
  EXPECT_EQ(offsetof(StagedCopy, noise_set), 34U);
  EXPECT_EQ(offsetof(StagedCopy, noise_clear), 35U);
  EXPECT_EQ(offsetof(StagedCopy, padding), 36U);
  EXPECT_EQ(offsetof(StagedCopy, rows), 37U);
  EXPECT_EQ(offsetof(StagedCopy, rows_axis), 38U);
  EXPECT_EQ(offsetof(StagedCopy, ragged), 39U);
}

TEST(StagingParamsTest, AxisHasNoPadding) {
  EXPECT_EQ(sizeof(StagedAxis), 32U);
  EXPECT_EQ(offsetof(StagedAxis, stride), 8U);
  EXPECT_EQ(offsetof(StagedAxis, padded), 16U);
  EXPECT_EQ(offsetof(StagedAxis, target_stride), 24U);
}

TEST(StagingParamsTest, CopyTakesWhatItsRankNeeds) {
  for (int rank = 1; rank <= kStagingRankMax; ++rank)
    EXPECT_EQ(StagedCopyBytes(rank), 40 + 32 * rank);
}

TEST(StagingParamsTest, HeaderHasNoPadding) {
  EXPECT_EQ(sizeof(StagingHeader), 400U);
  EXPECT_EQ(offsetof(StagingHeader, copy_count), 10U);
  EXPECT_EQ(offsetof(StagingHeader, copy_bytes), 12U);
  EXPECT_EQ(offsetof(StagingHeader, counts), 16U);
  EXPECT_EQ(offsetof(StagingHeader, ragged), 80U);
  EXPECT_EQ(offsetof(StagingHeader, words), 192U);
}

TEST(StagingParamsTest, SequencesHaveNoPadding) {
  EXPECT_EQ(sizeof(StagedRagged), 56U);
  EXPECT_EQ(offsetof(StagedRagged, offsets), 8U);
  EXPECT_EQ(offsetof(StagedRagged, stride), 16U);
  EXPECT_EQ(offsetof(StagedRagged, count), 24U);
  EXPECT_EQ(offsetof(StagedRagged, slots), 32U);
  EXPECT_EQ(offsetof(StagedRagged, rows), 40U);
  EXPECT_EQ(offsetof(StagedRagged, total_word), 48U);
  EXPECT_EQ(offsetof(StagedRagged, narrow), 50U);
  EXPECT_EQ(offsetof(StagedRagged, by_offsets), 51U);
}

TEST(StagingParamsTest, PackingHasNoPadding) {
  EXPECT_EQ(sizeof(PackParams), 72U);
  EXPECT_EQ(offsetof(PackParams, limit), 24U);
  EXPECT_EQ(offsetof(PackParams, sequences), 32U);
  EXPECT_EQ(offsetof(PackParams, row_units), 56U);
  EXPECT_EQ(offsetof(PackParams, unit_bytes), 64U);
  EXPECT_EQ(offsetof(PackParams, offset_bytes), 68U);
}

TEST(StagingParamsTest, SmallerParametersAreAPrefixOfLargerOnes) {
  EXPECT_EQ(sizeof(Small), 1008U);
  EXPECT_EQ(sizeof(Medium), 4096U);
  EXPECT_EQ(sizeof(Wide), 32'760U) << "a multiple of a word, of at most 32,764";
  EXPECT_EQ(offsetof(Small, copies), 400U);
  EXPECT_EQ(offsetof(Medium, copies), 400U);
  EXPECT_EQ(offsetof(Wide, copies), 400U);
}

TEST(StagingParamsTest, DefaultHeaderStagesNothing) {
  const StagingHeader header;
  EXPECT_EQ(header.copy_count, 0);
  EXPECT_EQ(header.word_count, 0);
  EXPECT_EQ(header.ragged_count, 0);
}

TEST(StagingParamsTest, TilesCoverTheElements) {
  for (const int64_t bytes : {1, 2, 4, 8}) {
    const int64_t most = TileElements(bytes);
    EXPECT_EQ(most * bytes, kStagingTileBytes);
    EXPECT_EQ(TilesFor(0, bytes), 0);
    EXPECT_EQ(TilesFor(1, bytes), 1);
    EXPECT_EQ(TilesFor(most, bytes), 1);
    EXPECT_EQ(TilesFor(most + 1, bytes), 2);
  }
}

}  // namespace
}  // namespace coppice
