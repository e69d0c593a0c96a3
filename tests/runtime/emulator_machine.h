// An emulator ready for raw driver calls, for the tests of the emulator itself.
//
// Units: bytes. Threads: the thread that made it; others first make `context` current.

#pragma once

#include "coppice/runtime/driver.h"
#include "coppice/runtime/emulator.h"

#include "tests/support/cu_result.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {

inline constexpr size_t kGranule = 2 * static_cast<size_t>(kMiB);

// Options of an emulator whose device memory a test may look at.
inline Emulator::Options OptionsToLook() {
  Emulator::Options options = TestEmulatorOptions();
  options.strictness.host_access = false;
  return options;
}

// An emulator, initialised, with a current context, a stream and the test kernels. Gives nothing
// back: what is left is a test's own business.
class Machine {
 public:
  explicit Machine(Emulator::Options options = TestEmulatorOptions()) {
    absl::StatusOr<std::unique_ptr<Emulator>> created = Emulator::Create(options);
    EXPECT_OK(created);
    emulator = *std::move(created);
    cu = emulator->driver().table();
    EXPECT_CU(kSuccess, cu.Init(0));
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&context, 0));
    EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
    EXPECT_CU(kSuccess, cu.LibraryLoadData(&library, &test_kernels_image, nullptr, nullptr, 0,
                                           nullptr, nullptr, 0));
    stream = NewStream();
  }

  CuStream NewStream() const {
    CuStream created = nullptr;
    EXPECT_CU(kSuccess, cu.StreamCreate(&created, kStreamNonBlocking));
    return created;
  }

  DeviceAddress Allocate(size_t bytes) const {
    DeviceAddress address = 0;
    EXPECT_CU(kSuccess, cu.MemAlloc(&address, bytes));
    return address;
  }

  CuFunction Function(const char* name) const {
    CuKernel kernel = nullptr;
    EXPECT_CU(kSuccess, cu.LibraryGetKernel(&kernel, library, name));
    return reinterpret_cast<CuFunction>(kernel);
  }

  CuResult Store(CuStream on, DeviceAddress address, int64_t value) const {
    StoreParams params{.target = PointerAt<int64_t>(address), .value = value};
    void* arguments[] = {&params};
    return cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, on, arguments,
                           nullptr);
  }

  // A kernel of an image that stays loaded, launched in blocks of one thread.
  CuFunction Load(const KernelImage& image, const char* name) const {
    CuLibrary loaded = nullptr;
    CuKernel kernel = nullptr;
    EXPECT_CU(kSuccess,
              cu.LibraryLoadData(&loaded, &image, nullptr, nullptr, 0, nullptr, nullptr, 0));
    EXPECT_CU(kSuccess, cu.LibraryGetKernel(&kernel, loaded, name));
    return reinterpret_cast<CuFunction>(kernel);
  }

  CuEvent NewEvent(unsigned flags = kEventDisableTiming) const {
    CuEvent event = nullptr;
    EXPECT_CU(kSuccess, cu.EventCreate(&event, flags));
    return event;
  }

  CuGraph NewGraph() const {
    CuGraph graph = nullptr;
    EXPECT_CU(kSuccess, cu.GraphCreate(&graph, 0));
    return graph;
  }

  // A node that writes the byte 1 to 8 bytes at `target`.
  CuGraphNode AddFill(CuGraph graph,
                      const std::vector<CuGraphNode>& after,
                      DeviceAddress target) const {
    const CuMemsetNodeParams fill{.target = target, .value = 1, .element_size = 1, .width = 8};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess,
              cu.GraphAddMemsetNode(&node, graph, after.data(), after.size(), &fill, context));
    return node;
  }

  CuGraphExec Instantiate(CuGraph graph) const {
    CuGraphExec exec = nullptr;
    EXPECT_CU(kSuccess, cu.GraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
  }

  // Captures `record(stream)` and instantiates it.
  template <typename Record>
  CuGraphExec Capture(Record record) const {
    CuGraph graph = nullptr;
    EXPECT_CU(kSuccess, cu.StreamBeginCapture(stream, CuCaptureMode::kRelaxed));
    record(stream);
    EXPECT_CU(kSuccess, cu.StreamEndCapture(stream, &graph));
    return Instantiate(graph);
  }

  DeviceAddress Reserve(size_t granules) const {
    DeviceAddress address = 0;
    EXPECT_CU(kSuccess, cu.MemAddressReserve(&address, granules * kGranule, 0, 0, 0));
    return address;
  }

  // Reserves one granule and maps `handle` there with `access`.
  DeviceAddress MapGranule(CuMemoryHandle handle, CuMemAccessFlags access) const {
    const DeviceAddress address = Reserve(1);
    EXPECT_CU(kSuccess, cu.MemMap(address, kGranule, 0, handle, 0));
    SetAccess(address, access);
    return address;
  }

  void SetAccess(DeviceAddress address, CuMemAccessFlags access) const {
    const CuMemAccessDescriptor descriptor{
        .location = {.type = CuMemLocationType::kDevice, .id = 0}, .flags = access};
    EXPECT_CU(kSuccess, cu.MemSetAccess(address, kGranule, &descriptor, 1));
  }

  CuMemoryHandle CreateGranules(size_t count = 1) const {
    const CuMemAllocationProperties properties{
        .type = CuMemAllocationType::kPinned,
        .location = {.type = CuMemLocationType::kDevice, .id = 0}};
    CuMemoryHandle handle = 0;
    EXPECT_CU(kSuccess, cu.MemCreate(&handle, count * kGranule, &properties, 0));
    return handle;
  }

  // A host function that counts its calls.
  static void Count(void* calls) { ++*static_cast<int*>(calls); }

  std::unique_ptr<Emulator> emulator;
  DriverTable cu;
  CuContext context = nullptr;
  CuLibrary library = nullptr;
  CuStream stream = nullptr;
};

}  // namespace coppice
