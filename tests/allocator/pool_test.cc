// Goal: windows are mapped as far as they are grown, and the budget has heard of every byte.
// Method: an emulator under a ledger that counts calls and bytes.

#include "coppice/allocator/pool.h"

#include "tests/allocator/small_device.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

// Accounts: two for windows, and what the pool does not map.
constexpr int kLow = 0;
constexpr int kHigh = 1;
constexpr int kSpare = 2;
constexpr int kOther = 3;
constexpr int kAccounts = 4;

Pool::Options MakeOptions(std::vector<int> accounts, int64_t window_bytes) {
  return {.accounts = std::move(accounts), .spare_account = kSpare, .window_bytes = window_bytes};
}

class PoolTest : public testing::Test {
 protected:
  std::unique_ptr<Pool> MakePool(Budget& budget, const Pool::Options& options) {
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(device_.driver(), 0, budget, options);
    EXPECT_OK(pool);
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  // Windows 0 and 2 are charged to kLow, 1 and 3 to kHigh.
  std::unique_ptr<Pool> MakePool(Budget& budget) {
    return MakePool(budget, MakeOptions({kLow, kHigh, kLow, kHigh}, 64 * kMiB));
  }

  static void Grow(Pool& pool, int window, int64_t bytes) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Admission grown, pool.Grow(window, bytes));
    EXPECT_TRUE(grown.admitted());
  }

  TestDevice device_{WithMemory(32 * kMiB), DriverLedger::Options()};
  Budget budget_{{.accounts = kAccounts}};
};

TEST_F(PoolTest, StartsWithoutPhysicalMemory) {
  const std::unique_ptr<Pool> pool = MakePool(budget_);
  EXPECT_EQ(budget_.total(), 0);
  EXPECT_EQ(device_.ledger().created_bytes(), 0);
  EXPECT_EQ(pool->windows(), 4);
  EXPECT_EQ(pool->window_bytes(), 64 * kMiB);
  EXPECT_EQ(pool->granularity(), kGranule);
  EXPECT_EQ(&pool->budget(), &budget_);
}

TEST_F(PoolTest, WindowsTakeTheDevicesMemoryByDefault) {
  const std::unique_ptr<Pool> pool = MakePool(budget_, MakeOptions({kLow}, 0));
  EXPECT_EQ(pool->window_bytes(), 32 * kMiB);
}

TEST_F(PoolTest, RejectsOptionsOutOfRange) {
  Pool::Options no_spare_account = MakeOptions({kLow}, kMiB);
  no_spare_account.spare_account = kAccounts;
  for (const Pool::Options& options :
       {MakeOptions({}, kMiB), MakeOptions({-1}, kMiB), MakeOptions({kLow, kAccounts}, kMiB),
        no_spare_account, MakeOptions({kLow}, -1)}) {
    EXPECT_THAT(Pool::Create(device_.driver(), 0, budget_, options), StatusIs(kWrongArgument));
  }
}

TEST_F(PoolTest, WindowsLieOneAfterTheOtherAndAreFoundByAddress) {
  const std::unique_ptr<Pool> pool = MakePool(budget_);
  const DeviceAddress start = pool->base(0);
  for (int window = 0; window < pool->windows(); ++window) {
    const DeviceAddress base = start + static_cast<DeviceAddress>(window) * 64 * kMiB;
    EXPECT_EQ(pool->base(window), base);
    EXPECT_EQ(pool->FindWindow(base), window);
    EXPECT_EQ(pool->FindWindow(base + 64 * kMiB - 1), window);
  }
  EXPECT_EQ(pool->FindWindow(start - 1), std::nullopt);
  EXPECT_EQ(pool->FindWindow(start + DeviceAddress{4} * 64 * kMiB), std::nullopt);
}

TEST_F(PoolTest, ARangeMeetsWhatSharesAByteWithItsWindows) {
  const std::unique_ptr<Pool> pool = MakePool(budget_);
  const AddressSpan range = pool->Range(1, 2);
  const DeviceAddress end = pool->base(3);
  EXPECT_EQ(range.start, pool->base(1));
  EXPECT_EQ(range.size, DeviceAddress{2} * 64 * kMiB);
  EXPECT_TRUE(range.Meets(range.start, 1));
  EXPECT_TRUE(range.Meets(end - 1, 1));
  EXPECT_TRUE(range.Meets(pool->base(2), 256));
  EXPECT_TRUE(range.Meets(range.start - 1, 2));
  EXPECT_TRUE(range.Meets(range.start - 1, INT64_MAX));
  EXPECT_FALSE(range.Meets(range.start - 1, 1));
  EXPECT_FALSE(range.Meets(end, 1));
  EXPECT_FALSE(range.Meets(range.start, 0));
}

