// Goal: nodes of a lane share one window, eager memory comes and goes, and the books are exact.
// Method: an emulator under a ledger that counts calls and bytes.

#include "coppice/allocator/pool.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

constexpr int64_t kGranule = 2 * kMiB;

Pool::Options MakeOptions(int lanes, int64_t window_bytes) {
  return {.lanes = lanes, .window_bytes = window_bytes};
}

Emulator::Options WithMemory(int64_t bytes) {
  Emulator::Options options = TestEmulatorOptions();
  options.memory_bytes = bytes;
  return options;
}

// The books with these bytes by kind, no more ever having been there.
MemoryUsage Booked(const std::vector<std::pair<MemoryKind, int64_t>>& kinds,
                   MemoryUsage usage = {}) {
  for (const auto& [kind, bytes] : kinds) {
    usage.bytes[static_cast<size_t>(kind)] = usage.peak[static_cast<size_t>(kind)] = bytes;
    usage.total += bytes;
  }
  usage.total_peak = usage.total;
  return usage;
}

class PoolTest : public testing::Test {
 protected:
  std::unique_ptr<Pool> MakePool(const Pool::Options& options) {
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(device_.driver(), 0, options);
    EXPECT_OK(pool);
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  TestDevice device_{WithMemory(32 * kMiB), DriverLedger::Options()};
};

TEST_F(PoolTest, StartsWithoutPhysicalMemory) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  EXPECT_EQ(pool->usage(), MemoryUsage());
  EXPECT_EQ(device_.ledger().created_bytes(), 0);
  EXPECT_EQ(pool->lanes(), 2);
  EXPECT_EQ(pool->window_bytes(), 64 * kMiB);
}

TEST_F(PoolTest, WindowsTakeTheDevicesMemoryByDefault) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 0));
  EXPECT_EQ(pool->window_bytes(), 32 * kMiB);
}

TEST_F(PoolTest, RejectsOptionsOutOfRange) {
  for (const Pool::Options& options : {MakeOptions(0, kMiB), MakeOptions(-1, kMiB),
                                       MakeOptions(INT32_MAX, kMiB), MakeOptions(1, -1)}) {
    EXPECT_THAT(Pool::Create(device_.driver(), 0, options),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(PoolTest, EveryLaneHasFiveWindowsOfItsOwn) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  DeviceAddress expected = pool->base(0, WindowKind::kNodes);
  for (int lane = 0; lane < 2; ++lane) {
    for (const WindowKind kind : {WindowKind::kNodes, WindowKind::kEager, WindowKind::kStaging,
                                  WindowKind::kCopyOut, WindowKind::kWorkspace}) {
      EXPECT_EQ(pool->base(lane, kind), expected);
      const std::optional<Pool::Place> place = pool->Locate(expected + 64 * kMiB - 1);
      ASSERT_TRUE(place.has_value());
      EXPECT_EQ(place->lane, lane);
      EXPECT_EQ(place->kind, kind);
      expected += 64 * kMiB;
    }
  }
}

TEST_F(PoolTest, ReserveMapsTheHeightRoundedUpToTheGranularity) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 64 * kMiB));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule + 256));
  EXPECT_EQ(pool->usage(),
            Booked({{MemoryKind::kNodes, 2 * kGranule}}, {.height = kGranule + 256}));
  EXPECT_EQ(device_.ledger().MappedBytes(pool->base(0, WindowKind::kNodes), 64 * kMiB),
            2 * kGranule);
}

TEST_F(PoolTest, ReserveMakesNoDriverCallWhereAllIsMapped) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 64 * kMiB));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, 1));
  const int64_t before = device_.ledger().calls();
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule));
  EXPECT_EQ(device_.ledger().calls(), before);
  EXPECT_EQ(pool->usage().height, kGranule);
}

TEST_F(PoolTest, HeightIsTheMaximumOverNodesInAnyOrder) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, 3 * kGranule));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, 2 * kGranule));
  EXPECT_EQ(pool->usage().height, 3 * kGranule);
  EXPECT_EQ(pool->usage().of(MemoryKind::kNodes), 3 * kGranule);
  ASSERT_OK(pool->Reserve(1, WindowKind::kNodes, 2 * kGranule));
  EXPECT_EQ(pool->usage().height, 3 * kGranule);
  EXPECT_EQ(pool->usage().of(MemoryKind::kNodes), 5 * kGranule);
}

