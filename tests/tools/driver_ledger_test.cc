// Goal: the ledger changes nothing that a driver does, and its books agree with what was called.
// Method: an inner table of test functions whose results and handles the test chooses.

#include "tools/ledger/driver_ledger.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/host_allocations.h"
#include "tests/support/status_matchers.h"
#include "tests/support/succeeding_table.h"

namespace coppice {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kPage = 4096;

// Creates handles 1, 2, ... and allocates at 1 MiB, 2 MiB, ...
DriverTable MemoryTable() {
  DriverTable table = SucceedingTable();
  table.MemCreate = [](CuMemoryHandle* handle, size_t, const CuMemAllocationProperties*,
                       unsigned long long) {
    static CuMemoryHandle last = 0;
    *handle = ++last;
    return CuResult::kSuccess;
  };
  table.MemAlloc = [](CuDeviceAddress* address, size_t) {
    static CuDeviceAddress last = 0;
    *address = last += 1 << 20;
    return CuResult::kSuccess;
  };
  return table;
}

class DriverLedgerTest : public testing::Test {
 protected:
  std::unique_ptr<DriverLedger> MakeLedger(const DriverTable& table,
                                           const DriverLedger::Options& options = {}) {
    inner_ = std::make_unique<Driver>(table, DriverKind::kCuda);
    auto ledger = DriverLedger::Create(*inner_, options);
    EXPECT_OK(ledger);
    return *std::move(ledger);
  }

  static void Map(const DriverLedger& ledger, DeviceAddress address, size_t bytes) {
    EXPECT_OK(ledger.driver().Call<&DriverTable::MemMap>(address, bytes, size_t{0},
                                                         CuMemoryHandle{1}, 0ULL));
  }

  std::unique_ptr<Driver> inner_;
};

TEST_F(DriverLedgerTest, WrapsWithTheSameKindAndPassesArgumentsAndResults) {
  DriverTable table = SucceedingTable();
  table.DeviceGetAttribute = [](int* value, CuDeviceAttribute attribute, CuDevice device) {
    *value = static_cast<int>(attribute) + device;
    return CuResult::kNotSupported;
  };
  const auto ledger = MakeLedger(table);
  EXPECT_EQ(ledger->driver().kind(), DriverKind::kCuda);
  int value = 0;
  const absl::Status status = ledger->driver().Call<&DriverTable::DeviceGetAttribute>(
      &value, CuDeviceAttribute::kMultiprocessorCount, 100);
  EXPECT_EQ(CuResultOf(status), CuResult::kNotSupported);
  EXPECT_EQ(value, 116);
}

TEST_F(DriverLedgerTest, SecondLedgerIsRefusedWhileOneExists) {
  auto first = MakeLedger(SucceedingTable());
  EXPECT_THAT(DriverLedger::Create(*inner_, {}), StatusIs(absl::StatusCode::kFailedPrecondition));
  first.reset();
  EXPECT_OK(DriverLedger::Create(*inner_, {}));
}

TEST_F(DriverLedgerTest, CountsCallsPerEntryWhetherTheyFailOrNot) {
  DriverTable table = SucceedingTable();
  table.StreamQuery = [](CuStream) { return CuResult::kNotReady; };
  const auto ledger = MakeLedger(table);
  const DriverTable& driver = ledger->driver().table();
  for (int i = 0; i < 3; ++i)
    driver.GraphLaunch(nullptr, nullptr);
  driver.StreamQuery(nullptr);
  EXPECT_EQ(ledger->calls(&DriverTable::GraphLaunch), 3);
  EXPECT_EQ(ledger->calls(&DriverTable::StreamQuery), 1);
  EXPECT_EQ(ledger->calls(&DriverTable::MemMap), 0);
  EXPECT_EQ(ledger->calls(), 4);
}

TEST_F(DriverLedgerTest, CountsEveryCallOfEveryThread) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 1000;
  const auto ledger = MakeLedger(MemoryTable());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&ledger] {
        for (int call = 0; call < kCalls; ++call) {
          CuDeviceAddress address = 0;
          ledger->driver().table().MemAlloc(&address, kPage);
          ledger->driver().table().MemFree(address);
        }
      });
    }
  }
  EXPECT_EQ(ledger->calls(&DriverTable::MemAlloc), kThreads * kCalls);
  EXPECT_EQ(ledger->calls(), 2 * kThreads * kCalls);
  EXPECT_EQ(ledger->allocated_bytes(), 0);
}