TEST_F(PoolTest, ChargesWhatIsMappedToTheAccountOfTheWindow) {
  const std::unique_ptr<Pool> pool = MakePool(budget_);
  Grow(*pool, 0, 2 * kGranule);
  Grow(*pool, 1, kGranule);
  Grow(*pool, 2, 3 * kGranule);
  EXPECT_EQ(budget_.bytes(kLow), 5 * kGranule);
  EXPECT_EQ(budget_.bytes(kHigh), kGranule);
  EXPECT_EQ(budget_.total(), device_.ledger().created_bytes());
}

TEST_F(PoolTest, AFailedGrowChangesNothing) {
  const std::unique_ptr<Pool> pool = MakePool(budget_, MakeOptions({kLow}, kGiB));
  Grow(*pool, 0, kGranule);
  const BudgetUsage before = budget_.usage();
  EXPECT_THAT(pool->Grow(0, 2 * kGiB), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(pool->Grow(0, 64 * kMiB), StatusIs(kExhausted));
  EXPECT_EQ(budget_.usage(), before);
  EXPECT_EQ(pool->mapped_bytes(0), kGranule);
  EXPECT_EQ(device_.ledger().created_bytes(), kGranule);
}

TEST_F(PoolTest, TrimmedMemoryIsSpareAndServesAnotherWindow) {
  const std::unique_ptr<Pool> pool = MakePool(budget_);
  Grow(*pool, 0, kGranule);
  Grow(*pool, 0, 3 * kGranule);
  EXPECT_EQ(pool->TrimmableBytes(0, kGranule), 2 * kGranule);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t taken, pool->Trim(0, kGranule));
  EXPECT_EQ(taken, 2 * kGranule);
  EXPECT_EQ(pool->TrimmableBytes(0, kGranule), 0);
  EXPECT_EQ(pool->mapped_bytes(0), kGranule);
  EXPECT_EQ(budget_.bytes(kSpare), 2 * kGranule);
  EXPECT_EQ(budget_.total(), 3 * kGranule);
  Grow(*pool, 1, 2 * kGranule);
  EXPECT_EQ(budget_.bytes(kSpare), 0);
  EXPECT_EQ(budget_.bytes(kHigh), 2 * kGranule);
  EXPECT_EQ(budget_.total(), device_.ledger().created_bytes());
  EXPECT_EQ(budget_.usage().total_peak, 3 * kGranule);
  EXPECT_EQ(budget_.usage().peaks[kLow], 3 * kGranule);
}

TEST_F(PoolTest, RefusesWhatWouldPassTheBudgetAndSaysHowMuchIsLacking) {
  Budget budget({.accounts = kAccounts, .limit = 3 * kGranule});
  const std::unique_ptr<Pool> pool = MakePool(budget);
  Grow(*pool, 0, kGranule);
  ASSERT_TRUE(budget.Charge(kOther, kGranule - 1).admitted());
  const BudgetUsage before = budget.usage();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Admission grown, pool->Grow(0, 3 * kGranule));
  EXPECT_EQ(grown.missing, kGranule - 1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Admission other, pool->Grow(1, kGranule + 1));
  EXPECT_EQ(other.missing, kGranule - 1);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Admission charged, pool->Charge(kOther, kGranule + 5));
  EXPECT_EQ(charged.missing, 4);
  EXPECT_EQ(budget.usage(), before);
  EXPECT_EQ(pool->mapped_bytes(0), kGranule);
  EXPECT_EQ(pool->mapped_bytes(1), 0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Admission fits, pool->Charge(kOther, kGranule + 1));
  EXPECT_TRUE(fits.admitted());
  EXPECT_EQ(budget.total(), budget.limit());
  EXPECT_THAT(pool->Grow(0, 2 * kGiB), StatusIs(absl::StatusCode::kOutOfRange))
      << "beyond the window no budget helps";
}

TEST_F(PoolTest, SpareMemoryDoesNotCountAgainstWhatMayHaveIt) {
  Budget budget({.accounts = kAccounts, .limit = 3 * kGranule});
  const std::unique_ptr<Pool> pool = MakePool(budget);
  Grow(*pool, 0, 3 * kGranule);
  ASSERT_OK(pool->Trim(0, 0));
  EXPECT_EQ(budget.bytes(kSpare), 3 * kGranule);
  // The spare handle is too large for this, so that it has to go.
  Grow(*pool, 1, kGranule);
  EXPECT_EQ(budget.total(), kGranule);
  Grow(*pool, 0, 2 * kGranule);
  EXPECT_EQ(budget.total(), 3 * kGranule);
  EXPECT_EQ(budget.usage().total_peak, 3 * kGranule);
  ASSERT_OK(pool->Trim(0, 0));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Admission charged, pool->Charge(kOther, 2 * kGranule));
  EXPECT_TRUE(charged.admitted());
}

