// Goal: device, memory, virtual memory, streams, events and launches behave as CUDA documents.
// Method: one small test per documented rule, on every driver.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

// Device and context.

class DeviceConformanceTest : public ConformanceTest {};
COPPICE_CONFORMANCE_SUITE(DeviceConformanceTest);

TEST_P(DeviceConformanceTest, InitTakesNoFlags) {
  EXPECT_CU(kInvalidValue, cu.Init(1));
}

TEST_P(DeviceConformanceTest, ErrorNamesAreCudasAndUnknownErrorsHaveNone) {
  const char* name = nullptr;
  EXPECT_CU(kSuccess, cu.GetErrorName(CuResult::kIllegalAddress, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_CU(kInvalidValue, cu.GetErrorName(static_cast<CuResult>(123456), &name));
  EXPECT_EQ(name, nullptr);
}

TEST_P(DeviceConformanceTest, OrdinalsOutsideTheCountAreInvalidDevices) {
  int count = 0;
  ASSERT_CU(kSuccess, cu.DeviceGetCount(&count));
  CuDevice device = 0;
  EXPECT_CU(kSuccess, cu.DeviceGet(&device, count - 1));
  EXPECT_CU(kInvalidDevice, cu.DeviceGet(&device, count));
  EXPECT_CU(kInvalidDevice, cu.DeviceGet(&device, -1));
}

TEST_P(DeviceConformanceTest, DeviceNameIsCutToTheCapacity) {
  char name[4] = {'x', 'x', 'x', 'x'};
  ASSERT_CU(kSuccess, cu.DeviceGetName(name, 3, 0));
  EXPECT_EQ(std::string(name).size(), 2U);
  EXPECT_EQ(name[3], 'x');
}

TEST_P(DeviceConformanceTest, ReportsWhatCoppiceNeedsOfADevice) {
  int value = 0;
  ASSERT_CU(kSuccess,
            cu.DeviceGetAttribute(&value, CuDeviceAttribute::kVirtualMemoryManagementSupported, 0));
  EXPECT_EQ(value, 1);
  ASSERT_CU(kSuccess, cu.DriverGetVersion(&value));
  EXPECT_GE(value, 12030);
}

TEST_P(DeviceConformanceTest, ThreadWithoutContextIsRefused) {
  std::thread([&] {
    DeviceAddress address = 0;
    CuStream stream = nullptr;
    EXPECT_CU(kInvalidContext, cu.MemAlloc(&address, 1));
    EXPECT_CU(kInvalidContext, cu.StreamCreate(&stream, 0));
    EXPECT_CU(kInvalidContext, cu.CtxSynchronize());
  }).join();
}

TEST_P(DeviceConformanceTest, CurrentContextBelongsToTheThread) {
  std::thread([&] {
    CuContext current = context;
    EXPECT_CU(kSuccess, cu.CtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
    EXPECT_CU(kSuccess, cu.CtxGetCurrent(&current));
    EXPECT_EQ(current, context);
  }).join();
}

TEST_P(DeviceConformanceTest, PrimaryContextIsCounted) {
  CuContext again = nullptr;
  ASSERT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context);
  EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
}

// Plain memory and copies.

class MemoryConformanceTest : public ConformanceTest {};
COPPICE_CONFORMANCE_SUITE(MemoryConformanceTest);

TEST_P(MemoryConformanceTest, RefusesToAllocateNothing) {
  DeviceAddress address = 0;
  EXPECT_CU(kInvalidValue, cu.MemAlloc(&address, 0));
  EXPECT_CU(kInvalidValue, cu.MemAlloc(nullptr, 1));
}

TEST_P(MemoryConformanceTest, AllocationsAreAlignedToTheBufferAlignment) {
  for (const int64_t count : {1, 3, 100, 513})
    EXPECT_EQ(NewWords(count) % kBufferAlignment, 0U) << count << " words";
}

TEST_P(MemoryConformanceTest, FreeTakesOnlyTheStartOfAnAllocation) {
  const DeviceAddress words = NewWords(64);
  EXPECT_CU(kInvalidValue, cu.MemFree(words + kBufferAlignment));
}

TEST_P(MemoryConformanceTest, AllocatingMoreThanThereIsFailsAndChangesNothing) {
  size_t free_before = 0;
  size_t free_after = 0;
  size_t total = 0;
  ASSERT_CU(kSuccess, cu.MemGetInfo(&free_before, &total));
  EXPECT_LE(free_before, total);
  DeviceAddress address = 0;
  EXPECT_CU(kOutOfMemory, cu.MemAlloc(&address, 2 * total));
  EXPECT_EQ(address, 0U);
  ASSERT_CU(kSuccess, cu.MemGetInfo(&free_after, &total));
  if (GetParam().kind == DriverKind::kEmulator) {
    EXPECT_EQ(free_after, free_before);
  }
}

TEST_P(MemoryConformanceTest, CopiesThereAcrossAndBack) {
  const std::vector<int64_t> sent = {1, -2, 3};
  std::vector<int64_t> received(sent.size());
  const size_t bytes = sent.size() * sizeof(int64_t);
  const DeviceAddress source = NewWords(3);
  const DeviceAddress target = NewWords(3);
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(source, sent.data(), bytes, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoDAsync(target, source, bytes, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(received.data(), target, bytes, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(received, sent);
}

TEST_P(MemoryConformanceTest, FillsByBytesAndByWords) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0x11, 8, a));
  EXPECT_CU(kSuccess, cu.MemsetD32Async(words + 8, 0x22334455, 2, a));
  EXPECT_EQ(Word(words), 0x1111111111111111);
  EXPECT_EQ(Word(words + 8), 0x2233445522334455);
}

TEST_P(MemoryConformanceTest, WordFillsAreAligned) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kInvalidValue, cu.MemsetD32Async(words + 1, 0, 1, a));
}