TEST_F(DriverLedgerTest, TimesCallsOnRequestOnly) {
  // Two reads of a clock in every call take longer than no time at all.
  const auto call_often = [](const DriverLedger& ledger) {
    for (int i = 0; i < 1000; ++i)
      ledger.driver().table().StreamQuery(nullptr);
  };
  auto ledger = MakeLedger(SucceedingTable());
  call_often(*ledger);
  EXPECT_EQ(ledger->driver_ns(), 0);
  ledger.reset();
  ledger = MakeLedger(SucceedingTable(), {.time_calls = true});
  call_often(*ledger);
  EXPECT_GT(ledger->driver_ns(), 0);
}

// Powers of two, so that every sum names its terms.
LatencyModel PowersOfTwo() {
  constexpr char kTable[] =
      "entry\tcall_us\tnode_us\tmib_us\tsource\n"
      "default\t1\t0\t0\ttest\n"
      "cuMemMap\t2\t0\t64\ttest\n"
      "cuMemsetD32Async\t4\t0\t64\ttest\n"
      "cuGraphInstantiateWithFlags\t8\t128\t0\ttest\n"
      "cuGraphUpload\t16\t0.5\t0\ttest\n"
      "cuGraphLaunch\t32\t0.25\t0\ttest\n";
  auto model = LatencyModel::Parse(kTable, "powers");
  EXPECT_OK(model);
  return *std::move(model);
}

TEST_F(DriverLedgerTest, ModelledTimeIsThatOfTheCallsThatPassWithTheBytesTheyName) {
  const LatencyModel latency = PowersOfTwo();
  DriverTable table = MemoryTable();
  table.StreamQuery = [](CuStream) { return CuResult::kNotReady; };
  table.MemUnmap = [](CuDeviceAddress, size_t) { return CuResult::kInvalidValue; };
  const auto ledger = MakeLedger(table, {.latency = &latency});
  const DriverTable& driver = ledger->driver().table();
  EXPECT_EQ(ledger->modelled_us(), 0);
  driver.StreamQuery(nullptr);  // 1: an answer, though not success.
  EXPECT_DOUBLE_EQ(ledger->modelled_us(), 1);
  driver.MemUnmap(0, kPage);  // Nothing: it fails.
  EXPECT_DOUBLE_EQ(ledger->modelled_us(), 1);
  Map(*ledger, 0x10000, kMiB / 4);  // 2 + 64 / 4.
  EXPECT_DOUBLE_EQ(ledger->modelled_us(), 19);
  driver.MemsetD32Async(0, 0, kMiB / 8, nullptr);  // 4 + 64 / 2: a count of words.
  EXPECT_DOUBLE_EQ(ledger->modelled_us(), 55);
  ledger->Inject({.result = CuResult::kOutOfMemory});
  driver.StreamQuery(nullptr);
  EXPECT_DOUBLE_EQ(ledger->modelled_us(), 55);
}

