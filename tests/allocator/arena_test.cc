// Goal: the arena maps exactly what is asked, in the calls it names, or changes nothing at all.
// Method: an emulator under a ledger that counts calls and bytes, which fails them on demand.

#include "coppice/allocator/arena.h"

#include "coppice/runtime/driver.h"

#include "tests/allocator/small_device.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

constexpr int64_t kHandle = 2 * kGranule;
constexpr int64_t kWindow = 64 * kMiB;

// Small handles, so that a few of them are quickly mapped.
Arena::Options SmallHandles(int windows, int64_t window_bytes) {
  Arena::Options options;
  options.window_count = windows;
  options.window_bytes = window_bytes;
  options.handle_bytes = kHandle;
  return options;
}

class ArenaTest : public testing::Test {
 protected:
  std::unique_ptr<Arena> MakeArena(const Arena::Options& options) {
    absl::StatusOr<std::unique_ptr<Arena>> arena = Arena::Create(device_.driver(), 0, options);
    EXPECT_OK(arena);
    return arena.ok() ? *std::move(arena) : nullptr;
  }
  int64_t creates() { return device_.ledger().calls(&DriverTable::MemCreate); }
  int64_t maps() { return device_.ledger().calls(&DriverTable::MemMap); }
  int64_t unmaps() { return device_.ledger().calls(&DriverTable::MemUnmap); }
  int64_t releases() { return device_.ledger().calls(&DriverTable::MemRelease); }
  int64_t set_accesses() { return device_.ledger().calls(&DriverTable::MemSetAccess); }

  TestDevice device_{DriverLedger::Options()};
};

TEST_F(ArenaTest, CreateReservesTheWindowsAndMapsNothing) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(3, kWindow));
  EXPECT_EQ(device_.emulator().live().reserved_bytes, 3 * kWindow);
  EXPECT_EQ(device_.emulator().live().mapped_bytes, 0);
  EXPECT_EQ(creates(), 0);
  for (int window = 0; window < 3; ++window) {
    EXPECT_EQ(arena->mapped_bytes(window), 0);
    EXPECT_EQ(arena->base(window), arena->base(0) + static_cast<DeviceAddress>(window * kWindow));
  }
}

TEST_F(ArenaTest, CreateRoundsWindowsUpToTheGranularity) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kGranule + 1));
  EXPECT_EQ(arena->granularity(), kGranule);
  EXPECT_EQ(arena->window_bytes(), 2 * kGranule);
  EXPECT_EQ(arena->base(0) % kGranule, 0u);
  EXPECT_OK(arena->Grow(0, 2 * kGranule));
}

TEST_F(ArenaTest, CreateRejectsOptionsOutOfRange) {
  Arena::Options no_handle = SmallHandles(1, kMiB);
  no_handle.handle_bytes = 0;
  Arena::Options odd_handle = SmallHandles(1, kMiB);
  odd_handle.handle_bytes = kGranule + kMiB;
  for (const Arena::Options& options :
       {SmallHandles(0, kMiB), SmallHandles(1, 0), SmallHandles(1, -kMiB),
        SmallHandles(1, INT64_MAX), SmallHandles(2, INT64_MAX / 2), no_handle, odd_handle}) {
    EXPECT_THAT(Arena::Create(device_.driver(), 0, options), StatusIs(kWrongArgument));
  }
}

TEST_F(ArenaTest, GrowMapsTheBytesRoundedUpToTheGranularity) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(2, kWindow));
  ASSERT_OK(arena->Grow(1, 1));
  EXPECT_EQ(arena->mapped_bytes(1), kGranule);
  ASSERT_OK(arena->Grow(1, kGranule + 1));
  EXPECT_EQ(arena->mapped_bytes(1), 2 * kGranule);
  EXPECT_EQ(arena->mapped_bytes(0), 0);
  EXPECT_EQ(device_.ledger().MappedBytes(arena->base(1), kWindow), 2 * kGranule);
  EXPECT_EQ(device_.ledger().MappedBytes(arena->base(0), kWindow), 0);
  EXPECT_EQ(device_.ledger().created_bytes(), 2 * kGranule);
}