TEST_P(MemoryConformanceTest, CopiesOfNothingSucceed) {
  const DeviceAddress words = NewWords(1);
  int64_t host = 7;
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(words, &host, 0, a));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&host, words, 0, a));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 1, 0, a));
  EXPECT_EQ(Word(words), 0);
  EXPECT_EQ(host, 7);
}

TEST_P(MemoryConformanceTest, CopiesAndFillsOfMemoryThatIsNotMappedAreRefusedAtTheCall) {
  DeviceAddress reserved = 0;
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&reserved, kGranule, 0, 0, 0));
  const DeviceAddress words = NewWords(1);
  EXPECT_CU(kInvalidValue, cu.MemsetD8Async(reserved, 0, 8, a));
  EXPECT_CU(kInvalidValue, cu.MemcpyDtoDAsync(reserved, words, 8, a));
  EXPECT_CU(kInvalidValue, cu.MemcpyDtoDAsync(words, reserved, 8, a));
  EXPECT_CU(kSuccess, cu.MemAddressFree(reserved, kGranule));
}

// Virtual memory.

class VirtualMemoryConformanceTest : public ConformanceTest {
 protected:
  static CuMemAllocationProperties Properties() {
    return {.type = CuMemAllocationType::kPinned,
            .location = {.type = CuMemLocationType::kDevice, .id = 0}};
  }

  DeviceAddress Reserve(size_t granules) {
    DeviceAddress address = 0;
    EXPECT_CU(kSuccess, cu.MemAddressReserve(&address, granules * kGranule, 0, 0, 0));
    return address;
  }

  CuMemoryHandle Create(size_t granules) {
    const CuMemAllocationProperties properties = Properties();
    CuMemoryHandle handle = 0;
    EXPECT_CU(kSuccess, cu.MemCreate(&handle, granules * kGranule, &properties, 0));
    return handle;
  }

  CuResult Allow(DeviceAddress address, size_t granules, CuMemAccessFlags flags) {
    const CuMemAccessDescriptor access = {.location = {.type = CuMemLocationType::kDevice, .id = 0},
                                          .flags = flags};
    return cu.MemSetAccess(address, granules * kGranule, &access, 1);
  }

  void MapGranule(DeviceAddress address, CuMemoryHandle handle) {
    EXPECT_CU(kSuccess, cu.MemMap(address, kGranule, 0, handle, 0));
    EXPECT_CU(kSuccess, Allow(address, 1, CuMemAccessFlags::kReadWrite));
  }

  void UnmapGranule(DeviceAddress address) { EXPECT_CU(kSuccess, cu.MemUnmap(address, kGranule)); }
};
COPPICE_CONFORMANCE_SUITE(VirtualMemoryConformanceTest);