TEST_F(PoolTest, OnlyNodeWindowsRaiseTheHeight) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 64 * kMiB));
  ASSERT_OK(pool->Reserve(0, WindowKind::kStaging, 3 * kGranule));
  ASSERT_OK(pool->Reserve(0, WindowKind::kEager, kGranule));
  EXPECT_EQ(pool->usage(),
            Booked({{MemoryKind::kEager, kGranule}, {MemoryKind::kStaging, 3 * kGranule}}));
}

TEST_F(PoolTest, AFailedReserveChangesNothing) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, kGiB));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule));
  const MemoryUsage before = pool->usage();
  EXPECT_THAT(pool->Reserve(0, WindowKind::kNodes, 2 * kGiB),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(pool->Reserve(0, WindowKind::kNodes, 64 * kMiB),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(pool->usage(), before);
  EXPECT_EQ(device_.ledger().created_bytes(), kGranule);
}

TEST_F(PoolTest, AllocatesInTheLanesEagerWindow) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress a, pool->AllocateEager(1, 1));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress b, pool->AllocateEager(1, 300));
  EXPECT_EQ(a, pool->base(1, WindowKind::kEager));
  EXPECT_EQ(b, a + kBufferAlignment);
  EXPECT_EQ(pool->usage(),
            Booked({{MemoryKind::kEager, kGranule}},
                   {.eager_live = 3 * kBufferAlignment, .eager_peak = 3 * kBufferAlignment}));
  const std::vector<int32_t> values = {1, 2, 3};
  ASSERT_OK(device_.Write(b, values));
  EXPECT_EQ(device_.Download<int32_t>(b, 3), values);
}

TEST_F(PoolTest, MapsMoreOfTheEagerWindowWhenNeeded) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 64 * kMiB));
  ASSERT_OK(pool->AllocateEager(0, kGranule));
  EXPECT_EQ(pool->usage().of(MemoryKind::kEager), kGranule);
  const int64_t before = device_.ledger().calls();
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress address, pool->AllocateEager(0, 1));
  EXPECT_EQ(pool->usage().of(MemoryKind::kEager), 2 * kGranule);
  pool->FreeEager(0, address);
  const int64_t mapped = device_.ledger().calls();
  EXPECT_GT(mapped, before);
  ASSERT_OK(pool->AllocateEager(0, 1));
  EXPECT_EQ(device_.ledger().calls(), mapped);
}

TEST_F(PoolTest, ReusesFreedEagerMemoryAndRemembersThePeak) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 64 * kMiB));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress a, pool->AllocateEager(0, kMiB));
  pool->FreeEager(0, a);
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress b, pool->AllocateEager(0, 256));
  EXPECT_EQ(a, b);
  EXPECT_EQ(pool->usage().eager_live, 256);
  EXPECT_EQ(pool->usage().eager_peak, kMiB);
}

TEST_F(PoolTest, SumsLiveBytesAndTakesTheHighestPeakOverLanes) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  ASSERT_OK(pool->AllocateEager(0, 512));
  ASSERT_OK(pool->AllocateEager(1, 1024));
  ASSERT_OK(pool->Reserve(0, WindowKind::kStaging, 1));
  ASSERT_OK(pool->Reserve(1, WindowKind::kStaging, 1));
  EXPECT_EQ(pool->usage(),
            Booked({{MemoryKind::kEager, 2 * kGranule}, {MemoryKind::kStaging, 2 * kGranule}},
                   {.eager_live = 1536, .eager_peak = 1024}));
}

TEST_F(PoolTest, RefusesEagerMemoryBeyondTheWindow) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 2 * kGranule));
  ASSERT_OK(pool->AllocateEager(0, kGranule));
  const MemoryUsage before = pool->usage();
  EXPECT_THAT(pool->AllocateEager(0, kGranule + 1), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(pool->usage(), before);
  EXPECT_OK(pool->AllocateEager(0, kGranule));
}