TEST_F(DriverLedgerTest, ModelledLaunchCostsItsNodesAndOnceAnUpload) {
  static int storage[2];
  static size_t made = 0;
  made = 0;
  DriverTable table = SucceedingTable();
  table.GraphGetNodes = [](CuGraph, CuGraphNode*, size_t* count) {
    *count = 4;
    return CuResult::kSuccess;
  };
  table.GraphInstantiateWithFlags = [](CuGraphExec* exec, CuGraph, unsigned long long) {
    *exec = reinterpret_cast<CuGraphExec>(&storage[made++ % 2]);
    return CuResult::kSuccess;
  };
  const LatencyModel latency = PowersOfTwo();
  const auto ledger = MakeLedger(table, {.latency = &latency});
  const DriverTable& driver = ledger->driver().table();
  double before = 0;
  const auto since = [&] {
    return ledger->modelled_us() - std::exchange(before, ledger->modelled_us());
  };
  CuGraphExec execs[3] = {};
  driver.GraphInstantiateWithFlags(&execs[0], nullptr, 0);
  EXPECT_DOUBLE_EQ(since(), 8 + 4 * 128);
  driver.GraphLaunch(execs[0], nullptr);
  EXPECT_DOUBLE_EQ(since(), 33 + 18) << "the first launch uploads";
  driver.GraphLaunch(execs[0], nullptr);
  EXPECT_DOUBLE_EQ(since(), 33);
  driver.GraphInstantiateWithFlags(&execs[1], nullptr, 0);
  (void)since();
  driver.GraphUpload(execs[1], nullptr);
  EXPECT_DOUBLE_EQ(since(), 18);
  driver.GraphLaunch(execs[1], nullptr);
  EXPECT_DOUBLE_EQ(since(), 33) << "it was uploaded";
  driver.GraphExecDestroy(execs[0]);
  driver.GraphInstantiateWithFlags(&execs[2], nullptr, 0);
  ASSERT_EQ(execs[2], execs[0]) << "the handle comes back";
  (void)since();
  driver.GraphLaunch(execs[2], nullptr);
  EXPECT_DOUBLE_EQ(since(), 33 + 18);
  EXPECT_EQ(ledger->calls(&DriverTable::GraphGetNodes), 0) << "the ledger's own call";
}

TEST_F(DriverLedgerTest, ModelledLaunchAllocatesNothing) {
  const LatencyModel latency = PowersOfTwo();
  const auto ledger = MakeLedger(SucceedingTable(), {.latency = &latency});
  CuGraphExec exec = nullptr;
  ledger->driver().table().GraphInstantiateWithFlags(&exec, nullptr, 0);
  host_allocations.count = 0;
  {
    const CountingScope counting(true);
    for (int i = 0; i < 10; ++i)
      ledger->driver().table().GraphLaunch(exec, nullptr);
  }
  EXPECT_EQ(host_allocations.count, 0);
  EXPECT_GE(ledger->modelled_us(), 10 * 32);
}

TEST_F(DriverLedgerTest, EventsAreApartByTheModelledTimeBetweenTheirRecords) {
  static int storage[2];
  const LatencyModel latency = PowersOfTwo();
  DriverTable table = SucceedingTable();
  table.EventElapsedTime = [](float* milliseconds, CuEvent start, CuEvent) {
    *milliseconds = 42;
    return start == nullptr ? CuResult::kNotReady : CuResult::kSuccess;
  };
  const auto ledger = MakeLedger(table, {.latency = &latency});
  const DriverTable& driver = ledger->driver().table();
  const auto start = reinterpret_cast<CuEvent>(&storage[0]);
  const auto end = reinterpret_cast<CuEvent>(&storage[1]);
  const auto elapsed = [&](CuEvent from, CuEvent to) {
    float milliseconds = 0;
    driver.EventElapsedTime(&milliseconds, from, to);
    return milliseconds;
  };
  driver.EventRecord(start, nullptr);
  driver.EventRecord(nullptr, nullptr);
  EXPECT_EQ(elapsed(start, end), 42) << "the ledger saw no record of one";
  driver.GraphLaunch(nullptr, nullptr);
  driver.EventRecord(end, nullptr);
  EXPECT_FLOAT_EQ(elapsed(start, end), 0.035F) << "two records, a question and a launch";
  EXPECT_FLOAT_EQ(elapsed(end, start), -0.035F);
  EXPECT_EQ(elapsed(nullptr, end), 42) << "the driver says when there is an answer";
  driver.EventRecord(start, nullptr);
  EXPECT_LT(elapsed(start, end), 0) << "the last record counts";
  driver.EventDestroy(start);
  EXPECT_EQ(elapsed(start, end), 42);
}

TEST_F(DriverLedgerTest, EventsAreApartByTheDriversTimeWithoutAModel) {
  DriverTable table = SucceedingTable();
  table.EventElapsedTime = [](float* milliseconds, CuEvent, CuEvent) {
    *milliseconds = 42;
    return CuResult::kSuccess;
  };
  const auto ledger = MakeLedger(table);
  const DriverTable& driver = ledger->driver().table();
  driver.EventRecord(nullptr, nullptr);
  float milliseconds = 0;
  driver.EventElapsedTime(&milliseconds, nullptr, nullptr);
  EXPECT_EQ(milliseconds, 42);
}