TEST_P(VirtualMemoryConformanceTest, GranularityIsTwoMebibytes) {
  const CuMemAllocationProperties properties = Properties();
  size_t bytes = 0;
  ASSERT_CU(kSuccess,
            cu.MemGetAllocationGranularity(&bytes, &properties, CuMemGranularity::kMinimum));
  EXPECT_EQ(bytes, kGranule);
  EXPECT_CU(kInvalidValue,
            cu.MemGetAllocationGranularity(&bytes, &properties, static_cast<CuMemGranularity>(7)));
}

TEST_P(VirtualMemoryConformanceTest, ReserveChecksSizeAlignmentAndFlags) {
  DeviceAddress address = 0;
  EXPECT_CU(kInvalidValue, cu.MemAddressReserve(&address, 0, 0, 0, 0));
  EXPECT_CU(kInvalidValue, cu.MemAddressReserve(&address, 1000, 0, 0, 0));
  EXPECT_CU(kInvalidValue, cu.MemAddressReserve(&address, kGranule, 3 * kGranule, 0, 0));
  EXPECT_CU(kInvalidValue, cu.MemAddressReserve(&address, kGranule, 0, 0, 1));
  EXPECT_CU(kInvalidValue, cu.MemAddressReserve(nullptr, kGranule, 0, 0, 0));
}

TEST_P(VirtualMemoryConformanceTest, ReserveHonoursTheAlignment) {
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&address, kGranule, 16 * kGranule, 0, 0));
  EXPECT_EQ(address % (16 * kGranule), 0U);
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
}

TEST_P(VirtualMemoryConformanceTest, ReservationIsFreedWhole) {
  const DeviceAddress address = Reserve(2);
  EXPECT_CU(kInvalidValue, cu.MemAddressFree(address, kGranule));
  EXPECT_CU(kInvalidValue, cu.MemAddressFree(address + kGranule, kGranule));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, 2 * kGranule));
}

TEST_P(VirtualMemoryConformanceTest, CreateChecksSizePropertiesAndFlags) {
  CuMemAllocationProperties properties = Properties();
  CuMemoryHandle handle = 0;
  EXPECT_CU(kInvalidValue, cu.MemCreate(&handle, 0, &properties, 0));
  EXPECT_CU(kInvalidValue, cu.MemCreate(&handle, kGranule / 2, &properties, 0));
  EXPECT_CU(kInvalidValue, cu.MemCreate(&handle, kGranule, &properties, 1));
  EXPECT_CU(kInvalidValue, cu.MemCreate(&handle, kGranule, nullptr, 0));
  properties.type = CuMemAllocationType::kInvalid;
  EXPECT_CU(kInvalidValue, cu.MemCreate(&handle, kGranule, &properties, 0));
}

TEST_P(VirtualMemoryConformanceTest, CreateFailsBeyondTheDevice) {
  size_t total = 0;
  ASSERT_CU(kSuccess, cu.DeviceTotalMem(&total, 0));
  const CuMemAllocationProperties properties = Properties();
  CuMemoryHandle handle = 0;
  EXPECT_CU(kOutOfMemory, cu.MemCreate(&handle, total / kGranule * kGranule * 2, &properties, 0));
}

TEST_P(VirtualMemoryConformanceTest, MapChecksOffsetSizeAlignmentAndFlags) {
  const DeviceAddress address = Reserve(4);
  const CuMemoryHandle handle = Create(2);
  EXPECT_CU(kInvalidValue, cu.MemMap(address, kGranule, kGranule, handle, 0)) << "offset";
  EXPECT_CU(kInvalidValue, cu.MemMap(address, 4 * kGranule, 0, handle, 0)) << "beyond the handle";
  EXPECT_CU(kInvalidValue, cu.MemMap(address, kGranule / 2, 0, handle, 0)) << "size";
  EXPECT_CU(kInvalidValue, cu.MemMap(address + 4096, kGranule, 0, handle, 0)) << "alignment";
  EXPECT_CU(kInvalidValue, cu.MemMap(address, kGranule, 0, handle, 1)) << "flags";
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, 4 * kGranule));
}

TEST_P(VirtualMemoryConformanceTest, MapNeedsFreeReservedAddresses) {
  const DeviceAddress address = Reserve(2);
  const CuMemoryHandle handle = Create(2);
  EXPECT_CU(kInvalidValue, cu.MemMap(address + kGranule, 2 * kGranule, 0, handle, 0));
  EXPECT_CU(kSuccess, cu.MemMap(address + kGranule, kGranule, 0, handle, 0));
  EXPECT_CU(kInvalidValue, cu.MemMap(address + kGranule, kGranule, 0, handle, 0));
  EXPECT_CU(kInvalidValue, cu.MemMap(address, 2 * kGranule, 0, handle, 0));
  UnmapGranule(address + kGranule);
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, 2 * kGranule));
}

