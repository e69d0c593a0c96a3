// Goal: copies of a flight recorder take at most the limit per call in the mean, no size of call is
// left out forever, and what copies cost is what the device's clock says. Method: drawn traffic
// against a sum kept apart; the ledger's model of a driver.

#include "graphs/flight/copy_budget.h"

#include <random>

#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tools/ledger/latency_model.h"

namespace coppice::internal {
namespace {

TEST(CopyBudgetTest, WithoutALimitEachCallIsKept) {
  CopyBudget budget;
  EXPECT_FALSE(budget.has_limit());
  budget.Pay(3, int64_t{1} << 40);
  EXPECT_TRUE(budget.Earn());
  EXPECT_EQ(budget.skipped(), 0);
}

TEST(CopyBudgetTest, TheMeanOfDrawnCallsHolds) {
  std::mt19937_64 draw(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const CopyCost cost{.ns_per_copy = std::uniform_real_distribution(0.0, 3000.0)(draw),
                        .ns_per_byte = std::uniform_real_distribution(0.0, 0.1)(draw)};
    const double limit = std::uniform_real_distribution(1.0, 20'000.0)(draw);
    CopyBudget budget(limit, cost);
    double paid = 0;
    double dearest = 0;
    int64_t skipped = 0;
    for (int64_t call = 1; call <= 2000; ++call) {
      const int64_t copies = std::uniform_int_distribution<int64_t>(1, 3)(draw);
      const int64_t bytes = std::uniform_int_distribution<int64_t>(1, 1 << 18)(draw);
      dearest = std::max(dearest, cost.Of(copies, bytes));
      if (!budget.Earn()) {
        ++skipped;
        continue;
      }
      // One in ten finds no room in the ring: it makes no copies, and pays for none.
      if (std::uniform_int_distribution(0, 9)(draw) == 0) continue;
      budget.Pay(copies, bytes);
      paid += cost.Of(copies, bytes);
      ASSERT_LE(paid, limit * static_cast<double>(call) + dearest * (1 + 1e-9)) << round;
    }
    EXPECT_EQ(budget.skipped(), skipped);
  }
}

// As many as the limit has room for, and no fewer.
TEST(CopyBudgetTest, EqualCallsTakeTheirShare) {
  constexpr int kCalls = 10'000;
  for (const double times : {0.3, 1.0, 1.7, 2.5, 3.0, 40.25}) {
    CopyBudget budget(100, {.ns_per_copy = 100 * times});
    int kept = 0;
    for (int call = 0; call < kCalls; ++call) {
      if (!budget.Earn()) continue;
      budget.Pay(1, 0);
      ++kept;
    }
    EXPECT_NEAR(kept, kCalls / std::max(times, 1.0), 2) << times;
  }
}

TEST(CopyBudgetTest, ACallThatCostsThreeLimitsIsKeptEveryThirdTime) {
  CopyBudget budget(100, {.ns_per_copy = 300});
  std::string kept;
  for (int call = 0; call < 9; ++call) {
    if (budget.Earn()) {
      budget.Pay(1, 0);
      kept += 'k';
    } else {
      kept += '-';
    }
  }
  EXPECT_EQ(kept, "k--k--k--");
  EXPECT_EQ(budget.skipped(), 6);
}

TEST(CopyBudgetTest, CopiesCostWhatTheDevicesClockSays) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const LatencyModel model,
                               LatencyModel::Parse("entry\tcall_us\tnode_us\tmib_us\tsource\n"
                                                   "default\t0\t0\t0\ta test\n"
                                                   "cuMemcpyDtoHAsync\t0.75\t0\t262.144\ta test\n",
                                                   "copies"));
  const TestDevice device(DriverLedger::Options{.latency = &model});
  COPPICE_ASSERT_OK_AND_ASSIGN(const CopyCost cost, MeasureCopies(device.driver()));
  EXPECT_NEAR(cost.ns_per_copy, 752, 1);  // 8 bytes of it.
  EXPECT_NEAR(cost.ns_per_byte, 0.25, 1e-3);
  EXPECT_NEAR(cost.Of(2, 1000), 2 * 752 + 250, 4);
}

TEST(CopyBudgetTest, AMeasurementThatFailsLeavesNothing) {
  TestDevice device{DriverLedger::Options{}};
  int64_t refused = 0;
  for (int64_t faulted = 0, nth = 1; faulted + 1 == nth; ++nth) {
    device.ledger().Inject({.nth = nth, .result = CuResult::kOutOfMemory});
    refused += MeasureCopies(device.driver()).ok() ? 0 : 1;
    device.ledger().ClearFaults();
    faulted = device.ledger().faulted();
  }
  EXPECT_GT(refused, 100);
  // TestDevice's end looks for what was left.
}

}  // namespace
}  // namespace coppice::internal