TEST_F(DriverLedgerTest, ModelledTimeIsZeroWithoutAModel) {
  const auto ledger = MakeLedger(SucceedingTable());
  ledger->driver().table().GraphLaunch(nullptr, nullptr);
  EXPECT_EQ(ledger->modelled_us(), 0);
}

TEST_F(DriverLedgerTest, MappedBytesAreThoseInsideTheRange) {
  const auto ledger = MakeLedger(MemoryTable());
  Map(*ledger, 0x10000, 4 * kPage);  // Up to 0x14000.
  Map(*ledger, 0x20000, 2 * kPage);  // Up to 0x22000.
  EXPECT_EQ(ledger->MappedBytes(0, 0x100000), 6 * 4096);
  EXPECT_EQ(ledger->MappedBytes(0x10000, 0x4000), 4 * 4096);
  EXPECT_EQ(ledger->MappedBytes(0x11000, 0x1000), 4096) << "inside one mapping";
  EXPECT_EQ(ledger->MappedBytes(0x13000, 0xE000), 2 * 4096) << "the end of one, the start of one";
  EXPECT_EQ(ledger->MappedBytes(0x14000, 0xC000), 0) << "between the two";
  EXPECT_EQ(ledger->MappedBytes(0x22000, 0x1000), 0);
  EXPECT_EQ(ledger->MappedBytes(0, 0x10000), 0);
}

TEST_F(DriverLedgerTest, UnmappedBytesAreStruckOut) {
  const auto ledger = MakeLedger(MemoryTable());
  Map(*ledger, 0x10000, kPage);
  Map(*ledger, 0x11000, kPage);
  Map(*ledger, 0x12000, kPage);
  EXPECT_OK(ledger->driver().Call<&DriverTable::MemUnmap>(CuDeviceAddress{0x10000}, 2 * kPage));
  EXPECT_EQ(ledger->MappedBytes(0x10000, 0x10000), 4096);
  EXPECT_EQ(ledger->MappedBytes(0x12000, 0x1000), 4096);
}

TEST_F(DriverLedgerTest, CreatedAndAllocatedBytesAreThoseNotGivenBack) {
  const auto ledger = MakeLedger(MemoryTable());
  const DriverTable& driver = ledger->driver().table();
  CuMemoryHandle handles[2] = {};
  driver.MemCreate(&handles[0], 2 * kPage, nullptr, 0);
  driver.MemCreate(&handles[1], 3 * kPage, nullptr, 0);
  CuDeviceAddress addresses[2] = {};
  driver.MemAlloc(&addresses[0], 100);
  driver.MemAlloc(&addresses[1], 10);
  EXPECT_EQ(ledger->created_bytes(), 5 * 4096);
  EXPECT_EQ(ledger->allocated_bytes(), 110);
  driver.MemRelease(handles[0]);
  driver.MemFree(addresses[0]);
  EXPECT_EQ(ledger->created_bytes(), 3 * 4096);
  EXPECT_EQ(ledger->allocated_bytes(), 10);
}

TEST_F(DriverLedgerTest, FailedCallsLeaveTheMemoryBooksAlone) {
  DriverTable table = MemoryTable();
  table.MemRelease = [](CuMemoryHandle) { return CuResult::kInvalidValue; };
  table.MemFree = [](CuDeviceAddress) { return CuResult::kInvalidValue; };
  table.MemUnmap = [](CuDeviceAddress, size_t) { return CuResult::kInvalidValue; };
  const auto ledger = MakeLedger(table);
  const DriverTable& driver = ledger->driver().table();
  CuMemoryHandle handle = 0;
  driver.MemCreate(&handle, kPage, nullptr, 0);
  driver.MemRelease(handle);
  EXPECT_EQ(ledger->created_bytes(), 4096);
  CuDeviceAddress address = 0;
  driver.MemAlloc(&address, 8);
  driver.MemFree(address);
  EXPECT_EQ(ledger->allocated_bytes(), 8);
  Map(*ledger, 0x10000, kPage);
  driver.MemUnmap(0x10000, kPage);
  EXPECT_EQ(ledger->MappedBytes(0x10000, 0x1000), 4096);
}