TEST_P(VirtualMemoryConformanceTest, UnmapTakesWholeMappingsOnly) {
  const DeviceAddress address = Reserve(2);
  const CuMemoryHandle handle = Create(2);
  ASSERT_CU(kSuccess, cu.MemMap(address, 2 * kGranule, 0, handle, 0));
  EXPECT_CU(kInvalidValue, cu.MemUnmap(address, kGranule));
  EXPECT_CU(kInvalidValue, cu.MemUnmap(address + kGranule, kGranule));
  EXPECT_CU(kSuccess, cu.MemUnmap(address, 2 * kGranule));
  EXPECT_CU(kInvalidValue, cu.MemUnmap(address, 2 * kGranule));
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, 2 * kGranule));
}

TEST_P(VirtualMemoryConformanceTest, AccessIsSetOverConsecutiveMappings) {
  const DeviceAddress address = Reserve(3);
  const CuMemoryHandle first = Create(1);
  const CuMemoryHandle second = Create(1);
  ASSERT_CU(kSuccess, cu.MemMap(address, kGranule, 0, first, 0));
  ASSERT_CU(kSuccess, cu.MemMap(address + kGranule, kGranule, 0, second, 0));
  EXPECT_CU(kSuccess, Allow(address, 2, CuMemAccessFlags::kReadWrite));
  EXPECT_CU(kInvalidValue, Allow(address, 3, CuMemAccessFlags::kReadWrite)) << "a hole";
  const DeviceAddress across = address + kGranule - 4;
  EXPECT_CU(kSuccess, cu.MemsetD8Async(across, 1, 8, a));
  EXPECT_EQ(Word(across), 0x0101010101010101);
  for (const DeviceAddress mapped : {address, address + kGranule})
    UnmapGranule(mapped);
  for (const CuMemoryHandle handle : {first, second})
    EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, 3 * kGranule));
}

TEST_P(VirtualMemoryConformanceTest, AliasesShareTheirBytes) {
  const DeviceAddress address = Reserve(2);
  const CuMemoryHandle handle = Create(1);
  MapGranule(address, handle);
  MapGranule(address + kGranule, handle);
  EXPECT_CU(kSuccess, Store(a, address + 64, 42));
  EXPECT_EQ(Word(address + kGranule + 64), 42);
  UnmapGranule(address);
  UnmapGranule(address + kGranule);
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, 2 * kGranule));
}

TEST_P(VirtualMemoryConformanceTest, MappedBytesOutliveTheRelease) {
  const DeviceAddress address = Reserve(1);
  const CuMemoryHandle handle = Create(1);
  MapGranule(address, handle);
  EXPECT_CU(kSuccess, Store(a, address, 5));
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_EQ(Word(address), 5);
  UnmapGranule(address);
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
}

TEST_P(VirtualMemoryConformanceTest, BytesMoveWithTheirHandle) {
  const DeviceAddress address = Reserve(2);
  const CuMemoryHandle handle = Create(1);
  MapGranule(address, handle);
  EXPECT_CU(kSuccess, Store(a, address, 6));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  UnmapGranule(address);
  MapGranule(address + kGranule, handle);
  EXPECT_EQ(Word(address + kGranule), 6);
  UnmapGranule(address + kGranule);
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, 2 * kGranule));
}

TEST_P(VirtualMemoryConformanceTest, WorkAfterARemapSeesTheNewMemory) {
  const DeviceAddress address = Reserve(1);
  const CuMemoryHandle first = Create(1);
  const CuMemoryHandle second = Create(1);
  MapGranule(address, first);
  EXPECT_CU(kSuccess, Store(a, address, 1));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  UnmapGranule(address);
  MapGranule(address, second);
  EXPECT_CU(kSuccess, Store(a, address, 2));
  EXPECT_EQ(Word(address), 2);
  UnmapGranule(address);
  MapGranule(address, first);
  EXPECT_EQ(Word(address), 1);
  UnmapGranule(address);
  for (const CuMemoryHandle handle : {first, second})
    EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
}

// Streams and events.

class StreamConformanceTest : public ConformanceTest {};
COPPICE_CONFORMANCE_SUITE(StreamConformanceTest);

