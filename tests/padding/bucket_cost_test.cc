// Goal: every sentence of bucket_cost.h. Method: small tables, and random ones against the
// definition of the nearest non-decreasing one.

#include "coppice/padding/bucket_cost.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

absl::StatusOr<BucketCost> Table(const std::vector<CostRow>& rows) {
  return CostTable(rows);
}

TEST(BucketCostTest, IsAStraightLineBetweenRowsInAnyOrder) {
  const BucketCost cost = *Table({{8, 30}, {4, 10}});
  EXPECT_EQ(cost(4), 10);
  EXPECT_EQ(cost(5), 15);
  EXPECT_EQ(cost(8), 30);
}

TEST(BucketCostTest, IsFlatBelowAndProportionalAbove) {
  const BucketCost cost = *Table({{4, 10}, {8, 30}});
  EXPECT_EQ(cost(0), 10);
  EXPECT_EQ(cost(3), 10);
  EXPECT_EQ(cost(16), 60);
}

TEST(BucketCostTest, RowsOfOneSizeCountAsTheirMean) {
  const BucketCost cost = *Table({{4, 10}, {4, 20}});
  EXPECT_EQ(cost(4), 15);
}

TEST(BucketCostTest, NeighboursOfWhichTheLargerIsCheaperCountAsTheirMean) {
  const BucketCost cost = *Table({{1, 1}, {2, 6}, {3, 4}, {4, 9}});
  EXPECT_EQ(cost(1), 1);
  EXPECT_EQ(cost(2), 5);
  EXPECT_EQ(cost(3), 5);
  EXPECT_EQ(cost(4), 9);
  // Four rows at 3 weigh as much as they are.
  const BucketCost weighed = *Table({{2, 6}, {3, 1}, {3, 1}, {3, 1}, {3, 1}});
  EXPECT_EQ(weighed(2), 2);
}

TEST(BucketCostTest, NeverFalls) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    std::vector<CostRow> rows;
    for (uint64_t i = 0; i <= random() % 12; ++i)
      rows.push_back({static_cast<int64_t>(random() % 40), static_cast<double>(1 + random() % 9)});
    const BucketCost cost = *Table(rows);
    for (int64_t size = 1; size < 100; ++size)
      ASSERT_LE(cost(size - 1), cost(size)) << size;
  }
}

TEST(BucketCostTest, RejectsWhatIsNoTable) {
  for (const std::vector<CostRow>& rows : {std::vector<CostRow>{},
                                           {{-1, 1}},
                                           {{1, -1}},
                                           {{1, std::nan("")}},
                                           {{1, HUGE_VAL}},
                                           {{1, 0}, {2, 0}}})
    EXPECT_EQ(Table(rows).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coppice
