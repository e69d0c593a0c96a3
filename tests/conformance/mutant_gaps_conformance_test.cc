// Goal: rules that a wrong driver broke without any other case noticing: what comes before cuInit,
// what memory costs, what is left of a capture that failed, and waiting under every order of work.
// Method: one small test per rule. Where a device has other users, or the process is initialised
// already, a test asks the emulator alone.

#include <atomic>
#include <cstdint>

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

// A driver that nobody has initialised.
class InitConformanceTest : public ConformanceTest {
 protected:
  void SetUp() override {
    if (GetParam().kind == DriverKind::kCuda)
      GTEST_SKIP() << "the process has initialised CUDA to see whether there is a device";
    OpenDriver();
  }
};
COPPICE_CONFORMANCE_SUITE(InitConformanceTest);

TEST_P(InitConformanceTest, NothingWorksBeforeInit) {
  int count = 0;
  CuDevice device = 0;
  DeviceAddress address = 0;
  CuStream stream = nullptr;
  CuContext current = nullptr;
  EXPECT_CU(kNotInitialized, cu.DeviceGetCount(&count));
  EXPECT_CU(kNotInitialized, cu.DeviceGet(&device, 0));
  EXPECT_CU(kNotInitialized, cu.CtxGetCurrent(&current));
  EXPECT_CU(kNotInitialized, cu.DevicePrimaryCtxRetain(&current, 0));
  EXPECT_CU(kNotInitialized, cu.MemAlloc(&address, 1));
  EXPECT_CU(kNotInitialized, cu.StreamCreate(&stream, 0));
  EXPECT_CU(kSuccess, cu.Init(0));
  EXPECT_CU(kSuccess, cu.DeviceGetCount(&count));
}

// What memory costs.

class BudgetConformanceTest : public ConformanceTest {
 protected:
  static constexpr CuMemAllocationProperties kProperties{
      .type = CuMemAllocationType::kPinned,
      .location = {.type = CuMemLocationType::kDevice, .id = 0}};

  void SetUp() override {
    if (GetParam().kind == DriverKind::kCuda)
      GTEST_SKIP() << "the free memory of a device changes with its other users";
    ConformanceTest::SetUp();
  }

  size_t FreeBytes() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_CU(kSuccess, cu.MemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
  }
};
COPPICE_CONFORMANCE_SUITE(BudgetConformanceTest);

TEST_P(BudgetConformanceTest, AllocationsCostWhatTheyHold) {
  const size_t before = FreeBytes();
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAlloc(&address, kGranule));
  EXPECT_EQ(FreeBytes(), before - kGranule);
  EXPECT_CU(kSuccess, cu.MemFree(address));
  EXPECT_EQ(FreeBytes(), before);
}

TEST_P(BudgetConformanceTest, PhysicalMemoryCostsUntilItIsReleasedAndUnmapped) {
  const size_t before = FreeBytes();
  DeviceAddress address = 0;
  CuMemoryHandle handle = 0;
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&address, kGranule, 0, 0, 0));
  EXPECT_EQ(FreeBytes(), before) << "addresses cost nothing";
  ASSERT_CU(kSuccess, cu.MemCreate(&handle, kGranule, &kProperties, 0));
  ASSERT_CU(kSuccess, cu.MemMap(address, kGranule, 0, handle, 0));
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_EQ(FreeBytes(), before - kGranule) << "mapped memory is in use";
  EXPECT_CU(kSuccess, cu.MemUnmap(address, kGranule));
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
}

TEST_P(BudgetConformanceTest, PhysicalMemoryThatIsRefusedCostsNothing) {
  const size_t before = FreeBytes();
  CuMemoryHandle handle = 0;
  EXPECT_CU(kOutOfMemory, cu.MemCreate(&handle, before + kGranule, &kProperties, 0));
  EXPECT_EQ(FreeBytes(), before);
}

TEST_P(BudgetConformanceTest, HandleIsReleasedOnce) {
  CuMemoryHandle handle = 0;
  ASSERT_CU(kSuccess, cu.MemCreate(&handle, kGranule, &kProperties, 0));
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kInvalidValue, cu.MemRelease(handle));
}

// What is left of a capture that failed.

class FailedCaptureConformanceTest : public ConformanceTest {};
COPPICE_CONFORMANCE_SUITE(FailedCaptureConformanceTest);

TEST_P(FailedCaptureConformanceTest, InvalidatedCaptureEndsWithoutAGraph) {
  CuGraph graph = NewGraph();
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(a));
  EXPECT_CU(kStreamCaptureInvalidated, cu.StreamEndCapture(a, &graph));
  EXPECT_EQ(graph, nullptr) << "and not what the variable held before";
}

TEST_P(FailedCaptureConformanceTest, UnjoinedCaptureEndsWithoutAGraph) {
  const DeviceAddress word = NewWords(1);
  CuGraph graph = NewGraph();
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, word, 1));
  EXPECT_CU(kStreamCaptureUnjoined, cu.StreamEndCapture(a, &graph));
  EXPECT_EQ(graph, nullptr) << "and not what the variable held before";
}

TEST_P(FailedCaptureConformanceTest, WaitingForAStreamOfAnInvalidatedCaptureIsRefusedAsThat) {
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(a));
  EXPECT_CU(kStreamCaptureInvalidated, cu.StreamSynchronize(a));
  EXPECT_CU(kStreamCaptureInvalidated, cu.StreamEndCapture(a, &graph));
}

// Work that is too long to be done by chance.

class LongWorkConformanceTest : public ConformanceTest {
 protected:
  static constexpr int kSteps = 30;

  // Queues `kSteps` host functions on `a`, each of which counts.
  void QueueWork() {
    for (int step = 0; step < kSteps; ++step)
      EXPECT_CU(kSuccess,
                cu.LaunchHostFunc(
                    a, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &ran_));
  }

  std::atomic<int> ran_ = 0;
};
COPPICE_CONFORMANCE_SUITE(LongWorkConformanceTest);

TEST_P(LongWorkConformanceTest, WaitingForAnEventWaitsForAllBeforeIt) {
  const CuEvent event = NewEvent();
  QueueWork();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_EQ(ran_, kSteps);
}

TEST_P(LongWorkConformanceTest, EventIsReadyOnceAllBeforeItIsDone) {
  const CuEvent event = NewEvent();
  QueueWork();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  while (cu.EventQuery(event) == CuResult::kNotReady) {
  }
  EXPECT_EQ(ran_, kSteps);
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
}

TEST_P(LongWorkConformanceTest, SecondRecordOverwritesTheFirst) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  QueueWork();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_EQ(ran_, kSteps);
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
}

TEST_P(LongWorkConformanceTest, FillFollowsTheWorkBeforeIt) {
  const DeviceAddress word = NewWords(1);
  for (int step = 0; step < kSteps; ++step)
    EXPECT_CU(kSuccess, Store(a, word, 7));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(word, 0, sizeof(int64_t), a));
  EXPECT_EQ(Word(word), 0);
}

}  // namespace
}  // namespace coppice
