// Goal: reserving, creating, mapping, access, unmapping and releasing behave as CUDA documents.
// Method: one small test per documented rule, on every driver. Accesses that have to fault are in
// fault_conformance_test.cc.

#include "tests/conformance/child_process.h"
#include "tests/conformance/virtual_memory_fixture.h"

namespace coppice {
namespace {

class VirtualMemoryConformanceTest : public VirtualMemoryTest {};
COPPICE_CONFORMANCE_SUITE(VirtualMemoryConformanceTest);

// Arguments: the documentation of each call. The granularity of 2 MiB was observed on every device
// so far.

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

TEST_P(VirtualMemoryConformanceTest, GranularityNeedsPropertiesAndAPlaceToGo) {
  const CuMemAllocationProperties properties = Properties();
  size_t bytes = 0;
  EXPECT_CU(kInvalidValue,
            cu.MemGetAllocationGranularity(nullptr, &properties, CuMemGranularity::kMinimum));
  EXPECT_CU(kInvalidValue,
            cu.MemGetAllocationGranularity(&bytes, nullptr, CuMemGranularity::kMinimum));
}

TEST_P(VirtualMemoryConformanceTest, RecommendedGranularityIsAMultipleOfTheMinimum) {
  const CuMemAllocationProperties properties = Properties();
  size_t bytes = 0;
  ASSERT_CU(kSuccess,
            cu.MemGetAllocationGranularity(&bytes, &properties, CuMemGranularity::kRecommended));
  EXPECT_GE(bytes, kGranule);
  EXPECT_EQ(bytes % kGranule, 0U);
}

TEST_P(VirtualMemoryConformanceTest, ReservedBytesOfThePropertiesAreZero) {
  for (int byte = 0; byte < 4; ++byte) {
    CuMemAllocationProperties properties = Properties();
    properties.reserved[byte] = 1;
    CuMemoryHandle handle = 0;
    EXPECT_CU(kInvalidValue, cu.MemCreate(&handle, kGranule, &properties, 0)) << byte;
  }
}

TEST_P(VirtualMemoryConformanceTest, CreateNeedsALocationThatExists) {
  int count = 0;
  ASSERT_CU(kSuccess, cu.DeviceGetCount(&count));
  CuMemoryHandle handle = 0;
  CuMemAllocationProperties properties = Properties();
  properties.location.id = count;
  const CuResult result = cu.MemCreate(&handle, kGranule, &properties, 0);
  EXPECT_TRUE(result == CuResult::kInvalidValue || result == CuResult::kInvalidDevice)
      << NameOf(result);
  properties.location = {.type = CuMemLocationType::kInvalid, .id = 0};
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

TEST_P(VirtualMemoryConformanceTest, MapStaysInsideTheReservation) {
  const DeviceAddress address = Reserve(1);
  const CuMemoryHandle handle = Create(2);
  EXPECT_CU(kInvalidValue, cu.MemMap(address, 2 * kGranule, 0, handle, 0));
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  Unreserve(address, 1);
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

TEST_P(VirtualMemoryConformanceTest, AccessNeedsAMapping) {
  const DeviceAddress address = Reserve(2);
  EXPECT_CU(kInvalidValue, Allow(address, 1, CuMemAccessFlags::kReadWrite));
  MapFresh(address);
  EXPECT_CU(kInvalidValue, Allow(address + kGranule, 1, CuMemAccessFlags::kReadWrite));
  UnmapGranule(address);
  EXPECT_CU(kInvalidValue, Allow(address, 1, CuMemAccessFlags::kReadWrite));
  Unreserve(address, 2);
}

TEST_P(VirtualMemoryConformanceTest, AccessChecksItsDescriptor) {
  const DeviceAddress address = Reserve(1);
  MapFresh(address);
  CuMemAccessDescriptor access = {.location = {.type = CuMemLocationType::kInvalid, .id = 0},
                                  .flags = CuMemAccessFlags::kReadWrite};
  EXPECT_CU(kInvalidValue, cu.MemSetAccess(address, kGranule, nullptr, 1));
  EXPECT_CU(kInvalidValue, cu.MemSetAccess(address, kGranule, &access, 1)) << "location";
  access = {.location = {.type = CuMemLocationType::kDevice, .id = 0},
            .flags = static_cast<CuMemAccessFlags>(2)};
  EXPECT_CU(kInvalidValue, cu.MemSetAccess(address, kGranule, &access, 1)) << "flags";
  UnmapGranule(address);
  Unreserve(address, 1);
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

// What memory does: the Programming Guide on virtual memory management.

TEST_P(VirtualMemoryConformanceTest, ReservationsCostNoMemoryAndAreDisjoint) {
  size_t total = 0;
  ASSERT_CU(kSuccess, cu.DeviceTotalMem(&total, 0));
  const size_t granules = 2 * (total / kGranule);
  const DeviceAddress first = Reserve(granules);
  const DeviceAddress second = Reserve(granules);
  const DeviceAddress distance = first < second ? second - first : first - second;
  EXPECT_GE(distance, granules * kGranule);
  Unreserve(first, granules);
  Unreserve(second, granules);
}

TEST_P(VirtualMemoryConformanceTest, HintMayBeIgnoredButDoesNoHarm) {
  const DeviceAddress taken = Reserve(1);
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&address, kGranule, 0, taken, 0));
  EXPECT_NE(address, taken);
  Unreserve(address, 1);
  Unreserve(taken, 1);
}

TEST_P(VirtualMemoryConformanceTest, FailedCreateLeavesNothingBehind) {
  size_t total = 0;
  ASSERT_CU(kSuccess, cu.DeviceTotalMem(&total, 0));
  const CuMemAllocationProperties properties = Properties();
  CuMemoryHandle handle = 0;
  for (int attempt = 0; attempt < 3; ++attempt)
    EXPECT_CU(kOutOfMemory, cu.MemCreate(&handle, total / kGranule * kGranule * 2, &properties, 0));
  const DeviceAddress address = Reserve(1);
  MapFresh(address);
  EXPECT_CU(kSuccess, Store(a, address, 3));
  EXPECT_EQ(Word(address), 3);
  UnmapGranule(address);
  Unreserve(address, 1);
}

TEST_P(VirtualMemoryConformanceTest, HandleIsReleasedOnce) {
  EXPECT_IN_CHILD_OF_CUDA({
    const CuMemoryHandle handle = Create(1);
    EXPECT_CU(kSuccess, cu.MemRelease(handle));
    EXPECT_CU(kInvalidValue, cu.MemRelease(handle));
  });
}

TEST_P(VirtualMemoryConformanceTest, MemoryReturnsOnceItIsReleasedAndNowhereMapped) {
  size_t total = 0;
  ASSERT_CU(kSuccess, cu.DeviceTotalMem(&total, 0));
  const size_t granules = total / kGranule / 2 + 1;  // Fits once, never twice.
  const CuMemAllocationProperties properties = Properties();
  CuMemoryHandle first = 0;
  CuMemoryHandle second = 0;
  if (cu.MemCreate(&first, granules * kGranule, &properties, 0) == CuResult::kOutOfMemory)
    GTEST_SKIP() << "others use half of the device";
  const DeviceAddress address = Reserve(granules);
  EXPECT_CU(kSuccess, cu.MemMap(address, granules * kGranule, 0, first, 0));
  EXPECT_CU(kOutOfMemory, cu.MemCreate(&second, granules * kGranule, &properties, 0));
  EXPECT_CU(kSuccess, cu.MemRelease(first));
  EXPECT_CU(kOutOfMemory, cu.MemCreate(&second, granules * kGranule, &properties, 0));
  EXPECT_CU(kSuccess, cu.MemUnmap(address, granules * kGranule));
  EXPECT_CU(kSuccess, cu.MemCreate(&second, granules * kGranule, &properties, 0));
  EXPECT_CU(kSuccess, cu.MemRelease(second));
  Unreserve(address, granules);
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

TEST_P(VirtualMemoryConformanceTest, AliasesOutliveEachOther) {
  const DeviceAddress address = Reserve(3);
  const CuMemoryHandle handle = Create(1);
  for (int i = 0; i < 3; ++i)
    MapGranule(address + i * kGranule, handle);
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, Store(a, address + kGranule, 9));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  UnmapGranule(address + kGranule);
  EXPECT_EQ(Word(address), 9);
  UnmapGranule(address);
  EXPECT_EQ(Word(address + 2 * kGranule), 9);
  UnmapGranule(address + 2 * kGranule);
  Unreserve(address, 3);
}

TEST_P(VirtualMemoryConformanceTest, AliasesHaveTheirOwnAccess) {
  const DeviceAddress address = Reserve(2);
  const CuMemoryHandle handle = Create(1);
  MapGranule(address, handle);
  MapGranule(address + kGranule, handle);
  EXPECT_CU(kSuccess, cu.MemRelease(handle));
  EXPECT_CU(kSuccess, Allow(address + kGranule, 1, CuMemAccessFlags::kRead));
  EXPECT_CU(kSuccess, Store(a, address, 8));
  EXPECT_EQ(Word(address + kGranule), 8);
  UnmapGranule(address);
  UnmapGranule(address + kGranule);
  Unreserve(address, 2);
}

TEST_P(VirtualMemoryConformanceTest, ReadOnlyMemoryCanBeRead) {
  const DeviceAddress target = NewWords(1);
  const DeviceAddress address = Reserve(1);
  MapFresh(address);
  EXPECT_CU(kSuccess, Store(a, address, 6));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_CU(kSuccess, Allow(address, 1, CuMemAccessFlags::kRead));
  EXPECT_CU(kSuccess, Move(a, target, address));
  EXPECT_EQ(Word(target), 6);
  UnmapGranule(address);
  Unreserve(address, 1);
}

TEST_P(VirtualMemoryConformanceTest, BytesSurviveALossOfAccess) {
  const DeviceAddress address = Reserve(1);
  MapFresh(address);
  EXPECT_CU(kSuccess, Store(a, address, 7));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_CU(kSuccess, Allow(address, 1, CuMemAccessFlags::kNone));
  EXPECT_CU(kSuccess, Allow(address, 1, CuMemAccessFlags::kReadWrite));
  EXPECT_EQ(Word(address), 7);
  EXPECT_CU(kSuccess, Store(a, address, 8));
  EXPECT_EQ(Word(address), 8);
  UnmapGranule(address);
  Unreserve(address, 1);
}

TEST_P(VirtualMemoryConformanceTest, MappingsFillAReservationInAnyOrder) {
  const DeviceAddress address = Reserve(3);
  for (const int granule : {2, 0, 1})
    MapFresh(address + granule * kGranule);
  for (int granule = 0; granule < 3; ++granule)
    EXPECT_CU(kSuccess, Store(a, address + granule * kGranule, granule));
  for (int granule = 0; granule < 3; ++granule)
    EXPECT_EQ(Word(address + granule * kGranule), granule);
  for (const int granule : {1, 2, 0})
    UnmapGranule(address + granule * kGranule);
  Unreserve(address, 3);
}

TEST_P(VirtualMemoryConformanceTest, UnmapLeavesItsNeighboursAlone) {
  const DeviceAddress address = Reserve(3);
  for (int granule = 0; granule < 3; ++granule)
    MapFresh(address + granule * kGranule);
  EXPECT_CU(kSuccess, Store(a, address + kGranule - 8, 1));
  EXPECT_CU(kSuccess, Store(a, address + 2 * kGranule, 2));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  UnmapGranule(address + kGranule);
  EXPECT_EQ(Word(address + kGranule - 8), 1);
  EXPECT_EQ(Word(address + 2 * kGranule), 2);
  UnmapGranule(address);
  UnmapGranule(address + 2 * kGranule);
  Unreserve(address, 3);
}

TEST_P(VirtualMemoryConformanceTest, ReservationOutlivesItsMappings) {
  const DeviceAddress address = Reserve(1);
  for (int round = 1; round <= 3; ++round) {
    MapFresh(address);
    EXPECT_CU(kSuccess, Store(a, address, round));
    EXPECT_EQ(Word(address), round);
    UnmapGranule(address);
  }
  Unreserve(address, 1);
}

// Mapping happens at the call and waits for nothing, so that a pool grows while its lane works.

TEST_P(VirtualMemoryConformanceTest, MapWhileQueuedWorkUsesAnotherRange) {
  const DeviceAddress address = Reserve(2);
  MapFresh(address);
  for (int value = 1; value <= 20; ++value)
    EXPECT_CU(kSuccess, Store(a, address, value));
  MapFresh(address + kGranule);
  EXPECT_CU(kSuccess, Store(b, address + kGranule, 5));
  EXPECT_EQ(Word(address), 20);
  EXPECT_EQ(Word(address + kGranule), 5);
  UnmapGranule(address);
  UnmapGranule(address + kGranule);
  Unreserve(address, 2);
}

TEST_P(VirtualMemoryConformanceTest, MapAndUnmapWhileRunningWorkUsesAnotherRange) {
  const DeviceAddress address = Reserve(3);
  MapFresh(address);
  for (int value = 1; value <= 50; ++value)
    EXPECT_CU(kSuccess, Store(a, address, value));
  std::thread waiting([&] {
    EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  });
  for (int round = 1; round <= 4; ++round) {
    MapFresh(address + kGranule);
    MapFresh(address + 2 * kGranule);
    EXPECT_CU(kSuccess, Allow(address + kGranule, 2, CuMemAccessFlags::kReadWrite));
    EXPECT_CU(kSuccess, Store(b, address + 2 * kGranule, round));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(b));
    UnmapGranule(address + kGranule);
    UnmapGranule(address + 2 * kGranule);
  }
  waiting.join();
  EXPECT_EQ(Word(address), 50);
  UnmapGranule(address);
  Unreserve(address, 3);
}

// Not documented: each outcome is fine if it is whole.

TEST_P(VirtualMemoryConformanceTest, AccessToPartOfAMappingIsWholeOrRefused) {
  const DeviceAddress address = Reserve(2);
  const CuMemoryHandle handle = Create(2);
  ASSERT_CU(kSuccess, cu.MemMap(address, 2 * kGranule, 0, handle, 0));
  ASSERT_CU(kSuccess, cu.MemRelease(handle));
  const CuResult result = Allow(address, 1, CuMemAccessFlags::kReadWrite);
  EXPECT_TRUE(result == CuResult::kSuccess || result == CuResult::kInvalidValue) << NameOf(result);
  EXPECT_CU(kSuccess, Allow(address, 2, CuMemAccessFlags::kReadWrite));
  EXPECT_CU(kSuccess, Store(a, address + 2 * kGranule - 8, 4));
  EXPECT_EQ(Word(address + 2 * kGranule - 8), 4);
  EXPECT_CU(kSuccess, cu.MemUnmap(address, 2 * kGranule));
  Unreserve(address, 2);
}

TEST_P(VirtualMemoryConformanceTest, UnmapOfSeveralMappingsIsWholeOrRefused) {
  const DeviceAddress address = Reserve(2);
  MapFresh(address);
  MapFresh(address + kGranule);
  EXPECT_CU(kSuccess, Store(a, address, 1));
  EXPECT_CU(kSuccess, Store(a, address + kGranule, 2));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  if (cu.MemUnmap(address, 2 * kGranule) == CuResult::kSuccess) {
    MapFresh(address);
    MapFresh(address + kGranule);
  } else {
    EXPECT_EQ(Word(address), 1);
    EXPECT_EQ(Word(address + kGranule), 2);
  }
  UnmapGranule(address);
  UnmapGranule(address + kGranule);
  Unreserve(address, 2);
}

}  // namespace
}  // namespace coppice
