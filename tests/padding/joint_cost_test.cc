// Goal: every sentence of joint_cost.h. Method: tables by hand; drawn ones, asked at pairs of sizes
// of which one holds the other.

#include "coppice/padding/joint_cost.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

TEST(JointCostTest, RowsAreCornersAndBetweenThemLinesAreStraight) {
  const std::vector<JointCostRow> rows = {
      {{8, 1000}, 40}, {{2, 100}, 4}, {{8, 100}, 10}, {{2, 1000}, 20}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const JointCost cost, JointCostTable(rows));
  for (const JointCostRow& row : rows)
    EXPECT_DOUBLE_EQ(cost(row.size), row.cost);
  EXPECT_DOUBLE_EQ(cost({5, 100}), 7);
  EXPECT_DOUBLE_EQ(cost({2, 550}), 12);
  EXPECT_DOUBLE_EQ(cost({5, 550}), (7 + 30) / 2.0);
  // Below the first of an extent what is there, above the last as much per element of it.
  EXPECT_DOUBLE_EQ(cost({1, 1}), 4);
  EXPECT_DOUBLE_EQ(cost({0, 550}), 12);
  EXPECT_DOUBLE_EQ(cost({16, 100}), 20);
  EXPECT_DOUBLE_EQ(cost({16, 4000}), 40 * 2 * 4);
}

TEST(JointCostTest, RowsOfOneSizeCountAsTheirMean) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const JointCost cost,
                               JointCostTable(std::vector<JointCostRow>{{{1, 1}, 2}, {{1, 1}, 6}}));
  EXPECT_DOUBLE_EQ(cost({1, 1}), 4);
}

TEST(JointCostTest, NoiseThatFallsIsSmoothed) {
  // Above: 4 6 6, below: 4 5 5.
  COPPICE_ASSERT_OK_AND_ASSIGN(const JointCost cost, JointCostTable(std::vector<JointCostRow>{
                                                         {{1, 1}, 4}, {{1, 2}, 6}, {{1, 3}, 5}}));
  EXPECT_DOUBLE_EQ(cost({1, 1}), 4);
  EXPECT_DOUBLE_EQ(cost({1, 2}), 5.5);
  EXPECT_DOUBLE_EQ(cost({1, 3}), 5.5);
}

TEST(JointCostTest, NoLargerSizeIsCheaper) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 50; ++i) {
    std::vector<JointCostRow> rows;
    for (const int64_t a : {1, 3, 8})
      for (const int64_t b : {2, 5, 9, 20})
        rows.push_back({{a, b}, static_cast<double>(1 + random() % 100)});
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointCost cost, JointCostTable(rows));
    for (int64_t a = 0; a <= 12; ++a) {
      for (int64_t b = 0; b <= 25; ++b) {
        EXPECT_LE(cost({a, b}), cost({a + 1, b}) * (1 + 1e-12));
        EXPECT_LE(cost({a, b}), cost({a, b + 1}) * (1 + 1e-12));
      }
    }
  }
}

TEST(JointCostTest, RefusesTablesThatAreNone) {
  const auto refused = [](const std::vector<JointCostRow>& rows) {
    EXPECT_THAT(JointCostTable(rows), StatusIs(kWrongArgument));
  };
  refused({});
  refused({{{-1, 1}, 1}});
  refused({{{1, -1}, 1}});
  for (const double cost : {-1.0, std::nan(""), HUGE_VAL})
    refused({{{1, 1}, cost}});
  refused({{{1, 1}, 0}});
  refused({{{1, 1}, 1}, {{2, 2}, 1}});
  refused({{{1, 1}, 1}, {{1, 2}, 1}, {{2, 1}, 1}, {{2, 1}, 1}});
}

}  // namespace
}  // namespace coppice
