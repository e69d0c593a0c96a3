// Goal: the owners own exactly once, order work as CUDA does, and never break somebody's capture.
// Method: an emulated device with a ledger, which counts what reaches the driver.

#include "coppice/runtime/stream.h"

#include "tests/support/succeeding_table.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

class StreamTest : public testing::Test {
 protected:
  template <typename Function>
  int64_t Calls(Function DriverTable::*entry) {
    return device_.ledger().calls(entry);
  }

  // Asks the driver for the calling thread's capture mode by exchanging it twice.
  CuCaptureMode ThreadMode() {
    CuCaptureMode mode = CuCaptureMode::kGlobal;
    EXPECT_OK(driver_.Call<&DriverTable::ThreadExchangeStreamCaptureMode>(&mode));
    CuCaptureMode back = mode;
    EXPECT_OK(driver_.Call<&DriverTable::ThreadExchangeStreamCaptureMode>(&back));
    return mode;
  }

  TestDevice device_{DriverLedger::Options{}};
  const Driver& driver_ = device_.driver();
};

using ContextTest = StreamTest;
using EventTest = StreamTest;
using DeviceMemoryTest = StreamTest;
using AllocationIdTest = StreamTest;
using RelaxedCaptureScopeTest = StreamTest;

TEST_F(ContextTest, CreateRetainsAndMakesCurrent) {
  CuContext current = nullptr;
  ASSERT_OK(driver_.Call<&DriverTable::CtxGetCurrent>(&current));
  EXPECT_EQ(current, device_.context().handle());
  EXPECT_EQ(device_.emulator().live().contexts, 1);
}

TEST_F(ContextTest, ReleasesOnceHoweverOftenItMoves) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(Context first, Context::Create(driver_));
    EXPECT_EQ(device_.emulator().live().contexts, 2);
    const Context second = std::move(first);
    EXPECT_EQ(&second.driver(), &driver_);
    EXPECT_EQ(second.device(), device_.context().device());
  }
  EXPECT_EQ(device_.emulator().live().contexts, 1);
}

TEST_F(ContextTest, AbsentDeviceIsUnavailable) {
  EXPECT_THAT(Context::Create(driver_, 1), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Context::Create(driver_, -1), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ContextTest, EveryThreadNeedsItMadeCurrent) {
  std::jthread([this] {
    EXPECT_EQ(CuResultOf(Stream::Create(driver_).status()), CuResult::kInvalidContext);
    EXPECT_OK(device_.context().MakeCurrent());
    EXPECT_OK(Stream::Create(driver_));
  }).join();
}

TEST_F(ContextTest, NamesTheDeviceAndItsMemory) {
  EXPECT_FALSE(device_.context().DeviceName().empty());
  COPPICE_ASSERT_OK_AND_ASSIGN(const int64_t bytes, device_.context().TotalMemory());
  EXPECT_EQ(bytes, TestEmulatorOptions().memory_bytes);
}

TEST(ContextFailureTest, DeviceWithoutANameHasAnEmptyOne) {
  DriverTable table = SucceedingTable();
  table.DeviceGetCount = [](int* count) {
    *count = 1;
    return CuResult::kSuccess;
  };
  table.DeviceGetName = [](char*, int, CuDevice) { return CuResult::kInvalidDevice; };
  const Driver driver(table, DriverKind::kEmulator);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Context context, Context::Create(driver));
  EXPECT_EQ(context.DeviceName(), "");
}

TEST_F(StreamTest, IsNonBlocking) {
  DriverTable table = SucceedingTable();
  table.StreamCreate = [](CuStream*, unsigned flags) {
    return flags == kStreamNonBlocking ? CuResult::kSuccess : CuResult::kInvalidValue;
  };
  const Driver driver(table, DriverKind::kEmulator);
  EXPECT_OK(Stream::Create(driver));
}

TEST_F(StreamTest, IsDestroyedOnceHoweverOftenItMoves) {
  const int64_t streams = device_.emulator().live().streams;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(Stream first, Stream::Create(driver_));
    const Stream second = std::move(first);
    EXPECT_NE(second.handle(), nullptr);
    EXPECT_EQ(device_.emulator().live().streams, streams + 1);
  }
  EXPECT_EQ(device_.emulator().live().streams, streams);
  EXPECT_EQ(Calls(&DriverTable::StreamDestroy), 1);
}

TEST_F(EventTest, OrdersStreamsByItsMark) {
  // The copy must not run before the fill, whatever order the emulator draws.
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream other, Stream::Create(driver_));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event event, Event::Create(driver_));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, DeviceMemory::Create(driver_, 4));
  int32_t value = 0;
  void* const target = &value;
  ASSERT_OK(driver_.Call<&DriverTable::MemsetD8Async>(memory.address(), uint8_t{7}, size_t{4},
                                                      other.handle()));
  ASSERT_OK(event.Record(other.handle()));
  ASSERT_OK(event.MakeWait(device_.stream()));
  ASSERT_OK(driver_.Call<&DriverTable::MemcpyDtoHAsync>(target, memory.address(), size_t{4},
                                                        device_.stream()));
  ASSERT_OK(device_.Synchronize());
  EXPECT_EQ(value, 0x07070707);
}

