// Goal: the books are exact, nothing is admitted beyond the limit, and a refusal changes nothing.
// Method: sequences of bookings, compared with the whole snapshot; threads that race for the rest.

#include "coppice/allocator/budget.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(BudgetTest, StartsWithEmptyBooks) {
  const Budget budget({.accounts = 3, .limit = 7});
  EXPECT_EQ(budget.usage(), (BudgetUsage{.bytes = {0, 0, 0}, .peaks = {0, 0, 0}, .limit = 7}));
  EXPECT_EQ(budget.accounts(), 3);
  EXPECT_EQ(budget.limit(), 7);
}

TEST(BudgetTest, BooksWhatItIsChargedUntilThatIsDischarged) {
  Budget budget({.accounts = 2});
  EXPECT_TRUE(budget.Charge(0, 100).admitted());
  EXPECT_TRUE(budget.Charge(1, 50).admitted());
  budget.Discharge(0, 70);
  EXPECT_EQ(budget.usage(), (BudgetUsage{
                                .bytes = {30, 50},
                                .peaks = {100, 50},
                                .total = 80,
                                .total_peak = 150,
                            }));
  EXPECT_EQ(budget.bytes(0), 30);
  EXPECT_EQ(budget.total(), 80);
}

TEST(BudgetTest, RefusesWhatWouldPassTheLimitAndSaysHowMuchIsLacking) {
  Budget budget({.accounts = 2, .limit = 100});
  EXPECT_TRUE(budget.Charge(0, 60).admitted());
  const BudgetUsage before = budget.usage();
  EXPECT_EQ(budget.Charge(1, 45).missing, 5);
  EXPECT_EQ(budget.Hold(41).missing, 1);
  EXPECT_EQ(budget.usage(), before);
  EXPECT_TRUE(budget.Charge(1, 40).admitted());
  EXPECT_EQ(budget.total(), budget.limit());
  EXPECT_TRUE(budget.Charge(1, 0).admitted());
  EXPECT_EQ(budget.Charge(1, INT64_MAX).missing, INT64_MAX);
}

TEST(BudgetTest, WhatAnInt64CannotCountIsLackingWithoutALimit) {
  Budget budget({.accounts = 2});
  EXPECT_TRUE(budget.Charge(0, INT64_MAX - 5).admitted());
  EXPECT_EQ(budget.Charge(1, 7).missing, 2);
  EXPECT_EQ(budget.Charge(1, INT64_MAX).missing, INT64_MAX - 5);
  EXPECT_TRUE(budget.Hold(5).admitted());
  EXPECT_EQ(budget.Charge(1, 1).missing, 1);
  EXPECT_EQ(budget.total(), INT64_MAX - 5);
}

TEST(BudgetTest, HeldBytesAreInNoBooksAndNobodyElsesUntilSettled) {
  Budget budget({.accounts = 2, .limit = 100});
  EXPECT_TRUE(budget.Hold(80).admitted());
  EXPECT_EQ(budget.usage(), (BudgetUsage{.bytes = {0, 0}, .peaks = {0, 0}, .limit = 100}));
  EXPECT_EQ(budget.Charge(0, 30).missing, 10);
  EXPECT_EQ(budget.Hold(21).missing, 1);
  budget.Settle(50, std::array{Budget::Change{0, 50}});
  EXPECT_EQ(budget.bytes(0), 50);
  EXPECT_EQ(budget.Charge(1, 21).missing, 1);
  budget.Settle(30, {});
  EXPECT_TRUE(budget.Charge(1, 50).admitted());
  EXPECT_EQ(budget.usage().total_peak, 100);
}

TEST(BudgetTest, MovedBytesAreNeverCountedTwice) {
  Budget budget({.accounts = 2, .limit = 100});
  EXPECT_TRUE(budget.Charge(0, 100).admitted());
  budget.Settle(0, std::array{Budget::Change{0, -60}, Budget::Change{1, 60}});
  EXPECT_EQ(budget.usage(), (BudgetUsage{
                                .bytes = {40, 60},
                                .peaks = {100, 60},
                                .total = 100,
                                .total_peak = 100,
                                .limit = 100,
                            }));
}