TEST_F(PoolTest, RefusesEagerMemoryBeyondTheDevice) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, kGiB));
  ASSERT_OK(pool->AllocateEager(0, kGranule));
  const MemoryUsage before = pool->usage();
  EXPECT_THAT(pool->AllocateEager(0, 32 * kMiB), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(pool->usage(), before);
  EXPECT_OK(pool->AllocateEager(0, 30 * kMiB));
}

TEST_F(PoolTest, TrimTakesEagerMemoryAboveTheHighestLiveByte) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, kGiB));
  ASSERT_OK(pool->AllocateEager(1, kGranule));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress low, pool->AllocateEager(0, kGranule));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress high, pool->AllocateEager(0, 3 * kGranule));
  pool->FreeEager(0, high);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t above, pool->TrimEager(0));
  EXPECT_EQ(above, 3 * kGranule);
  pool->FreeEager(0, low);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t rest, pool->TrimEager(0));
  EXPECT_EQ(rest, kGranule);
  EXPECT_EQ(pool->usage().of(MemoryKind::kEager), kGranule);  // The other lane's.
  EXPECT_EQ(pool->usage().of(MemoryKind::kSpare), 4 * kGranule);
  ASSERT_OK(pool->ReleaseSpares());
  EXPECT_EQ(device_.ledger().created_bytes(), kGranule);
}

TEST_F(PoolTest, TrimmedMemoryIsSpareAndServesAnotherWindow) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, kGiB));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule));
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, 3 * kGranule));
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t taken, pool->Trim(0, WindowKind::kNodes, kGranule));
  EXPECT_EQ(taken, 2 * kGranule);
  EXPECT_EQ(pool->mapped_bytes(0, WindowKind::kNodes), kGranule);
  EXPECT_EQ(pool->usage().of(MemoryKind::kSpare), 2 * kGranule);
  EXPECT_EQ(pool->usage().total, 3 * kGranule);
  ASSERT_OK(pool->Reserve(1, WindowKind::kStaging, 2 * kGranule));
  EXPECT_EQ(pool->usage().of(MemoryKind::kSpare), 0);
  EXPECT_EQ(pool->usage().of(MemoryKind::kStaging), 2 * kGranule);
  EXPECT_EQ(pool->usage().total, device_.ledger().created_bytes());
  EXPECT_EQ(pool->usage().total_peak, 3 * kGranule);
  EXPECT_EQ(pool->usage().peak_of(MemoryKind::kNodes), 3 * kGranule);
}

TEST_F(PoolTest, ConstantsLieOutsideTheLanes) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress a, pool->AllocateConstant(1000));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress b, pool->AllocateConstant(1));
  EXPECT_FALSE(pool->Contains(a, 1000));
  EXPECT_FALSE(pool->Locate(a).has_value());
  EXPECT_EQ(b, a + 1024);
  EXPECT_EQ(pool->usage().of(MemoryKind::kConstants), kGranule);
  const std::vector<int32_t> values = {1, 2, 3};
  ASSERT_OK(device_.Write(a, values));
  EXPECT_EQ(device_.Download<int32_t>(a, 3), values);
  pool->FreeConstant(a);
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress again, pool->AllocateConstant(1000));
  EXPECT_EQ(again, a);
}

TEST_F(PoolTest, BooksWhatItIsChargedUntilThatIsDischarged) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 64 * kMiB));
  ASSERT_OK(pool->Charge(MemoryKind::kGraphs, 100));
  ASSERT_OK(pool->Charge(MemoryKind::kExternal, 50));
  pool->Discharge(MemoryKind::kGraphs, 70);
  EXPECT_EQ(pool->usage().of(MemoryKind::kGraphs), 30);
  EXPECT_EQ(pool->usage().peak_of(MemoryKind::kGraphs), 100);
  EXPECT_EQ(pool->usage().total, 80);
  EXPECT_EQ(pool->usage().total_peak, 150);
}