TEST_F(EventTest, CompleteTellsNotYetFromFailure) {
  DriverTable table = SucceedingTable();
  table.EventCreate = [](CuEvent* event, unsigned flags) {
    *event = reinterpret_cast<CuEvent>(8);
    return flags == kEventDisableTiming ? CuResult::kSuccess : CuResult::kInvalidValue;
  };
  table.EventQuery = [](CuEvent) { return CuResult::kNotReady; };
  const Driver pending(table, DriverKind::kEmulator);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event event, Event::Create(pending));
  COPPICE_ASSERT_OK_AND_ASSIGN(const bool complete, event.Complete());
  EXPECT_FALSE(complete);

  table.EventQuery = [](CuEvent) { return CuResult::kIllegalAddress; };
  const Driver broken(table, DriverKind::kEmulator);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event other, Event::Create(broken));
  EXPECT_EQ(CuResultOf(other.Complete().status()), CuResult::kIllegalAddress);
}

TEST_F(EventTest, ElapsedTimeIsThatOfTheWorkBetweenTwoMarks) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event start, Event::Create(driver_, Event::Timing::kOn));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event end, Event::Create(driver_, Event::Timing::kOn));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, DeviceMemory::Create(driver_, 4));
  ASSERT_OK(start.Record(device_.stream()));
  for (int i = 0; i < 20; ++i)
    ASSERT_OK(driver_.Call<&DriverTable::MemsetD8Async>(memory.address(), uint8_t{7}, size_t{4},
                                                        device_.stream()));
  ASSERT_OK(end.Record(device_.stream()));
  EXPECT_THAT(end.ElapsedUs(start), StatusIs(kRefused));
  ASSERT_OK(end.Synchronize());
  COPPICE_ASSERT_OK_AND_ASSIGN(const double elapsed_us, end.ElapsedUs(start));
  EXPECT_NEAR(elapsed_us, 20, 0.001) << "the emulator's clock counts operations";
}

TEST_F(EventTest, ElapsedTimeNeedsTimingAndARecord) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event timed, Event::Create(driver_, Event::Timing::kOn));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event untimed, Event::Create(driver_));
  ASSERT_OK(untimed.Record(device_.stream()));
  EXPECT_THAT(timed.ElapsedUs(timed), StatusIs(kWrongArgument));
  ASSERT_OK(timed.Record(device_.stream()));
  EXPECT_OK(timed.ElapsedUs(timed));
  EXPECT_THAT(timed.ElapsedUs(untimed), StatusIs(kWrongArgument));
  EXPECT_THAT(untimed.ElapsedUs(timed), StatusIs(kWrongArgument));
}

TEST_F(EventTest, IsDestroyedOnceHoweverOftenItMoves) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(Event first, Event::Create(driver_));
    const Event second = std::move(first);
    EXPECT_EQ(device_.emulator().live().events, 1);
  }
  EXPECT_EQ(device_.emulator().live().events, 0);
  EXPECT_EQ(Calls(&DriverTable::EventDestroy), 1);
}

TEST_F(DeviceMemoryTest, HoldsItsBytesUntilItGoes) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(DeviceMemory first, DeviceMemory::Create(driver_, 1000));
    EXPECT_EQ(first.bytes(), 1000);
    EXPECT_TRUE(device_.emulator().Readable(first.address(), 1000));
    const DeviceMemory second = std::move(first);
    EXPECT_EQ(device_.emulator().live().allocations, 1);
    EXPECT_EQ(device_.ledger().allocated_bytes(), 1000);
  }
  EXPECT_EQ(device_.emulator().live().allocations, 0);
  EXPECT_EQ(Calls(&DriverTable::MemFree), 1);
}

TEST_F(DeviceMemoryTest, RefusesSizesBelowOneByteAndBeyondTheDevice) {
  EXPECT_THAT(DeviceMemory::Create(driver_, 0), StatusIs(kWrongArgument));
  EXPECT_THAT(DeviceMemory::Create(driver_, -1), StatusIs(kWrongArgument));
  EXPECT_THAT(DeviceMemory::Create(driver_, TestEmulatorOptions().memory_bytes + 1),
              StatusIs(kExhausted));
}