TEST(BudgetTest, TellsOfEveryChangeInTheBooksInTheirOrder) {
  std::vector<std::array<int64_t, 3>> heard;
  Budget budget({
      .accounts = 2,
      .on_change =
          [&](int account, int64_t bytes, int64_t total) {
            heard.push_back({account, bytes, total});
          },
  });
  EXPECT_TRUE(budget.Charge(0, 10).admitted());
  EXPECT_TRUE(budget.Charge(1, 0).admitted());
  EXPECT_TRUE(budget.Hold(5).admitted());
  budget.Settle(5, std::array{Budget::Change{0, -4}, Budget::Change{1, 9}});
  budget.Discharge(1, 2);
  EXPECT_EQ(heard,
            (std::vector<std::array<int64_t, 3>>{{0, 10, 10}, {0, 6, 6}, {1, 9, 15}, {1, 7, 13}}));
}

TEST(BudgetTest, ManyThreadsNeverPassTheLimitNorLoseAByte) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 1000;
  constexpr int64_t kLimit = 5;
  std::vector<int64_t> heard(kThreads);
  Budget budget({
      .accounts = kThreads,
      .limit = kLimit,
      .on_change =
          [&](int account, int64_t bytes, int64_t total) {
            heard[static_cast<size_t>(account)] = bytes;
            EXPECT_EQ(std::accumulate(heard.begin(), heard.end(), int64_t{0}), total);
            EXPECT_LE(total, kLimit);
          },
  });
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int account = 0; account < kThreads; ++account) {
    threads.emplace_back([account, &budget] {
      for (int i = 0; i < kRounds; ++i) {
        if (budget.Charge(account, 2).admitted()) budget.Discharge(account, 1);
        if (budget.Hold(2).admitted()) budget.Settle(2, std::array{Budget::Change{account, 1}});
        budget.Discharge(account, budget.bytes(account));
      }
    });
  }
  for (int i = 0; i < kRounds; ++i)
    EXPECT_LE(budget.usage().total, kLimit);
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(budget.total(), 0);
  EXPECT_TRUE(budget.Charge(0, kLimit).admitted());
}

TEST(BudgetDeathTest, ChecksAccountsAndBytes) {
  EXPECT_DEATH(Budget({.accounts = 0}), "needs at least 1 account");
  EXPECT_DEATH(Budget({.limit = -1}), "its limit must not be negative");
  Budget budget({.accounts = 2});
  EXPECT_TRUE(budget.Charge(0, 5).admitted());
  EXPECT_TRUE(budget.Hold(3).admitted());
  EXPECT_DEATH((void)budget.Charge(2, 0), "no such account");
  EXPECT_DEATH((void)budget.Charge(-1, 0), "no such account");
  EXPECT_DEATH((void)budget.bytes(2), "no such account");
  EXPECT_DEATH((void)budget.Charge(0, -1), "use Discharge");
  EXPECT_DEATH((void)budget.Hold(-1), "use Discharge");
  EXPECT_DEATH(budget.Discharge(0, 6), "more bytes are discharged than were charged");
  EXPECT_DEATH(budget.Discharge(1, 1), "more bytes are discharged than were charged");
  EXPECT_DEATH(budget.Discharge(0, -1), "use Charge");
  EXPECT_DEATH(budget.Settle(4, {}), "more bytes are settled than are held");
  EXPECT_DEATH(budget.Settle(3, std::array{Budget::Change{0, 4}}),
               "more bytes are booked than were held");
  EXPECT_DEATH(budget.Settle(3, std::array{Budget::Change{1, 4}, Budget::Change{0, -4}}),
               "more bytes are booked than were held");
  EXPECT_DEATH(budget.Settle(3, std::array{Budget::Change{0, -6}}),
               "more bytes are discharged than were charged");
}

}  // namespace
}  // namespace coppice