TEST_F(DriverLedgerTest, FailedAllocationsAreNotInTheBooks) {
  DriverTable table = MemoryTable();
  table.MemAlloc = [](CuDeviceAddress*, size_t) { return CuResult::kOutOfMemory; };
  table.MemCreate = [](CuMemoryHandle*, size_t, const CuMemAllocationProperties*,
                       unsigned long long) { return CuResult::kOutOfMemory; };
  const auto ledger = MakeLedger(table);
  CuDeviceAddress address = 0;
  ledger->driver().table().MemAlloc(&address, kPage);
  CuMemoryHandle handle = 0;
  ledger->driver().table().MemCreate(&handle, kPage, nullptr, 0);
  EXPECT_EQ(ledger->allocated_bytes(), 0);
  EXPECT_EQ(ledger->created_bytes(), 0);
}

TEST_F(DriverLedgerTest, TraceHoldsEntriesAndResultsInOrderSinceTheLastOne) {
  DriverTable table = SucceedingTable();
  table.EventQuery = [](CuEvent) { return CuResult::kNotReady; };
  const auto ledger = MakeLedger(table, {.trace = true});
  ledger->driver().table().GraphLaunch(nullptr, nullptr);
  ledger->driver().table().EventQuery(nullptr);
  const std::vector<DriverLedger::TracedCall> trace = ledger->TakeTrace();
  ASSERT_EQ(trace.size(), 2U);
  EXPECT_EQ(std::string(DriverEntryAt(trace[0].entry).symbol), "cuGraphLaunch");
  EXPECT_EQ(trace[0].result, CuResult::kSuccess);
  EXPECT_EQ(std::string(DriverEntryAt(trace[1].entry).symbol), "cuEventQuery");
  EXPECT_EQ(trace[1].result, CuResult::kNotReady);
  EXPECT_THAT(ledger->TakeTrace(), IsEmpty());
}

TEST_F(DriverLedgerTest, TraceIsEmptyUnlessAskedFor) {
  const auto ledger = MakeLedger(SucceedingTable());
  ledger->driver().table().GraphLaunch(nullptr, nullptr);
  EXPECT_THAT(ledger->TakeTrace(), IsEmpty());
}

// The results of `count` calls of cuStreamQuery.
std::vector<CuResult> QueryResults(const DriverLedger& ledger, int count) {
  std::vector<CuResult> results;
  for (int i = 0; i < count; ++i)
    results.push_back(ledger.driver().table().StreamQuery(nullptr));
  return results;
}

TEST_F(DriverLedgerTest, FaultFailsTheNthCallFromTheInjectionOnce) {
  const auto ledger = MakeLedger(SucceedingTable());
  (void)QueryResults(*ledger, 2);
  ledger->Inject({.nth = 3, .result = CuResult::kOutOfMemory});
  EXPECT_THAT(QueryResults(*ledger, 5),
              ElementsAre(CuResult::kSuccess, CuResult::kSuccess, CuResult::kOutOfMemory,
                          CuResult::kSuccess, CuResult::kSuccess));
}

TEST_F(DriverLedgerTest, FaultForEverFailsAllLaterCallsUntilCleared) {
  const auto ledger = MakeLedger(SucceedingTable());
  ledger->Inject({.nth = 2, .result = CuResult::kLaunchFailed, .forever = true});
  EXPECT_THAT(QueryResults(*ledger, 4),
              ElementsAre(CuResult::kSuccess, CuResult::kLaunchFailed, CuResult::kLaunchFailed,
                          CuResult::kLaunchFailed));
  ledger->ClearFaults();
  EXPECT_THAT(QueryResults(*ledger, 2), Each(CuResult::kSuccess));
}

TEST_F(DriverLedgerTest, FaultedCountsTheCallsThatFaultsMadeFailAndNoOther) {
  DriverTable table = SucceedingTable();
  table.EventQuery = [](CuEvent) { return CuResult::kNotReady; };
  const auto ledger = MakeLedger(table);
  ledger->driver().table().EventQuery(nullptr);
  EXPECT_EQ(ledger->faulted(), 0);
  ledger->Inject({.nth = 3, .result = CuResult::kLaunchFailed, .forever = true});
  ledger->Inject({.nth = 3, .result = CuResult::kOutOfMemory});
  (void)QueryResults(*ledger, 4);
  EXPECT_EQ(ledger->faulted(), 2) << "the third, by both, and the fourth";
  ledger->ClearFaults();
  (void)QueryResults(*ledger, 2);
  EXPECT_EQ(ledger->faulted(), 2);
}

