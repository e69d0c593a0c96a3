// Goal: what a heap hands out is mapped and nobody else's, and a refusal changes nothing.
// Method: heaps over a pool of two windows, on an emulator under a ledger.

#include "coppice/allocator/window_heap.h"

#include "tests/allocator/small_device.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

constexpr int kMapped = 0;  // Accounts.
constexpr int kUnmapped = 1;
constexpr int kElsewhere = 2;

class WindowHeapTest : public testing::Test {
 protected:
  std::unique_ptr<Pool> MakePool(int64_t window_bytes) {
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(
        device_.driver(), 0, budget_,
        {.accounts = {kMapped, kMapped}, .spare_account = kUnmapped, .window_bytes = window_bytes});
    EXPECT_OK(pool);
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  static DeviceAddress Allocate(WindowHeap& heap, int64_t bytes) {
    const absl::StatusOr<Grant> grant = heap.Allocate(bytes);
    EXPECT_OK(grant);
    EXPECT_TRUE(grant.ok() && grant->granted());
    return grant.ok() ? grant->address : 0;
  }

  TestDevice device_{WithMemory(32 * kMiB), DriverLedger::Options()};
  Budget budget_{{.accounts = 3, .limit = 24 * kMiB}};
};

TEST_F(WindowHeapTest, StartsEmpty) {
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  const WindowHeap heap(*pool, 1);
  EXPECT_EQ(heap.window(), 1);
  EXPECT_EQ(heap.live_bytes(), 0);
  EXPECT_EQ(heap.top(), 0);
  EXPECT_EQ(heap.top_peak(), 0);
  EXPECT_EQ(pool->mapped_bytes(1), 0);
}

TEST_F(WindowHeapTest, AllocatesInItsWindow) {
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  WindowHeap heap(*pool, 1);
  const DeviceAddress a = Allocate(heap, 1);
  const DeviceAddress b = Allocate(heap, 300);
  EXPECT_EQ(a, pool->base(1));
  EXPECT_EQ(b, a + kBufferAlignment);
  EXPECT_EQ(heap.live_bytes(), 3 * kBufferAlignment);
  EXPECT_EQ(heap.top(), 3 * kBufferAlignment);
  EXPECT_EQ(heap.top_peak(), 3 * kBufferAlignment);
  EXPECT_EQ(budget_.bytes(kMapped), kGranule);
  const std::vector<int32_t> values = {1, 2, 3};
  ASSERT_OK(device_.Write(b, values));
  EXPECT_EQ(device_.Download<int32_t>(b, 3), values);
}

TEST_F(WindowHeapTest, MapsMoreOfTheWindowWhenNeeded) {
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  WindowHeap heap(*pool, 0);
  Allocate(heap, kGranule);
  EXPECT_EQ(pool->mapped_bytes(0), kGranule);
  const int64_t before = device_.ledger().calls();
  const DeviceAddress address = Allocate(heap, 1);
  EXPECT_EQ(pool->mapped_bytes(0), 2 * kGranule);
  heap.Free(address);
  const int64_t mapped = device_.ledger().calls();
  EXPECT_GT(mapped, before);
  Allocate(heap, 1);
  EXPECT_EQ(device_.ledger().calls(), mapped);
}

TEST_F(WindowHeapTest, ReusesFreedMemoryAndRemembersThePeak) {
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  WindowHeap heap(*pool, 0);
  const DeviceAddress a = Allocate(heap, kMiB);
  heap.Free(a);
  EXPECT_EQ(Allocate(heap, 256), a);
  EXPECT_EQ(heap.live_bytes(), 256);
  EXPECT_EQ(heap.top(), 256);
  EXPECT_EQ(heap.top_peak(), kMiB);
}

TEST_F(WindowHeapTest, HeapsOfOnePoolShareNoByte) {
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  WindowHeap low(*pool, 0);
  WindowHeap high(*pool, 1);
  EXPECT_EQ(Allocate(low, 512), pool->base(0));
  EXPECT_EQ(Allocate(high, 1024), pool->base(1));
  EXPECT_EQ(low.live_bytes(), 512);
  EXPECT_EQ(high.live_bytes(), 1024);
}

TEST_F(WindowHeapTest, RefusesMemoryBeyondTheWindow) {
  const std::unique_ptr<Pool> pool = MakePool(2 * kGranule);
  WindowHeap heap(*pool, 0);
  Allocate(heap, kGranule);
  const BudgetUsage before = budget_.usage();
  EXPECT_THAT(heap.Allocate(kGranule + 1), StatusIs(kExhausted));
  EXPECT_EQ(budget_.usage(), before);
  EXPECT_EQ(heap.live_bytes(), kGranule);
  EXPECT_EQ(heap.top_peak(), kGranule);
  Allocate(heap, kGranule);
}

TEST_F(WindowHeapTest, RefusesMemoryBeyondTheDevice) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory taken,
                               DeviceMemory::Create(device_.driver(), 16 * kMiB));
  const std::unique_ptr<Pool> pool = MakePool(kGiB);
  WindowHeap heap(*pool, 0);
  Allocate(heap, kGranule);
  const BudgetUsage before = budget_.usage();
  EXPECT_THAT(heap.Allocate(16 * kMiB), StatusIs(kExhausted));
  EXPECT_EQ(budget_.usage(), before);
  EXPECT_EQ(heap.live_bytes(), kGranule);
  EXPECT_EQ(heap.top_peak(), kGranule);
  Allocate(heap, 14 * kMiB);
}

