// Goal: host functions run in order, once, and may not call the driver.
// Method: one small test per rule of cuLaunchHostFunc's documentation, on every driver. Those that
// call the driver do so, on CUDA, in a process of their own. What they do after a fault is in
// fault_conformance_test.cc.

#include "tests/conformance/child_process.h"
#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

class HostFunctionConformanceTest : public ConformanceTest {
 protected:
  // One call of a host function that appends `value` to `log`.
  struct Entry {
    std::vector<int>* log = nullptr;
    int value = 0;
  };
  static void Append(void* data) {
    const auto& entry = *static_cast<Entry*>(data);
    entry.log->push_back(entry.value);
  }

  // What a call of the driver by a host function returned.
  struct DriverCall {
    const DriverTable* cu = nullptr;
    CuResult result = CuResult::kUnknown;
  };
  static void CallDriver(void* data) {
    auto& call = *static_cast<DriverCall*>(data);
    DeviceAddress address = 0;
    call.result = call.cu->MemAlloc(&address, 64);
  }

  // CUDA may return 800 for such a call and need not. The emulator does.
  void ExpectNotPermitted(CuResult result) const {
    const bool overlooked = GetParam().kind == DriverKind::kCuda && result == CuResult::kSuccess;
    EXPECT_TRUE(result == CuResult::kNotPermitted || overlooked) << NameOf(result);
  }
};
COPPICE_CONFORMANCE_SUITE(HostFunctionConformanceTest);

TEST_P(HostFunctionConformanceTest, FunctionMustNotBeNull) {
  EXPECT_CU(kInvalidValue, cu.LaunchHostFunc(a, nullptr, nullptr));
}

TEST_P(HostFunctionConformanceTest, FunctionRunsOnce) {
  std::atomic<int> runs = 0;
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Count, &runs));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(runs, 1);
}

TEST_P(HostFunctionConformanceTest, FunctionsOfAStreamRunInOrder) {
  std::vector<int> log;
  std::vector<Entry> entries;
  for (int value = 0; value < 10; ++value)
    entries.push_back({.log = &log, .value = value});
  for (Entry& entry : entries)
    EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Append, &entry));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_P(HostFunctionConformanceTest, FunctionMayNotCallTheDriver) {
  EXPECT_IN_CHILD_OF_CUDA({
    DriverCall call{.cu = &cu};
    EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, CallDriver, &call));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    ExpectNotPermitted(call.result);
    EXPECT_CU(kSuccess, cu.StreamSynchronize(b)) << "the thread itself may";
  });
}

TEST_P(HostFunctionConformanceTest, FunctionSeesWhatEarlierCopiesWrote) {
  struct Record {
    int64_t copied = 0;
    int64_t seen = 0;
  } record;
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Store(a, word, 5));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&record.copied, word, sizeof(record.copied), a));
  const auto look = [](void* data) {
    auto& self = *static_cast<Record*>(data);
    self.seen = self.copied;
  };
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, look, &record));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(record.seen, 5);
}

// Through a second stream, so that nothing but the event orders them.
TEST_P(HostFunctionConformanceTest, EventsOrderFunctionsOfTwoStreams) {
  std::vector<int> log;
  Entry first{.log = &log, .value = 1};
  Entry second{.log = &log, .value = 2};
  Entry third{.log = &log, .value = 3};
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Append, &first));
  Order(a, b);
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(b, Append, &second));
  Order(b, a);
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Append, &third));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
}

TEST_P(HostFunctionConformanceTest, EventBehindAFunctionWaitsForIt) {
  std::atomic<int> runs = 0;
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Count, &runs));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_EQ(runs, 1);
}

TEST_P(HostFunctionConformanceTest, ContextSynchronizeWaitsForFunctions) {
  std::atomic<int> runs = 0;
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Count, &runs));
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(b, Count, &runs));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  EXPECT_EQ(runs, 2);
}

TEST_P(HostFunctionConformanceTest, FunctionOfADestroyedStreamStillRuns) {
  std::atomic<int> runs = 0;
  CuStream stream = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(stream, Count, &runs));
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  EXPECT_EQ(runs, 1);
}

TEST_P(HostFunctionConformanceTest, CapturedFunctionRunsAtEachLaunchAndNotBefore) {
  std::atomic<int> runs = 0;
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, Count, &runs));
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
  const CuGraphExec exec = Instantiate(Keep(graph));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(runs, 0);
  for (int launch = 1; launch <= 3; ++launch) {
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    EXPECT_EQ(runs, launch);
  }
}

TEST_P(HostFunctionConformanceTest, CapturedFunctionMayNotCallTheDriverEither) {
  EXPECT_IN_CHILD_OF_CUDA({
    DriverCall call{.cu = &cu};
    ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
    EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, CallDriver, &call));
    CuGraph graph = nullptr;
    ASSERT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
    EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(Keep(graph)), a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    ExpectNotPermitted(call.result);
  });
}

}  // namespace
}  // namespace coppice
