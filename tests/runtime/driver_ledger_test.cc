// Goal: the ledger changes nothing that a driver does, and its books agree with what was called.
// Method: an inner table of test functions whose results and handles the test chooses.

#include "coppice/runtime/driver_ledger.h"

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/status_matchers.h"
#include "tests/support/succeeding_table.h"

namespace coppice {
namespace {

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

using DriverLedgerDeathTest = DriverLedgerTest;

TEST_F(DriverLedgerDeathTest, WrappedDriverDiesWithTheLedger) {
  auto ledger = MakeLedger(SucceedingTable());
  const Driver wrapped = ledger->driver();
  ledger.reset();
  EXPECT_DEATH(wrapped.table().GraphLaunch(nullptr, nullptr), "the ledger of this driver is gone");
}

}  // namespace
}  // namespace coppice