TEST_F(WindowHeapTest, ARefusedBudgetIsAnAnswerThatSaysHowMuchIsLacking) {
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  WindowHeap heap(*pool, 0);
  Allocate(heap, kGranule);
  ASSERT_TRUE(budget_.Charge(kElsewhere, 24 * kMiB - kGranule - 7).admitted());
  const BudgetUsage before = budget_.usage();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Grant refused, heap.Allocate(1));
  EXPECT_FALSE(refused.granted());
  EXPECT_EQ(refused.missing, kGranule - 7);
  EXPECT_EQ(budget_.usage(), before);
  EXPECT_EQ(heap.live_bytes(), kGranule);
  EXPECT_EQ(heap.top_peak(), kGranule);
  budget_.Discharge(kElsewhere, kGranule - 7);
  Allocate(heap, 1);
}

TEST_F(WindowHeapTest, TrimTakesMemoryAboveTheHighestLiveByte) {
  const std::unique_ptr<Pool> pool = MakePool(kGiB);
  WindowHeap heap(*pool, 0);
  WindowHeap other(*pool, 1);
  Allocate(other, kGranule);
  const DeviceAddress low = Allocate(heap, kGranule);
  const DeviceAddress high = Allocate(heap, 3 * kGranule);
  heap.Free(high);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t above, heap.Trim());
  EXPECT_EQ(above, 3 * kGranule);
  heap.Free(low);
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t rest, heap.Trim());
  EXPECT_EQ(rest, kGranule);
  EXPECT_EQ(budget_.bytes(kMapped), kGranule);  // The other heap's.
  EXPECT_EQ(budget_.bytes(kUnmapped), 4 * kGranule);
  ASSERT_OK(pool->ReleaseSpares());
  EXPECT_EQ(device_.ledger().created_bytes(), kGranule);
}

TEST_F(WindowHeapTest, BooksAreReadWhileThreadsAllocate) {
  constexpr int64_t kRounds = 100;
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  WindowHeap shared(*pool, 0);
  std::vector<std::thread> users;
  users.reserve(2);
  for (int user = 0; user < 2; ++user) {
    users.emplace_back([this, &shared, &pool] {
      ASSERT_OK(device_.context().MakeCurrent());
      for (int64_t i = 0; i < kRounds; ++i) {
        const DeviceAddress address = Allocate(shared, kMiB);
        COPPICE_ASSERT_OK_AND_ASSIGN(const Admission grown, pool->Grow(1, (i + 1) * 256));
        EXPECT_TRUE(grown.admitted());
        shared.Free(address);
        if (i % 50 == 0) {
          ASSERT_OK(shared.Trim());
        }
      }
    });
  }
  for (int64_t i = 0; i < kRounds; ++i) {
    EXPECT_LE(shared.live_bytes(), 2 * kMiB);
    EXPECT_LE(budget_.usage().bytes[kMapped], 2 * kGranule);
  }
  for (std::thread& user : users)
    user.join();
  EXPECT_EQ(shared.live_bytes(), 0);
  EXPECT_LE(shared.top_peak(), 2 * kMiB);
}

using WindowHeapDeathTest = WindowHeapTest;

TEST_F(WindowHeapDeathTest, ChecksWhatItFreesAndWhere) {
  const std::unique_ptr<Pool> pool = MakePool(64 * kMiB);
  WindowHeap heap(*pool, 1);
  WindowHeap other(*pool, 0);
  const DeviceAddress address = Allocate(heap, 512);
  EXPECT_DEATH(heap.Free(address + 256), "no live range begins");
  EXPECT_DEATH(other.Free(address), "no live range begins");
  EXPECT_DEATH(heap.Free(pool->base(0)), "heap's window");
  EXPECT_DEATH(heap.Allocate(0).IgnoreError(), "at least one byte");
  EXPECT_DEATH(WindowHeap(*pool, 2), "no such window");
  heap.Free(address);
  EXPECT_DEATH(heap.Free(address), "no live range begins");
}

}  // namespace
}  // namespace coppice