TEST_F(PoolTest, RefusesWhatWouldPassTheBudgetAndSaysHowMuchIsLacking) {
  Pool::Options options = MakeOptions(1, 64 * kMiB);
  options.budget_bytes = 3 * kGranule;
  const std::unique_ptr<Pool> pool = MakePool(options);
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule));
  ASSERT_OK(pool->Charge(MemoryKind::kGraphs, kGranule - 1));
  const MemoryUsage before = pool->usage();
  EXPECT_EQ(before.budget, 3 * kGranule);
  const absl::Status grown = pool->Reserve(0, WindowKind::kNodes, 3 * kGranule);
  EXPECT_THAT(grown, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(BudgetShortage(grown), kGranule - 1);
  const absl::Status allocated = pool->AllocateEager(0, kGranule + 1).status();
  EXPECT_EQ(BudgetShortage(allocated), kGranule - 1);
  EXPECT_EQ(BudgetShortage(pool->Charge(MemoryKind::kExternal, kGranule + 5)), 4);
  EXPECT_EQ(BudgetShortage(pool->AllocateConstant(2 * kGranule).status()), kGranule - 1);
  EXPECT_EQ(pool->usage(), before);
  EXPECT_OK(pool->Charge(MemoryKind::kExternal, kGranule + 1));
  EXPECT_EQ(pool->usage().total, pool->usage().budget);
  EXPECT_EQ(BudgetShortage(pool->Reserve(0, WindowKind::kNodes, 2 * kGiB)), std::nullopt);
  EXPECT_EQ(BudgetShortage(absl::OkStatus()), std::nullopt);
}

TEST_F(PoolTest, SpareMemoryDoesNotCountAgainstWhatMayHaveIt) {
  Pool::Options options = MakeOptions(1, 64 * kMiB);
  options.budget_bytes = 3 * kGranule;
  const std::unique_ptr<Pool> pool = MakePool(options);
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, 3 * kGranule));
  ASSERT_OK(pool->Trim(0, WindowKind::kNodes, 0));
  EXPECT_EQ(pool->usage().of(MemoryKind::kSpare), 3 * kGranule);
  // The spare handle is too large for this, so that it has to go.
  ASSERT_OK(pool->Reserve(0, WindowKind::kStaging, kGranule));
  EXPECT_EQ(pool->usage().total, kGranule);
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, 2 * kGranule));
  EXPECT_EQ(pool->usage().total, 3 * kGranule);
  EXPECT_EQ(pool->usage().total_peak, 3 * kGranule);
  ASSERT_OK(pool->Trim(0, WindowKind::kNodes, 0));
  EXPECT_OK(pool->Charge(MemoryKind::kGraphs, 2 * kGranule));
}

TEST_F(PoolTest, SuspendReleasesEverythingAndResumeMapsItAtTheSameAddresses) {
  for (const bool keep_constants : {false, true}) {
    const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
    ASSERT_OK(pool->Reserve(1, WindowKind::kNodes, 2 * kGranule));
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress eager, pool->AllocateEager(0, kGranule));
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress constant, pool->AllocateConstant(4));
    ASSERT_OK(pool->Reserve(0, WindowKind::kStaging, kGranule));
    ASSERT_OK(pool->Trim(0, WindowKind::kStaging, 0));
    ASSERT_OK(device_.Write(constant, std::vector<int32_t>{7}));
    ASSERT_OK(pool->Suspend(keep_constants));
    EXPECT_TRUE(pool->suspended());
    EXPECT_EQ(device_.ledger().created_bytes(), keep_constants ? kGranule : 0);
    EXPECT_EQ(pool->usage().total, keep_constants ? kGranule : 0);
    ASSERT_OK(pool->Resume());
    EXPECT_FALSE(pool->suspended());
    EXPECT_EQ(pool->mapped_bytes(1, WindowKind::kNodes), 2 * kGranule);
    EXPECT_EQ(pool->usage().of(MemoryKind::kEager), kGranule);
    EXPECT_EQ(pool->usage().total, 4 * kGranule);
    ASSERT_OK(device_.Write(eager, std::vector<int32_t>{1}));
    if (keep_constants) {
      EXPECT_EQ(device_.Download<int32_t>(constant, 1), std::vector<int32_t>{7});
    }
  }
}