TEST_F(ArenaTest, GrowCreatesAndMapsEachHandleAndSetsAccessOnce) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
  const int64_t before = device_.ledger().calls();
  ASSERT_OK(arena->Grow(0, 2 * kHandle + 5));  // Two whole handles and an exact tail.
  EXPECT_EQ(arena->mapped_bytes(0), 2 * kHandle + kGranule);
  EXPECT_EQ(creates(), 3);
  EXPECT_EQ(maps(), 3);
  EXPECT_EQ(set_accesses(), 1);
  constexpr int kToAndFromRelaxedCapture = 2;
  EXPECT_EQ(device_.ledger().calls() - before, 7 + kToAndFromRelaxedCapture);
}

TEST_F(ArenaTest, HandlesHaveAtMost64MiBByDefault) {
  const std::unique_ptr<Arena> arena = MakeArena({.window_count = 1, .window_bytes = kGiB});
  ASSERT_OK(arena->Grow(0, 64 * kMiB));
  EXPECT_EQ(creates(), 1);
  ASSERT_OK(arena->Grow(0, 128 * kMiB + 1));
  EXPECT_EQ(creates(), 3);
}

TEST_F(ArenaTest, GrowMakesNoDriverCallWhereAllIsMapped) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
  ASSERT_OK(arena->Grow(0, kGranule));
  const int64_t before = device_.ledger().calls();
  EXPECT_OK(arena->Grow(0, kGranule));
  EXPECT_OK(arena->Grow(0, 1));
  EXPECT_OK(arena->Grow(0, 0));
  EXPECT_EQ(device_.ledger().calls(), before);
}

TEST_F(ArenaTest, GrowthKeepsAddressesAndContents) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(2, kWindow));
  const std::vector<int32_t> values = {1, 2, 3, 4};
  const DeviceAddress start = arena->base(0);
  const DeviceAddress end = start + kGranule - 16;
  ASSERT_OK(arena->Grow(0, kGranule));
  ASSERT_OK(device_.Write(end, values));
  ASSERT_OK(arena->Grow(0, 3 * kGranule));
  ASSERT_OK(arena->Grow(1, kGranule));
  EXPECT_EQ(arena->base(0), start);
  EXPECT_EQ(device_.Download<int32_t>(end, 4), values);
  ASSERT_OK(device_.Write(start + 3 * kGranule - 16, values));
  EXPECT_EQ(device_.Download<int32_t>(start + 3 * kGranule - 16, 4), values);
}

TEST_F(ArenaTest, GrowRefusesMoreThanTheWindow) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(2, 4 * kGranule));
  const int64_t before = device_.ledger().calls();
  EXPECT_THAT(arena->Grow(0, 4 * kGranule + 1), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(device_.ledger().calls(), before);
  EXPECT_OK(arena->Grow(0, 4 * kGranule));
  EXPECT_EQ(arena->mapped_bytes(0), arena->window_bytes());
  EXPECT_EQ(arena->mapped_bytes(1), 0);
}

TEST_F(ArenaTest, TrimUnmapsTheHandlesThatLieWhollyAboveAndKeepsThem) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
  ASSERT_OK(arena->Grow(0, 3 * kHandle));
  ASSERT_OK(arena->Grow(0, 3 * kHandle + kGranule));
  ASSERT_OK(arena->Trim(0, kHandle + 1));
  EXPECT_EQ(arena->mapped_bytes(0), 2 * kHandle);
  EXPECT_EQ(device_.ledger().MappedBytes(arena->base(0), kWindow), 2 * kHandle);
  EXPECT_EQ(unmaps(), 2);
  EXPECT_EQ(releases(), 0);
  EXPECT_EQ(arena->spare_bytes(), kHandle + kGranule);
  ASSERT_OK(arena->ReleaseSpares());
  EXPECT_EQ(arena->spare_bytes(), 0);
  EXPECT_EQ(device_.ledger().created_bytes(), 2 * kHandle);
  EXPECT_EQ(releases(), 2);
}