TEST_F(DriverLedgerTest, FaultOfAnEntryCountsAndFailsItsCallsAlone) {
  const auto ledger = MakeLedger(SucceedingTable());
  const DriverTable& driver = ledger->driver().table();
  const int map = DriverLedger::IndexOf(&DriverTable::MemMap);
  ledger->Inject({.entry = map, .nth = 2, .result = CuResult::kOutOfMemory});
  EXPECT_EQ(driver.MemMap(0x10000, kPage, 0, 1, 0), CuResult::kSuccess);
  EXPECT_THAT(QueryResults(*ledger, 2), Each(CuResult::kSuccess));
  EXPECT_EQ(driver.MemMap(0x20000, kPage, 0, 1, 0), CuResult::kOutOfMemory);
  EXPECT_EQ(driver.MemMap(0x20000, kPage, 0, 1, 0), CuResult::kSuccess);
}

TEST_F(DriverLedgerTest, FirstInjectedOfSeveralFaultsNamesTheResultAndAllCount) {
  const auto ledger = MakeLedger(SucceedingTable());
  ledger->Inject({.nth = 1, .result = CuResult::kOutOfMemory});
  ledger->Inject({.nth = 1, .result = CuResult::kLaunchFailed});
  ledger->Inject({.nth = 2, .result = CuResult::kNotFound});
  EXPECT_THAT(QueryResults(*ledger, 3),
              ElementsAre(CuResult::kOutOfMemory, CuResult::kNotFound, CuResult::kSuccess));
}

TEST_F(DriverLedgerTest, FaultyCallIsCountedAndTracedWithTheResultThatItReports) {
  const auto ledger = MakeLedger(SucceedingTable(), {.trace = true});
  ledger->Inject({.result = CuResult::kOutOfMemory});
  (void)QueryResults(*ledger, 1);
  EXPECT_EQ(ledger->calls(&DriverTable::StreamQuery), 1);
  const std::vector<DriverLedger::TracedCall> trace = ledger->TakeTrace();
  ASSERT_EQ(trace.size(), 1U);
  EXPECT_EQ(trace[0].result, CuResult::kOutOfMemory);
}

TEST_F(DriverLedgerTest, FaultyCallDoesNotReachTheDriverAndLeavesTheMemoryBooksAlone) {
  DriverTable table = MemoryTable();
  table.MemMap = [](CuDeviceAddress, size_t, size_t, CuMemoryHandle, unsigned long long) {
    ADD_FAILURE() << "the driver was called";
    return CuResult::kSuccess;
  };
  const auto ledger = MakeLedger(table);
  const DriverTable& driver = ledger->driver().table();
  ledger->Inject({.result = CuResult::kOutOfMemory, .forever = true});
  CuMemoryHandle handle = 0;
  CuDeviceAddress address = 0;
  EXPECT_EQ(driver.MemCreate(&handle, kPage, nullptr, 0), CuResult::kOutOfMemory);
  EXPECT_EQ(driver.MemAlloc(&address, kPage), CuResult::kOutOfMemory);
  EXPECT_EQ(driver.MemMap(0x10000, kPage, 0, 1, 0), CuResult::kOutOfMemory);
  EXPECT_EQ(handle, 0U);
  EXPECT_EQ(address, 0U);
  EXPECT_EQ(ledger->created_bytes(), 0);
  EXPECT_EQ(ledger->allocated_bytes(), 0);
  EXPECT_EQ(ledger->MappedBytes(0, 0x100000), 0);
}