TEST_F(AllocationIdTest, TellsLiveAllocationsFromEachOtherAndFromThoseBefore) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 3; ++i) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, DeviceMemory::Create(driver_, 100));
    COPPICE_ASSERT_OK_AND_ASSIGN(const uint64_t id, AllocationIdOf(driver_, memory.address()));
    EXPECT_TRUE(ids.insert(id).second);
    COPPICE_ASSERT_OK_AND_ASSIGN(const uint64_t last,
                                 AllocationIdOf(driver_, memory.address() + 99));
    EXPECT_EQ(last, id);
  }
}

TEST_F(AllocationIdTest, AddressInNoLiveAllocationIsNotFound) {
  DeviceAddress freed = 0;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, DeviceMemory::Create(driver_, 100));
    freed = memory.address();
  }
  EXPECT_THAT(AllocationIdOf(driver_, freed), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(AllocationIdOf(driver_, 0), StatusIs(absl::StatusCode::kNotFound));
}

TEST(AllocationIdFailureTest, OtherErrorsAreTheDriversOwn) {
  DriverTable table = SucceedingTable();
  table.PointerGetAttribute = [](void*, CuPointerAttribute, CuDeviceAddress) {
    return CuResult::kIllegalAddress;
  };
  const Driver driver(table, DriverKind::kEmulator);
  EXPECT_EQ(CuResultOf(AllocationIdOf(driver, 0).status()), CuResult::kIllegalAddress);
}

TEST_F(StreamTest, CapturesFromTheBeginOfACaptureToItsEndEvenIfItWasInvalidated) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(driver_));
  EXPECT_EQ(*IsCapturing(driver_, stream.handle()), false);
  ASSERT_OK(
      driver_.Call<&DriverTable::StreamBeginCapture>(stream.handle(), CuCaptureMode::kThreadLocal));
  EXPECT_EQ(*IsCapturing(driver_, stream.handle()), true);
  EXPECT_FALSE(stream.Synchronize().ok());
  EXPECT_EQ(*IsCapturing(driver_, stream.handle()), true);
  CuGraph graph = nullptr;
  EXPECT_EQ(driver_.table().StreamEndCapture(stream.handle(), &graph),
            CuResult::kStreamCaptureInvalidated);
  EXPECT_EQ(*IsCapturing(driver_, stream.handle()), false);
}

TEST_F(RelaxedCaptureScopeTest, RestoresTheModeOfTheThread) {
  CuCaptureMode mode = CuCaptureMode::kThreadLocal;
  ASSERT_OK(driver_.Call<&DriverTable::ThreadExchangeStreamCaptureMode>(&mode));
  {
    const RelaxedCaptureScope outer(driver_);
    EXPECT_EQ(ThreadMode(), CuCaptureMode::kRelaxed);
    { const RelaxedCaptureScope inner(driver_); }
    EXPECT_EQ(ThreadMode(), CuCaptureMode::kRelaxed);
  }
  EXPECT_EQ(ThreadMode(), CuCaptureMode::kThreadLocal);
  ASSERT_OK(driver_.Call<&DriverTable::ThreadExchangeStreamCaptureMode>(&mode));
}

TEST(RelaxedCaptureScopeFailureTest, RestoresNothingIfTheDriverRefusedTheExchange) {
  static int exchanges = 0;
  DriverTable table = SucceedingTable();
  table.ThreadExchangeStreamCaptureMode = [](CuCaptureMode*) {
    ++exchanges;
    return CuResult::kNotInitialized;
  };
  const Driver driver(table, DriverKind::kEmulator);
  { const RelaxedCaptureScope scope(driver); }
  EXPECT_EQ(exchanges, 1);
}

TEST_F(RelaxedCaptureScopeTest, OwnersDoNotBreakACaptureOfTheApplication) {
  std::optional<Event> event = *Event::Create(driver_, Event::Timing::kOn);
  std::optional<Stream> other = *Stream::Create(driver_);
  ASSERT_OK(event->Record(other->handle()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory memory, DeviceMemory::Create(driver_, 16));
  const CuStream application = device_.stream();
  ASSERT_OK(driver_.Call<&DriverTable::StreamBeginCapture>(application, CuCaptureMode::kGlobal));
  // Every one of these is forbidden to a thread in the default mode.
  EXPECT_OK(event->Complete());
  EXPECT_OK(event->Synchronize());
  EXPECT_OK(event->ElapsedUs(*event));
  EXPECT_OK(other->Synchronize());
  event.reset();
  other.reset();
  EXPECT_OK(DeviceMemory::Create(driver_, 16));
  EXPECT_OK(AllocationIdOf(driver_, memory.address()));
  EXPECT_OK(Stream::Create(driver_));
  CuGraph graph = nullptr;
  EXPECT_OK(driver_.Call<&DriverTable::StreamEndCapture>(application, &graph));
  EXPECT_OK(driver_.Call<&DriverTable::GraphDestroy>(graph));
}

}  // namespace
}  // namespace coppice