TEST_F(ArenaTest, GrowTakesSpareHandlesThatFitTheLargestFirst) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(2, kWindow));
  ASSERT_OK(arena->Grow(0, kHandle));
  ASSERT_OK(arena->Grow(0, kHandle + kGranule));
  ASSERT_OK(arena->Trim(0, 0));
  const int64_t before = creates();
  EXPECT_EQ(arena->CreatedBytes(1, kHandle), 0);
  EXPECT_EQ(arena->CreatedBytes(1, kHandle + 3 * kGranule), 2 * kGranule);
  EXPECT_EQ(arena->MissingBytes(1, kHandle + 3 * kGranule - 1), kHandle + 3 * kGranule);
  ASSERT_OK(arena->Grow(1, kHandle + kGranule));
  EXPECT_EQ(creates(), before);
  EXPECT_EQ(arena->spare_bytes(), 0);
  EXPECT_EQ(arena->CreatedBytes(1, kGranule), 0);
}

TEST_F(ArenaTest, TrimReturnsTheBytesUnmapped) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
  ASSERT_OK(arena->Grow(0, kHandle + kGranule));
  EXPECT_EQ(arena->TrimmableBytes(0, kHandle + 1), 0);
  EXPECT_EQ(arena->TrimmableBytes(0, kHandle), kGranule);
  EXPECT_EQ(arena->TrimmableBytes(0, 0), kHandle + kGranule);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t none, arena->Trim(0, kHandle + 1));
  EXPECT_EQ(none, 0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t tail, arena->Trim(0, kHandle));
  EXPECT_EQ(tail, kGranule);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t rest, arena->Trim(0, 0));
  EXPECT_EQ(rest, kHandle);
}

TEST_F(ArenaTest, GrowsAgainAtTheSameAddressesAfterATrim) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
  ASSERT_OK(arena->Grow(0, 2 * kGranule));
  ASSERT_OK(arena->Trim(0, 0));
  ASSERT_OK(arena->Grow(0, kGranule));
  const std::vector<int32_t> values = {7};
  EXPECT_OK(device_.Write(arena->base(0), values));
  EXPECT_EQ(device_.Download<int32_t>(arena->base(0), 1), values);
}

TEST_F(ArenaTest, DestructionUnmapsHandleByHandleAndFreesTheRange) {
  {
    const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(2, kWindow));
    ASSERT_OK(arena->Grow(0, kHandle + kGranule));
    ASSERT_OK(arena->Grow(1, kGranule));
  }
  EXPECT_EQ(unmaps(), 3);
  EXPECT_EQ(releases(), 3);
  EXPECT_EQ(device_.ledger().created_bytes(), 0);
  EXPECT_EQ(device_.emulator().live().reserved_bytes, 0);
}

using ArenaDeathTest = ArenaTest;

TEST_F(ArenaDeathTest, ChecksTheWindow) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(2, kMiB));
  EXPECT_DEATH(arena->base(2), "no such window");
  EXPECT_DEATH(arena->base(-1), "no such window");
  EXPECT_DEATH(arena->mapped_bytes(2), "no such window");
  EXPECT_DEATH(arena->Grow(2, 1).IgnoreError(), "no such window");
}

TEST(ArenaMemoryTest, AFailedGrowthLeavesTheWindowAsBefore) {
  TestDevice device(WithMemory(4 * kGranule), DriverLedger::Options());
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Arena> arena,
                               Arena::Create(device.driver(), 0, SmallHandles(1, kWindow)));
  ASSERT_OK(arena->Grow(0, kGranule));
  // The first handle still fits, the second does not.
  const absl::Status status = arena->Grow(0, 5 * kGranule);
  EXPECT_THAT(status, StatusIs(kExhausted));
  EXPECT_EQ(CuResultOf(status), CuResult::kOutOfMemory);
  EXPECT_EQ(arena->mapped_bytes(0), kGranule);
  EXPECT_EQ(device.ledger().MappedBytes(arena->base(0), kWindow), kGranule);
  EXPECT_EQ(device.ledger().created_bytes(), kGranule);
  EXPECT_OK(arena->Grow(0, 4 * kGranule));
}

