// What the suites about reserved, mapped and unmapped memory share.
//
// Units: granules of kGranule bytes where a name says so, else bytes. Threads: the test's own.

#pragma once

#include "tests/conformance/conformance_fixture.h"

namespace coppice {

class VirtualMemoryTest : public ConformanceTest {
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

  // A granule of memory, mapped and accessible, whose handle is released: one unmap gives it back.
  void MapFresh(DeviceAddress address) {
    const CuMemoryHandle handle = Create(1);
    MapGranule(address, handle);
    EXPECT_CU(kSuccess, cu.MemRelease(handle));
  }

  void Unreserve(DeviceAddress address, size_t granules) {
    EXPECT_CU(kSuccess, cu.MemAddressFree(address, granules * kGranule));
  }
};

}  // namespace coppice