TEST_P(StreamConformanceTest, UnknownFlagsAreRefused) {
  CuStream stream = nullptr;
  CuEvent event = nullptr;
  EXPECT_CU(kInvalidValue, cu.StreamCreate(&stream, 0x80));
  EXPECT_CU(kInvalidValue, cu.EventCreate(&event, 0x80));
  EXPECT_CU(kInvalidValue, cu.StreamWaitEvent(a, NewEvent(), 0x80));
}

TEST_P(StreamConformanceTest, OperationsOfAStreamRunInOrder) {
  const DeviceAddress word = NewWords(1);
  for (int value = 1; value <= 20; ++value)
    EXPECT_CU(kSuccess, Store(a, word, value));
  EXPECT_EQ(Word(word), 20);
}

TEST_P(StreamConformanceTest, PollingAStreamComesToAnEnd) {
  const DeviceAddress word = NewWords(1);
  for (int value = 1; value <= 20; ++value)
    EXPECT_CU(kSuccess, Store(a, word, value));
  CuResult result = cu.StreamQuery(a);
  while (result == CuResult::kNotReady)
    result = cu.StreamQuery(a);
  EXPECT_EQ(result, CuResult::kSuccess);
  EXPECT_EQ(Word(word), 20);
}

TEST_P(StreamConformanceTest, PollingAnEventComesToAnEnd) {
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Store(a, word, 3));
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  CuResult result = cu.EventQuery(event);
  while (result == CuResult::kNotReady)
    result = cu.EventQuery(event);
  EXPECT_EQ(result, CuResult::kSuccess);
  int64_t read = 0;
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&read, word, sizeof(read), b));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(b));
  EXPECT_EQ(read, 3);
}

TEST_P(StreamConformanceTest, EventThatWasNeverRecordedIsComplete) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventQuery(event));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(a, event, 0));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
}

TEST_P(StreamConformanceTest, EventSynchronizeWaitsForTheWorkBeforeTheRecord) {
  std::atomic<int> ran = 0;
  const auto count = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, count, &ran));
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  EXPECT_EQ(ran, 1);
}

TEST_P(StreamConformanceTest, WaitOrdersTwoStreams) {
  const DeviceAddress words = NewWords(2);
  for (int round = 1; round <= 10; ++round) {
    EXPECT_CU(kSuccess, Store(a, words, round));
    Order(a, b);
    EXPECT_CU(kSuccess, Move(b, words + 8, words));
    Order(b, a);
  }
  EXPECT_EQ(Word(words + 8), 10);
}

TEST_P(StreamConformanceTest, WaitUsesTheRecordOfItsOwnTime) {
  const DeviceAddress words = NewWords(2);
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  Order(b, a);
  EXPECT_CU(kSuccess, Store(a, words, 2));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));  // If b waited for this, both would be stuck.
  EXPECT_EQ(Word(words + 8), 1);
}

TEST_P(StreamConformanceTest, DestroyedStreamFinishesItsWork) {
  const DeviceAddress word = NewWords(1);
  CuStream stream = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
  EXPECT_CU(kSuccess, Store(stream, word, 8));
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  EXPECT_EQ(Word(word), 8);
}

TEST_P(StreamConformanceTest, DestroyedEventIsStillWaitedFor) {
  const DeviceAddress words = NewWords(2);
  CuEvent event = nullptr;
  ASSERT_CU(kSuccess, cu.EventCreate(&event, kEventDisableTiming));
  EXPECT_CU(kSuccess, Store(a, words, 9));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, cu.EventDestroy(event));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_EQ(Word(words + 8), 9);
}

TEST_P(StreamConformanceTest, HostFunctionsRunInOrderAndMayNotCallTheDriver) {
  struct Record {
    const DriverTable* cu;
    CuStream stream;
    CuResult result = CuResult::kSuccess;
  } record{.cu = &cu, .stream = a};
  const auto call = [](void* data) {
    auto& self = *static_cast<Record*>(data);
    self.result = self.cu->StreamSynchronize(self.stream);
  };
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(a, call, &record));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(record.result, CuResult::kNotPermitted);
}

TEST_P(StreamConformanceTest, HostFunctionMustNotBeNull) {
  EXPECT_CU(kInvalidValue, cu.LaunchHostFunc(a, nullptr, nullptr));
}