TEST_F(DriverLedgerTest, FaultyCallThatGivesBackReachesTheDriverAndTheMemoryBooks) {
  static int given_back = 0;
  given_back = 0;
  DriverTable table = MemoryTable();
  constexpr auto count = [](auto...) {
    ++given_back;
    return CuResult::kSuccess;
  };
  table.DevicePrimaryCtxRelease = count;
  table.MemFree = count;
  table.MemFreeHost = count;
  table.MemAddressFree = count;
  table.MemRelease = count;
  table.MemUnmap = count;
  table.StreamDestroy = count;
  table.StreamEndCapture = count;
  table.EventDestroy = count;
  table.LibraryUnload = count;
  table.GraphDestroy = count;
  table.GraphExecDestroy = count;
  const auto ledger = MakeLedger(table);
  const DriverTable& driver = ledger->driver().table();
  CuMemoryHandle handle = 0;
  driver.MemCreate(&handle, kPage, nullptr, 0);
  CuDeviceAddress address = 0;
  driver.MemAlloc(&address, kPage);
  Map(*ledger, 0x10000, kPage);
  ledger->Inject({.result = CuResult::kLaunchFailed, .forever = true});
  CuGraph graph = nullptr;
  const std::vector<CuResult> results = {driver.MemFree(address),
                                         driver.MemFreeHost(nullptr),
                                         driver.MemUnmap(0x10000, kPage),
                                         driver.MemRelease(handle),
                                         driver.MemAddressFree(0x10000, kPage),
                                         driver.StreamDestroy(nullptr),
                                         driver.EventDestroy(nullptr),
                                         driver.LibraryUnload(nullptr),
                                         driver.GraphExecDestroy(nullptr),
                                         driver.GraphDestroy(nullptr),
                                         driver.DevicePrimaryCtxRelease(0),
                                         driver.StreamEndCapture(nullptr, &graph)};
  EXPECT_THAT(results, Each(CuResult::kLaunchFailed));
  EXPECT_EQ(given_back, static_cast<int>(results.size()));
  EXPECT_EQ(ledger->created_bytes(), 0);
  EXPECT_EQ(ledger->allocated_bytes(), 0);
  EXPECT_EQ(ledger->MappedBytes(0, 0x100000), 0);
}

TEST_F(DriverLedgerTest, GraphOfACaptureWhoseEndFailsIsDestroyed) {
  static CuGraph destroyed = nullptr;
  DriverTable table = SucceedingTable();
  static int graph_storage = 0;
  table.StreamEndCapture = [](CuStream, CuGraph* graph) {
    *graph = reinterpret_cast<CuGraph>(&graph_storage);
    return CuResult::kSuccess;
  };
  table.GraphDestroy = [](CuGraph graph) {
    destroyed = graph;
    return CuResult::kSuccess;
  };
  const auto ledger = MakeLedger(table);
  ledger->Inject({.result = CuResult::kOutOfMemory});
  CuGraph graph = nullptr;
  EXPECT_EQ(ledger->driver().table().StreamEndCapture(nullptr, &graph), CuResult::kOutOfMemory);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(destroyed, reinterpret_cast<CuGraph>(&graph_storage));
}

TEST_F(DriverLedgerTest, FaultFailsOneCallAmongThoseOfAllThreads) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 1000;
  const auto ledger = MakeLedger(SucceedingTable());
  ledger->Inject({.nth = kThreads * kCalls / 2, .result = CuResult::kOutOfMemory});
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (const CuResult result : QueryResults(*ledger, kCalls))
          failures += result == CuResult::kOutOfMemory ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(failures, 1);
}

using DriverLedgerDeathTest = DriverLedgerTest;

TEST_F(DriverLedgerDeathTest, FaultMustBeAsDescribed) {
  const auto ledger = MakeLedger(SucceedingTable());
  EXPECT_DEATH(ledger->Inject({.entry = -2}), "no such driver entry");
  EXPECT_DEATH(ledger->Inject({.entry = kDriverEntryCount}), "no such driver entry");
  EXPECT_DEATH(ledger->Inject({.nth = 0}), "the first call is number 1");
  EXPECT_DEATH(ledger->Inject({.result = CuResult::kSuccess}), "a fault is not a success");
}

TEST_F(DriverLedgerDeathTest, WrappedDriverDiesWithTheLedger) {
  auto ledger = MakeLedger(SucceedingTable());
  const Driver wrapped = ledger->driver();
  ledger.reset();
  EXPECT_DEATH(wrapped.table().GraphLaunch(nullptr, nullptr), "the ledger of this driver is gone");
}

}  // namespace
}  // namespace coppice