TEST_F(PoolTest, AResumeThatDoesNotFitLeavesThePoolSuspended) {
  Pool::Options options = MakeOptions(1, 64 * kMiB);
  options.budget_bytes = 4 * kGranule;
  const std::unique_ptr<Pool> pool = MakePool(options);
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule));
  ASSERT_OK(pool->Reserve(0, WindowKind::kStaging, 2 * kGranule));
  ASSERT_OK(pool->Suspend(/*keep_constants=*/false));
  ASSERT_OK(pool->Charge(MemoryKind::kExternal, 2 * kGranule));
  EXPECT_EQ(BudgetShortage(pool->Resume()), kGranule);
  EXPECT_TRUE(pool->suspended());
  EXPECT_EQ(device_.ledger().created_bytes(), 0);
  pool->Discharge(MemoryKind::kExternal, kGranule);
  EXPECT_OK(pool->Resume());
  EXPECT_EQ(pool->usage().total, 4 * kGranule);
}

TEST_F(PoolTest, ASuspendThatTheDriverRefusesMapsEverythingAgain) {
  for (int64_t nth = 1; nth <= 4; ++nth) {
    const std::unique_ptr<Pool> pool = MakePool(MakeOptions(1, 64 * kMiB));
    ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, kGranule));
    ASSERT_OK(pool->Reserve(0, WindowKind::kEager, kGranule));
    const int entry = nth <= 2 ? DriverLedger::IndexOf(&DriverTable::MemUnmap)
                               : DriverLedger::IndexOf(&DriverTable::MemRelease);
    device_.ledger().Inject(
        {.entry = entry, .nth = (nth - 1) % 2 + 1, .result = CuResult::kUnknown});
    EXPECT_FALSE(pool->Suspend(/*keep_constants=*/false).ok());
    device_.ledger().ClearFaults();
    EXPECT_FALSE(pool->suspended());
    EXPECT_EQ(pool->mapped_bytes(0, WindowKind::kNodes), kGranule);
    EXPECT_EQ(pool->mapped_bytes(0, WindowKind::kEager), kGranule);
    EXPECT_OK(device_.Write(pool->base(0, WindowKind::kNodes), std::vector<int32_t>{1}));
  }
}

TEST_F(PoolTest, ScrubZeroesWhatIsMappedOfOneLane) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  const std::vector<int32_t> canary = {0x5eed, 0x5eed};
  for (int lane = 0; lane < 2; ++lane) {
    for (int kind = 0; kind < kWindowKindCount; ++kind) {
      ASSERT_OK(pool->Reserve(lane, static_cast<WindowKind>(kind), kGranule));
      ASSERT_OK(device_.Write(pool->base(lane, static_cast<WindowKind>(kind)), canary));
    }
  }
  ASSERT_OK(pool->Scrub(0, device_.stream()));
  for (int kind = 0; kind < kWindowKindCount; ++kind) {
    const auto window = static_cast<WindowKind>(kind);
    EXPECT_EQ(device_.Download<int32_t>(pool->base(0, window), 2), (std::vector<int32_t>{0, 0}));
    EXPECT_EQ(device_.Download<int32_t>(pool->base(1, window), 2), canary);
  }
}

TEST_F(PoolTest, TellsOfEveryChangeInTheBooks) {
  MemoryUsage heard;
  Pool::Options options = MakeOptions(1, 64 * kMiB);
  options.on_change = [&](MemoryKind kind, int64_t bytes, int64_t total) {
    heard.bytes[static_cast<size_t>(kind)] = bytes;
    heard.total = total;
    heard.total_peak = std::max(heard.total_peak, total);
    EXPECT_EQ(std::accumulate(heard.bytes.begin(), heard.bytes.end(), int64_t{0}), total);
  };
  const std::unique_ptr<Pool> pool = MakePool(options);
  ASSERT_OK(pool->Reserve(0, WindowKind::kNodes, 3 * kGranule));
  ASSERT_OK(pool->AllocateEager(0, 1));
  ASSERT_OK(pool->Charge(MemoryKind::kExternal, 12));
  ASSERT_OK(pool->Trim(0, WindowKind::kNodes, 0));
  ASSERT_OK(pool->Reserve(0, WindowKind::kStaging, 3 * kGranule));
  ASSERT_OK(pool->Trim(0, WindowKind::kStaging, 0));
  ASSERT_OK(pool->ReleaseSpares());
  EXPECT_EQ(heard.total_peak, 4 * kGranule + 12) << "moved bytes are seen once";
  EXPECT_EQ(heard.bytes, pool->usage().bytes);
  EXPECT_EQ(heard.total, kGranule + 12);
}