TEST_F(PoolTest, ARefusalReleasesSparesAndChangesNothingElse) {
  Budget budget({.accounts = kAccounts, .limit = 3 * kGranule});
  const std::unique_ptr<Pool> pool = MakePool(budget);
  Grow(*pool, 0, kGranule);
  Grow(*pool, 1, kGranule);
  ASSERT_OK(pool->Trim(1, 0));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Admission grown, pool->Grow(0, 4 * kGranule));
  EXPECT_EQ(grown.missing, kGranule);
  EXPECT_EQ(pool->mapped_bytes(0), kGranule);
  EXPECT_EQ(budget.total(), kGranule);
  EXPECT_EQ(device_.ledger().created_bytes(), kGranule);
}

TEST_F(PoolTest, SuspendReleasesEverythingAndResumeMapsItAtTheSameAddresses) {
  for (const std::vector<int>& kept : {std::vector<int>{}, std::vector<int>{3}}) {
    Budget budget({.accounts = kAccounts});
    const std::unique_ptr<Pool> pool = MakePool(budget);
    Grow(*pool, 2, 2 * kGranule);
    Grow(*pool, 0, kGranule);
    Grow(*pool, 3, 4);
    Grow(*pool, 1, kGranule);
    ASSERT_OK(pool->Trim(1, 0));
    ASSERT_OK(device_.Write(pool->base(3), std::vector<int32_t>{7}));
    ASSERT_OK(pool->Suspend(kept));
    EXPECT_TRUE(pool->suspended());
    EXPECT_EQ(device_.ledger().created_bytes(), kept.empty() ? 0 : kGranule);
    EXPECT_EQ(budget.total(), kept.empty() ? 0 : kGranule);
    ASSERT_OK(pool->Resume());
    EXPECT_FALSE(pool->suspended());
    EXPECT_EQ(pool->mapped_bytes(2), 2 * kGranule);
    EXPECT_EQ(pool->mapped_bytes(0), kGranule);
    EXPECT_EQ(budget.bytes(kLow), 3 * kGranule);
    EXPECT_EQ(budget.total(), 4 * kGranule);
    ASSERT_OK(device_.Write(pool->base(0), std::vector<int32_t>{1}));
    if (!kept.empty()) {
      EXPECT_EQ(device_.Download<int32_t>(pool->base(3), 1), std::vector<int32_t>{7});
    }
  }
}

TEST_F(PoolTest, AResumeThatDoesNotFitLeavesThePoolSuspended) {
  Budget budget({.accounts = kAccounts, .limit = 4 * kGranule});
  const std::unique_ptr<Pool> pool = MakePool(budget);
  Grow(*pool, 0, kGranule);
  Grow(*pool, 1, 2 * kGranule);
  ASSERT_OK(pool->Suspend());
  ASSERT_TRUE(budget.Charge(kOther, 2 * kGranule).admitted());
  EXPECT_THAT(pool->Resume(), StatusIs(kExhausted));
  EXPECT_TRUE(pool->suspended());
  EXPECT_EQ(device_.ledger().created_bytes(), 0);
  EXPECT_EQ(budget.total(), 2 * kGranule);
  budget.Discharge(kOther, kGranule);
  EXPECT_OK(pool->Resume());
  EXPECT_EQ(budget.total(), 4 * kGranule);
}

TEST_F(PoolTest, ASuspendThatTheDriverRefusesMapsEverythingAgain) {
  for (int64_t nth = 1; nth <= 4; ++nth) {
    Budget budget({.accounts = kAccounts});
    const std::unique_ptr<Pool> pool = MakePool(budget);
    Grow(*pool, 0, kGranule);
    Grow(*pool, 1, kGranule);
    const int entry = nth <= 2 ? DriverLedger::IndexOf(&DriverTable::MemUnmap)
                               : DriverLedger::IndexOf(&DriverTable::MemRelease);
    device_.ledger().Inject(
        {.entry = entry, .nth = (nth - 1) % 2 + 1, .result = CuResult::kUnknown});
    EXPECT_FALSE(pool->Suspend().ok());
    device_.ledger().ClearFaults();
    EXPECT_FALSE(pool->suspended());
    EXPECT_EQ(pool->mapped_bytes(0), kGranule);
    EXPECT_EQ(pool->mapped_bytes(1), kGranule);
    EXPECT_EQ(budget.total(), 2 * kGranule);
    EXPECT_OK(device_.Write(pool->base(0), std::vector<int32_t>{1}));
  }
}