TEST_P(StreamConformanceTest, FreeWaitsForWorkThatUsesTheMemory) {
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAlloc(&address, 64));
  EXPECT_CU(kSuccess, Store(a, address, 1));
  EXPECT_CU(kSuccess, cu.MemFree(address));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
}

// Code and launches.

class LaunchConformanceTest : public ConformanceTest {
 protected:
  // A launch of "Store" that is right but for what a test changes.
  struct Arguments {
    unsigned grid_x = 1, grid_y = 1, grid_z = 1;
    unsigned block_x = kTestThreads;
    bool with_extra = false;
  };

  CuResult Launch(const Arguments& arguments) {
    StoreParams params{.target = PointerAt<int64_t>(word_), .value = 1};
    void* kernel_params[] = {&params};
    void* extra[] = {nullptr};
    return cu.LaunchKernel(Function("Store"), arguments.grid_x, arguments.grid_y, arguments.grid_z,
                           arguments.block_x, 1, 1, 0, a, kernel_params,
                           arguments.with_extra ? extra : nullptr);
  }

  void SetUp() override {
    ConformanceTest::SetUp();
    if (context != nullptr) word_ = NewWords(1);
  }

  DeviceAddress word_ = 0;
};
COPPICE_CONFORMANCE_SUITE(LaunchConformanceTest);

TEST_P(LaunchConformanceTest, DimensionsAreChecked) {
  EXPECT_CU(kInvalidValue, Launch({.grid_x = 0}));
  EXPECT_CU(kInvalidValue, Launch({.grid_y = 0}));
  EXPECT_CU(kInvalidValue, Launch({.grid_z = 0}));
  EXPECT_CU(kInvalidValue, Launch({.grid_y = 65536}));
  EXPECT_CU(kInvalidValue, Launch({.grid_z = 65536}));
  EXPECT_CU(kInvalidValue, Launch({.block_x = 0}));
  EXPECT_CU(kInvalidValue, Launch({.block_x = 2048}));
  EXPECT_CU(kSuccess, Launch({}));
}

TEST_P(LaunchConformanceTest, ParametersComeInOneWay) {
  EXPECT_CU(kInvalidValue, Launch({.with_extra = true}));
}

TEST_P(LaunchConformanceTest, ParametersAreCopiedAtTheCall) {
  auto params = std::make_unique<StoreParams>();
  *params = {.target = PointerAt<int64_t>(word_), .value = 1};
  void* arguments[] = {params.get()};
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  params->value = 2;
  params.reset();
  EXPECT_EQ(Word(word_), 1);
}

TEST_P(LaunchConformanceTest, KernelHandleServesAsFunction) {
  CuKernel kernel = nullptr;
  ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, library, "Store"));
  StoreParams params{.target = PointerAt<int64_t>(word_), .value = 4};
  void* arguments[] = {&params};
  EXPECT_CU(kSuccess, cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel), 1, 1, 1, kTestThreads,
                                      1, 1, 0, a, arguments, nullptr));
  EXPECT_EQ(Word(word_), 4);
}

TEST_P(LaunchConformanceTest, EveryBlockOfAThreeDimensionalGridRuns) {
  const DeviceAddress target = NewWords(2);
  FillParams params{.target = PointerAt<float>(target), .count = 4, .value = 1};
  void* arguments[] = {&params};
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Fill"), 3, 2, 2, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  EXPECT_EQ(Word(target), 0x3f8000003f800000);
}

TEST_P(LaunchConformanceTest, UnknownKernelIsNotFound) {
  CuKernel kernel = nullptr;
  EXPECT_CU(kNotFound, cu.LibraryGetKernel(&kernel, library, "NoSuchKernel"));
}

TEST_P(LaunchConformanceTest, ImageMustBeOneTheDriverCanRun) {
  CuLibrary loaded = nullptr;
  EXPECT_CU(kInvalidValue,
            cu.LibraryLoadData(&loaded, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
  const void* const foreign = GetParam().kind == DriverKind::kCuda
                                  ? static_cast<const void*>(test_kernels_image.host)
                                  : "\x7f"
                                    "ELF of a cubin";
  const CuResult result =
      cu.LibraryLoadData(&loaded, foreign, nullptr, nullptr, 0, nullptr, nullptr, 0);
  EXPECT_TRUE(result == CuResult::kNoBinaryForGpu || result == CuResult::kInvalidImage)
      << NameOf(result);
}

}  // namespace
}  // namespace coppice