TEST_F(PoolTest, ContainsWhatMeetsAWindow) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  const DeviceAddress start = pool->base(0, WindowKind::kNodes);
  const DeviceAddress end = pool->base(1, WindowKind::kWorkspace) + 64 * kMiB;
  EXPECT_TRUE(pool->Contains(start, 1));
  EXPECT_TRUE(pool->Contains(end - 1, 1));
  EXPECT_TRUE(pool->Contains(pool->base(1, WindowKind::kEager), 256));
  EXPECT_TRUE(pool->Contains(start - 1, 2));
  EXPECT_TRUE(pool->Contains(start - 1, INT64_MAX));
  EXPECT_FALSE(pool->Contains(start - 1, 1));
  EXPECT_FALSE(pool->Contains(end, 1));
  EXPECT_FALSE(pool->Locate(end).has_value());
  EXPECT_FALSE(pool->Contains(start, 0));
}

TEST_F(PoolTest, UsageIsReadWhileLanesAllocate) {
  constexpr int64_t kRounds = 100;
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  std::vector<std::thread> lanes;
  lanes.reserve(2);
  for (int lane = 0; lane < 2; ++lane) {
    lanes.emplace_back([this, lane, &pool] {
      ASSERT_OK(device_.context().MakeCurrent());
      for (int64_t i = 0; i < kRounds; ++i) {
        COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress address, pool->AllocateEager(lane, kMiB));
        ASSERT_OK(pool->Reserve(lane, WindowKind::kNodes, (i + 1) * 256));
        pool->FreeEager(lane, address);
        if (i % 50 == 0) {
          ASSERT_OK(pool->TrimEager(lane));
        }
      }
    });
  }
  for (int64_t i = 0; i < kRounds; ++i) {
    const MemoryUsage usage = pool->usage();
    EXPECT_LE(usage.eager_live, 2 * kMiB);
    EXPECT_LE(usage.height, kRounds * 256);
  }
  for (std::thread& lane : lanes)
    lane.join();
  EXPECT_EQ(pool->usage().eager_live, 0);
  EXPECT_EQ(pool->usage().height, kRounds * 256);
}

using PoolDeathTest = PoolTest;

TEST_F(PoolDeathTest, ChecksWhatItFreesAndWhere) {
  const std::unique_ptr<Pool> pool = MakePool(MakeOptions(2, 64 * kMiB));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceAddress address, pool->AllocateEager(1, 512));
  EXPECT_DEATH(pool->FreeEager(1, address + 256), "not live");
  EXPECT_DEATH(pool->FreeEager(0, address), "not live");
  EXPECT_DEATH(pool->FreeEager(1, pool->base(1, WindowKind::kNodes)), "eager window");
  EXPECT_DEATH(pool->AllocateEager(0, 0).IgnoreError(), "at least one byte");
  EXPECT_DEATH(pool->AllocateEager(2, 1).IgnoreError(), "no such window");
  pool->FreeEager(1, address);
  EXPECT_DEATH(pool->FreeEager(1, address), "not live");
  EXPECT_DEATH(pool->Charge(MemoryKind::kNodes, 1).IgnoreError(), "maps this kind itself");
  EXPECT_DEATH(pool->Discharge(MemoryKind::kGraphs, 1), "more than was charged");
  EXPECT_DEATH(pool->Resume().IgnoreError(), "not suspended");
}

}  // namespace
}  // namespace coppice