class ArenaFaultTest : public ArenaTest {
 protected:
  // The nth call of the entry from now on fails.
  template <typename Entry>
  void Fail(Entry entry, int64_t nth = 1) {
    device_.ledger().Inject(
        {.entry = DriverLedger::IndexOf(entry), .nth = nth, .result = CuResult::kUnknown});
  }

  // Grows by one handle and then, when `entry` fails, by two more.
  template <typename Entry>
  void ExpectRollback(Entry entry, int64_t nth) {
    const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
    ASSERT_OK(arena->Grow(0, kGranule));
    Fail(entry, nth);
    EXPECT_THAT(arena->Grow(0, kHandle + 2 * kGranule), StatusIs(absl::StatusCode::kInternal));
    EXPECT_EQ(arena->mapped_bytes(0), kGranule);
    EXPECT_EQ(device_.emulator().live().mapped_bytes, kGranule);
    EXPECT_EQ(device_.emulator().live().physical_bytes, kGranule);
    EXPECT_OK(arena->Grow(0, kHandle + 2 * kGranule));
  }
};

TEST_F(ArenaFaultTest, CreateReturnsTheDriversErrors) {
  const auto create = [this] { return Arena::Create(device_.driver(), 0, SmallHandles(1, kMiB)); };
  Fail(&DriverTable::MemGetAllocationGranularity);
  EXPECT_THAT(create(), StatusIs(absl::StatusCode::kInternal));
  Fail(&DriverTable::MemAddressReserve);
  EXPECT_THAT(create(), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(ArenaFaultTest, GrowthRollsBackWhereverItFails) {
  for (const int64_t nth : {1, 2}) {
    ExpectRollback(&DriverTable::MemCreate, nth);
    ExpectRollback(&DriverTable::MemMap, nth);
  }
  ExpectRollback(&DriverTable::MemSetAccess, 1);
}

TEST_F(ArenaTest, NothingItDoesBreaksACaptureOfTheApplication) {
  const DriverTable& cu = device_.driver().table();
  ASSERT_EQ(cu.StreamBeginCapture(device_.stream(), CuCaptureMode::kGlobal), CuResult::kSuccess);
  {
    const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
    EXPECT_OK(arena->Grow(0, 3 * kGranule));
    EXPECT_OK(arena->Trim(0, 0));
    EXPECT_OK(arena->Grow(0, kGranule));
  }
  CuGraph graph = nullptr;
  EXPECT_EQ(cu.StreamEndCapture(device_.stream(), &graph), CuResult::kSuccess);
  EXPECT_EQ(cu.GraphDestroy(graph), CuResult::kSuccess);
}

TEST_F(ArenaFaultTest, AFailedTrimKeepsWhatIsBelowAndReleasesTheRestLater) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
  for (int64_t granules = 1; granules <= 3; ++granules)
    ASSERT_OK(arena->Grow(0, granules * kGranule));
  Fail(&DriverTable::MemUnmap, 2);
  EXPECT_THAT(arena->Trim(0, 0), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(arena->mapped_bytes(0), kGranule);
  EXPECT_EQ(arena->spare_bytes(), kGranule);
  EXPECT_OK(arena->Trim(0, 0));
  EXPECT_OK(arena->ReleaseSpares());
  EXPECT_EQ(device_.emulator().live().physical_bytes, 0);
}

TEST_F(ArenaFaultTest, GrowsAgainWhereATrimFailed) {
  const std::unique_ptr<Arena> arena = MakeArena(SmallHandles(1, kWindow));
  ASSERT_OK(arena->Grow(0, kGranule));
  Fail(&DriverTable::MemUnmap);
  EXPECT_THAT(arena->Trim(0, 0), StatusIs(absl::StatusCode::kInternal));
  EXPECT_OK(arena->Grow(0, 2 * kGranule));
  EXPECT_EQ(device_.emulator().live().mapped_bytes, 2 * kGranule);
}

}  // namespace
}  // namespace coppice