TEST_F(PoolTest, TellsOfEveryChangeInTheBooks) {
  std::array<int64_t, kAccounts> heard{};
  int64_t heard_total = 0;
  int64_t heard_peak = 0;
  Budget budget({
      .accounts = kAccounts,
      .on_change =
          [&](int account, int64_t bytes, int64_t total) {
            heard[static_cast<size_t>(account)] = bytes;
            heard_total = total;
            heard_peak = std::max(heard_peak, total);
            EXPECT_EQ(std::accumulate(heard.begin(), heard.end(), int64_t{0}), total);
          },
  });
  const std::unique_ptr<Pool> pool = MakePool(budget);
  Grow(*pool, 0, 3 * kGranule);
  Grow(*pool, 3, 1);
  ASSERT_OK(pool->Charge(kOther, 12));
  ASSERT_OK(pool->Trim(0, 0));
  Grow(*pool, 1, 3 * kGranule);
  ASSERT_OK(pool->Trim(1, 0));
  ASSERT_OK(pool->ReleaseSpares());
  EXPECT_EQ(heard_peak, 4 * kGranule + 12) << "moved bytes are seen once";
  EXPECT_EQ(std::vector<int64_t>(heard.begin(), heard.end()), budget.usage().bytes);
  EXPECT_EQ(heard_total, kGranule + 12);
}

TEST_F(PoolTest, TheBooksKeepWhatThePoolHadLast) {
  std::unique_ptr<Pool> pool = MakePool(budget_);
  Grow(*pool, 0, kGranule);
  const BudgetUsage before = budget_.usage();
  pool.reset();
  EXPECT_EQ(budget_.usage(), before);
  EXPECT_EQ(device_.ledger().created_bytes(), 0);
}

TEST_F(PoolTest, ManyThreadsTakeTurnsAtABudgetThatIsNeverPassed) {
  constexpr int64_t kRounds = 50;
  constexpr int64_t kLimit = 4 * kGranule;
  Budget budget({
      .accounts = kAccounts,
      .limit = kLimit,
      .on_change = [&](int, int64_t, int64_t total) { EXPECT_LE(total, kLimit); },
  });
  const std::unique_ptr<Pool> pool = MakePool(budget);
  std::vector<std::thread> users;
  users.reserve(2);
  for (int window = 0; window < 2; ++window) {
    users.emplace_back([this, window, &pool] {
      ASSERT_OK(device_.context().MakeCurrent());
      for (int64_t i = 0; i < kRounds; ++i) {
        COPPICE_ASSERT_OK_AND_ASSIGN(const Admission grown,
                                     pool->Grow(window, (1 + i % 4) * kGranule));
        EXPECT_GE(grown.missing, 0);
        COPPICE_ASSERT_OK_AND_ASSIGN(const Admission charged, pool->Charge(kOther, kGranule + 1));
        if (charged.admitted()) pool->budget().Discharge(kOther, kGranule + 1);
        ASSERT_OK(pool->Trim(window, i % 3 * kGranule));
      }
    });
  }
  for (int64_t i = 0; i < kRounds; ++i)
    EXPECT_LE(budget.usage().total, kLimit);
  for (std::thread& user : users)
    user.join();
  EXPECT_EQ(budget.total(), device_.ledger().created_bytes());
}

using PoolDeathTest = PoolTest;

TEST_F(PoolDeathTest, ChecksWindowsAccountsAndWhetherItIsSuspended) {
  const std::unique_ptr<Pool> pool = MakePool(budget_);
  EXPECT_DEATH(pool->Grow(4, 1).IgnoreError(), "no such window");
  EXPECT_DEATH(pool->Trim(-1, 0).IgnoreError(), "no such window");
  EXPECT_DEATH((void)pool->Range(2, 3), "no such windows");
  EXPECT_DEATH((void)pool->Range(0, 0), "no such windows");
  EXPECT_DEATH(pool->Charge(kLow, 1).IgnoreError(), "only the pool charges this account");
  EXPECT_DEATH(pool->Charge(kSpare, 1).IgnoreError(), "only the pool charges this account");
  EXPECT_DEATH(pool->Charge(kAccounts, 1).IgnoreError(), "no such account");
  EXPECT_DEATH(pool->Suspend(std::array{4}).IgnoreError(), "no such window");
  EXPECT_DEATH(pool->Resume().IgnoreError(), "not suspended");
  ASSERT_OK(pool->Suspend());
  EXPECT_DEATH(pool->Suspend().IgnoreError(), "already suspended");
  ASSERT_OK(pool->Resume());
}

}  // namespace
}  // namespace coppice
