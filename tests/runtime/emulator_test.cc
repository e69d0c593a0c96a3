// Goal: every sentence of emulator.h about memory, faults, contexts and accounts is true; what CUDA
// shares with the emulator is in tests/conformance. Method: raw driver calls.

#include "coppice/runtime/emulator.h"

#include <csetjmp>
#include <csignal>

#include "tests/runtime/emulator_machine.h"

namespace coppice {
namespace {

// Creation.

TEST(EmulatorTest, OptionsOutOfRangeAreRefused) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, 3 * kMiB, -2 * kMiB})
    EXPECT_THAT(Emulator::Create({.memory_bytes = bytes}), StatusIs(kWrongArgument)) << bytes;
  for (const int permille : {-1, 1001})
    EXPECT_THAT(Emulator::Create({.eager_permille = permille}), StatusIs(kWrongArgument))
        << permille;
  EXPECT_THAT(Emulator::Create({.queue_limit = 0}), StatusIs(kWrongArgument));
}

TEST(EmulatorTest, OnlyOneExistsAtATime) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const auto first, Emulator::Create());
    EXPECT_THAT(Emulator::Create(), StatusIs(kRefused));
  }
  EXPECT_OK(Emulator::Create());
}

TEST(EmulatorTest, DriverIsTheEmulators) {
  const Machine machine;
  EXPECT_EQ(machine.emulator->driver().kind(), DriverKind::kEmulator);
}

TEST(EmulatorTest, DestructionDropsQueuedWork) {
  int runs = 0;
  {
    Machine machine;
    EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, Machine::Count, &runs));
  }
  EXPECT_EQ(runs, 0);
}

// A kernel that is host code, and a host function, which call the driver.
struct CallsDriver {
  static inline const Machine* machine = nullptr;
  static inline std::vector<CuResult> results;
  static inline bool runs = false;

  static void Run(const void* /*parameters*/, const HostBlock& /*block*/) { Call(nullptr); }
  static void Call(void* /*data*/) {
    const DriverTable& cu = machine->cu;
    DeviceAddress address = 0;
    results = {cu.StreamSynchronize(machine->stream), cu.CtxSynchronize(),
               cu.StreamQuery(machine->stream), cu.MemAlloc(&address, 8)};
    runs = Emulator::RunsThisThread();
  }
};

TEST(EmulatorTest, CodeOfTheHostThatIsWorkMayNotCallTheDriver) {
  const Machine machine;
  CallsDriver::machine = &machine;
  static constexpr HostKernel kKernel = {.name = "CallsDriver",
                                         .run = &CallsDriver::Run,
                                         .parameter_bytes = 0,
                                         .block_threads = 1,
                                         .declare = nullptr};
  static constexpr const HostKernel* kKernels[] = {&kKernel};
  constexpr KernelImage kImage = {.kernel_count = 1, .kernels = kKernels, .fatbin = nullptr};
  const CuFunction kernel = machine.Load(kImage, "CallsDriver");
  for (const bool is_kernel : {true, false}) {
    CallsDriver::results.clear();
    if (is_kernel) {
      EXPECT_CU(kSuccess, machine.cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel), 1, 1, 1, 1,
                                                  1, 1, 0, machine.stream, nullptr, nullptr));
    } else {
      EXPECT_CU(kSuccess, machine.cu.LaunchHostFunc(machine.stream, &CallsDriver::Call, nullptr));
    }
    EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(machine.stream));
    EXPECT_THAT(CallsDriver::results, Each(CuResult::kNotPermitted));
    EXPECT_EQ(CallsDriver::results.size(), 4U);
    EXPECT_TRUE(CallsDriver::runs);
    EXPECT_FALSE(Emulator::RunsThisThread());
  }
}

TEST(EmulatorTest, RestartLeavesNothingButReports) {
  Machine machine;
  const DriverTable& cu = machine.cu;
  const CuStream stale = machine.stream;
  const DeviceAddress address = machine.Allocate(64);
  DeviceAddress reserved = 0;
  CuMemoryHandle handle = 0;
  const CuMemAllocationProperties properties{
      .type = CuMemAllocationType::kPinned,
      .location = {.type = CuMemLocationType::kDevice, .id = 0}};
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&reserved, kGranule, 0, 0, 0));
  ASSERT_CU(kSuccess, cu.MemCreate(&handle, kGranule, &properties, 0));
  ASSERT_CU(kSuccess, cu.MemMap(reserved, kGranule, 0, handle, 0));
  machine.emulator->Report("kept");
  EXPECT_CU(kSuccess, machine.Store(machine.stream, 4096, 1));
  EXPECT_CU(kIllegalAddress, cu.CtxSynchronize());
  EXPECT_CU(kIllegalAddress, cu.CtxSynchronize());
  machine.emulator->Restart();
  EXPECT_EQ(machine.emulator->live(), Emulator::Live());
  EXPECT_EQ(machine.emulator->fault(), "");
  EXPECT_EQ(machine.emulator->reports(), std::vector<std::string>{"kept"});
  EXPECT_CU(kInvalidContext, cu.CtxSynchronize());
  ASSERT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&machine.context, 0));
  ASSERT_CU(kSuccess, cu.CtxSetCurrent(machine.context));
  EXPECT_CU(kInvalidHandle, cu.StreamQuery(stale));
  EXPECT_CU(kInvalidValue, cu.MemFree(address));
  EXPECT_CU(kInvalidValue, cu.MemUnmap(reserved, kGranule));
  EXPECT_CU(kInvalidValue, cu.MemRelease(handle));
  EXPECT_CU(kInvalidValue, cu.MemAddressFree(reserved, kGranule));
  // All of the memory is there again, at other addresses.
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_CU(kSuccess, cu.MemGetInfo(&free_bytes, &total_bytes));
  EXPECT_EQ(free_bytes, total_bytes);
  EXPECT_NE(machine.Allocate(64), address);
  machine.stream = machine.NewStream();
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
}

TEST(EmulatorTest, HandlesOfAnEarlierEmulatorAreStale) {
  CuStream stale = nullptr;
  {
    const Machine machine;
    stale = machine.stream;
  }
  const Machine machine;
  EXPECT_CU(kInvalidHandle, machine.cu.StreamQuery(stale));
}

// Context rules.

TEST(EmulatorTest, CallsBeforeInitAreRefused) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto emulator, Emulator::Create());
  const DriverTable& cu = emulator->driver().table();
  int count = 0;
  const char* name = nullptr;
  CuContext context = nullptr;
  EXPECT_CU(kNotInitialized, cu.DeviceGetCount(&count));
  EXPECT_CU(kNotInitialized, cu.DevicePrimaryCtxRetain(&context, 0));
  EXPECT_CU(kNotInitialized, cu.CtxSynchronize());
  EXPECT_CU(kSuccess, cu.DriverGetVersion(&count));
  EXPECT_CU(kSuccess, cu.GetErrorName(CuResult::kNotInitialized, &name));
}

TEST(EmulatorTest, LastReleaseInvalidatesHandlesButTheyStayCounted) {
  Machine machine;
  const DeviceAddress address = machine.Allocate(64);
  ASSERT_CU(kSuccess, machine.cu.DevicePrimaryCtxRelease(0));
  EXPECT_CU(kInvalidContext, machine.cu.StreamQuery(machine.stream));
  CuContext again = nullptr;
  ASSERT_CU(kSuccess, machine.cu.DevicePrimaryCtxRetain(&again, 0));
  ASSERT_CU(kSuccess, machine.cu.CtxSetCurrent(again));
  EXPECT_CU(kInvalidHandle, machine.cu.StreamQuery(machine.stream));
  EXPECT_CU(kInvalidValue, machine.cu.MemFree(address));
  EXPECT_EQ(machine.emulator->live().streams, 1);
  EXPECT_EQ(machine.emulator->live().libraries, 1);
  EXPECT_EQ(machine.emulator->live().allocations, 1);
  EXPECT_EQ(machine.emulator->live().physical_bytes, 0);
}

TEST(EmulatorTest, ContextOfAReleasedRetainIsNotCurrentAgain) {
  const Machine machine;
  CuContext current = machine.context;
  ASSERT_CU(kSuccess, machine.cu.DevicePrimaryCtxRelease(0));
  EXPECT_CU(kSuccess, machine.cu.CtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  EXPECT_CU(kInvalidContext, machine.cu.CtxSetCurrent(machine.context));
}

// Memory.

TEST(EmulatorTest, FreshMemoryIsPoisoned) {
  Machine machine(OptionsToLook());
  const DeviceAddress plain = machine.Allocate(1000);
  const DeviceAddress mapped =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kRead);
  const auto poisoned_bytes = [](DeviceAddress address, size_t bytes) {
    const auto* const data = PointerAt<unsigned char>(address);
    return static_cast<size_t>(std::count(data, data + bytes, 0xCB));
  };
  EXPECT_EQ(poisoned_bytes(plain, 1000), 1000U);
  EXPECT_EQ(poisoned_bytes(mapped, kGranule), kGranule);
}

TEST(EmulatorTest, ReusedPhysicalMemoryIsPoisonedAgain) {
  Emulator::Options options = OptionsToLook();
  options.memory_bytes = 2 * kMiB;
  Machine machine(options);
  for (int round = 0; round < 3; ++round) {
    const DeviceAddress address = machine.Allocate(kGranule);
    EXPECT_EQ(*PointerAt<unsigned char>(address + 77), 0xCB);
    EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(address, 0, kGranule, machine.stream));
    EXPECT_CU(kSuccess, machine.cu.MemFree(address));
  }
}

TEST(EmulatorTest, AllocationsAreAlignedAndNotHandedOutAgain) {
  Machine machine;
  std::set<DeviceAddress> seen;
  for (size_t bytes = 1; bytes < 6000; bytes += 300) {
    const DeviceAddress address = machine.Allocate(bytes);
    EXPECT_EQ(address % 512, 0U);
    EXPECT_TRUE(seen.insert(address).second);
    EXPECT_CU(kSuccess, machine.cu.MemFree(address));
  }
}

TEST(EmulatorTest, AllocationEndsAtAGuardPage) {
  Machine machine;
  constexpr size_t kBytes = 2560;
  const DeviceAddress address = machine.Allocate(kBytes);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, address + kBytes - 8, 1));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_CU(kSuccess, machine.Store(machine.stream, address + kBytes, 1));
  EXPECT_CU(kIllegalAddress, machine.cu.CtxSynchronize());
}

TEST(EmulatorTest, CapacityBoundsAllKindsOfMemoryTogether) {
  Machine machine({.memory_bytes = 8 * kMiB});
  const DeviceAddress address = machine.Allocate(kGranule);
  const CuMemoryHandle handle = machine.CreateGranules(3);
  const Emulator::Live before = machine.emulator->live();
  DeviceAddress none = 0;
  EXPECT_CU(kOutOfMemory, machine.cu.MemAlloc(&none, 1));
  EXPECT_EQ(machine.emulator->live(), before);
  size_t free_bytes = 1;
  size_t total_bytes = 0;
  EXPECT_CU(kSuccess, machine.cu.MemGetInfo(&free_bytes, &total_bytes));
  EXPECT_EQ(free_bytes, 0U);
  EXPECT_EQ(total_bytes, 4 * kGranule);
  EXPECT_CU(kSuccess, machine.cu.MemRelease(handle));
  EXPECT_CU(kSuccess, machine.cu.MemFree(address));
  machine.Allocate(4 * kGranule);
}

TEST(EmulatorTest, MappedMemoryHasTheIdOfItsHandleWhileItIsMapped) {
  Machine machine;
  const CuMemoryHandle handle = machine.CreateGranules();
  const DeviceAddress first = machine.MapGranule(handle, CuMemAccessFlags::kRead);
  const DeviceAddress second = machine.MapGranule(handle, CuMemAccessFlags::kNone);
  const auto id_of = [&](DeviceAddress address) {
    uint64_t id = 0;
    const CuResult result =
        machine.cu.PointerGetAttribute(&id, CuPointerAttribute::kBufferId, address);
    return result == CuResult::kInvalidValue ? 0 : id;
  };
  const uint64_t id = id_of(first);
  EXPECT_NE(id, 0U);
  EXPECT_EQ(id_of(second + kGranule - 1), id);
  EXPECT_CU(kSuccess, machine.cu.MemUnmap(first, kGranule));
  EXPECT_EQ(id_of(first), 0U);
  EXPECT_CU(kSuccess, machine.cu.MemMap(first, kGranule, 0, machine.CreateGranules(), 0));
  EXPECT_NE(id_of(first), 0U);
  EXPECT_NE(id_of(first), id);
}

TEST(EmulatorTest, ReadableTellsWhatKernelsMayRead) {
  Machine machine;
  const int64_t granule = static_cast<int64_t>(kGranule);
  const DeviceAddress plain = machine.Allocate(100);
  const DeviceAddress mapped =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kRead);
  const Emulator& emulator = *machine.emulator;
  EXPECT_TRUE(emulator.Readable(plain, 100));
  EXPECT_TRUE(emulator.Readable(plain + 99, 1));
  EXPECT_FALSE(emulator.Readable(plain, 101));
  EXPECT_FALSE(emulator.Readable(plain - 1, 2));
  EXPECT_TRUE(emulator.Readable(mapped, granule));
  EXPECT_FALSE(emulator.Readable(mapped, granule + 1));
  machine.SetAccess(mapped, CuMemAccessFlags::kNone);
  EXPECT_FALSE(emulator.Readable(mapped, 1));
  EXPECT_CU(kSuccess, machine.cu.MemFree(plain));
  EXPECT_FALSE(emulator.Readable(plain, 1));
}

TEST(EmulatorTest, FreeingTheAddressesOfAMappingIsRefused) {
  Machine machine;
  const DeviceAddress address =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kRead);
  EXPECT_CU(kInvalidValue, machine.cu.MemAddressFree(address, kGranule));
}

TEST(EmulatorTest, MappingsAreUnmappedOneByOneAndOpenedWhole) {
  Machine machine;
  const DeviceAddress address = machine.Reserve(4);
  ASSERT_CU(kSuccess, machine.cu.MemMap(address, 2 * kGranule, 0, machine.CreateGranules(2), 0));
  ASSERT_CU(kSuccess, machine.cu.MemMap(address + 2 * kGranule, 2 * kGranule, 0,
                                        machine.CreateGranules(2), 0));
  EXPECT_CU(kInvalidValue, machine.cu.MemUnmap(address, 4 * kGranule));
  const CuMemAccessDescriptor access{.location = {.type = CuMemLocationType::kDevice, .id = 0},
                                     .flags = CuMemAccessFlags::kReadWrite};
  EXPECT_CU(kInvalidValue, machine.cu.MemSetAccess(address, kGranule, &access, 1));
  EXPECT_CU(kSuccess, machine.cu.MemSetAccess(address, 4 * kGranule, &access, 1));
}

// Faults.

// The end of a context by a kernel that writes to `address`.
void ExpectFault(Machine& machine, DeviceAddress address) {
  EXPECT_CU(kSuccess, machine.Store(machine.stream, address, 1));
  EXPECT_CU(kIllegalAddress, machine.cu.StreamSynchronize(machine.stream));
  EXPECT_THAT(machine.emulator->fault(), HasSubstr(fmt::format("{:#x}", address)));
  EXPECT_THAT(machine.emulator->fault(), HasSubstr("Store"));
}

TEST(EmulatorTest, FreedAllocationFaults) {
  Machine machine;
  const DeviceAddress address = machine.Allocate(64);
  ASSERT_CU(kSuccess, machine.cu.MemFree(address));
  ExpectFault(machine, address);
}

TEST(EmulatorTest, UnmapDoesNotWaitSoThatLaterWorkFaults) {
  Machine machine;
  const DeviceAddress address =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kReadWrite);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, address, 1));
  EXPECT_CU(kSuccess, machine.cu.MemUnmap(address, kGranule));
  EXPECT_CU(kIllegalAddress, machine.cu.StreamSynchronize(machine.stream));
}

TEST(EmulatorTest, GraphOverUnmappedMemoryFaults) {
  Machine machine;
  const DeviceAddress address =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kReadWrite);
  const CuGraphExec exec = machine.Capture([&](CuStream stream) {
    EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(address, 0, 64, stream));
  });
  EXPECT_CU(kSuccess, machine.cu.MemUnmap(address, kGranule));
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
  EXPECT_CU(kIllegalAddress, machine.cu.StreamSynchronize(machine.stream));
  EXPECT_THAT(machine.emulator->fault(), HasSubstr("memset"));
}

TEST(EmulatorTest, DeadContextStillTakesEverythingBack) {
  Machine machine;
  const DriverTable& cu = machine.cu;
  const DeviceAddress plain = machine.Allocate(64);
  const CuMemoryHandle handle = machine.CreateGranules();
  const DeviceAddress mapped = machine.MapGranule(handle, CuMemAccessFlags::kRead);
  CuEvent event = nullptr;
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.EventCreate(&event, kEventDefault));
  ASSERT_CU(kSuccess, cu.GraphCreate(&graph, 0));
  const CuGraphExec exec = machine.Instantiate(graph);
  const CuStream capturing = machine.NewStream();
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(capturing, CuCaptureMode::kRelaxed));
  ExpectFault(machine, mapped);
  CuGraph captured = nullptr;
  EXPECT_CU(kIllegalAddress, cu.StreamEndCapture(capturing, &captured));
  EXPECT_EQ(captured, nullptr);
  EXPECT_CU(kIllegalAddress, cu.MemFree(plain));
  EXPECT_CU(kIllegalAddress, cu.MemRelease(handle));
  EXPECT_CU(kIllegalAddress, cu.MemUnmap(mapped, kGranule));
  EXPECT_CU(kIllegalAddress, cu.MemAddressFree(mapped, kGranule));
  EXPECT_CU(kIllegalAddress, cu.EventDestroy(event));
  EXPECT_CU(kIllegalAddress, cu.GraphExecDestroy(exec));
  EXPECT_CU(kIllegalAddress, cu.GraphDestroy(graph));
  EXPECT_CU(kIllegalAddress, cu.LibraryUnload(machine.library));
  EXPECT_CU(kIllegalAddress, cu.StreamDestroy(capturing));
  EXPECT_CU(kIllegalAddress, cu.StreamDestroy(machine.stream));
  EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
  EXPECT_EQ(machine.emulator->live(), Emulator::Live());
}

// A fault of the host's own, handled by a handler that was there before the emulator.
sigjmp_buf g_host_fault;
void JumpOut(int /*signal*/) {
  siglongjmp(g_host_fault, 1);
}

TEST(EmulatorTest, FaultsOutsideDeviceWorkGoToTheEarlierHandler) {
  struct sigaction handler = {};
  struct sigaction original = {};
  handler.sa_handler = JumpOut;
  ASSERT_EQ(sigaction(SIGSEGV, &handler, &original), 0);
  {
    Machine machine;
    const DeviceAddress freed = machine.Allocate(64);
    ASSERT_CU(kSuccess, machine.cu.MemFree(freed));
    volatile bool caught = false;
    if (sigsetjmp(g_host_fault, 1) == 0) {
      *PointerAt<volatile int>(freed) = 1;
    } else {
      caught = true;
    }
    EXPECT_TRUE(caught);
    EXPECT_EQ(machine.emulator->fault(), "");
  }
  struct sigaction restored = {};
  ASSERT_EQ(sigaction(SIGSEGV, &original, &restored), 0);
  EXPECT_EQ(restored.sa_handler, JumpOut) << "the emulator put the earlier handler back";
}

// The virtual clock.

TEST(EmulatorTest, EveryOperationAndEveryNodeTakesAMicrosecond) {
  Machine machine;
  const DriverTable& cu = machine.cu;
  const DeviceAddress word = machine.Allocate(8);
  const CuGraphExec exec = machine.Capture([&](CuStream stream) {
    for (int i = 0; i < 5; ++i)
      EXPECT_CU(kSuccess, machine.Store(stream, word, i));
  });
  CuEvent events[4] = {};
  const auto record = [&](CuEvent& event) {
    ASSERT_CU(kSuccess, cu.EventCreate(&event, kEventDefault));
    EXPECT_CU(kSuccess, cu.EventRecord(event, machine.stream));
  };
  record(events[0]);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 1));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(word, 0, 8, machine.stream));
  record(events[1]);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, machine.stream));
  record(events[2]);
  record(events[3]);
  EXPECT_CU(kSuccess, cu.StreamSynchronize(machine.stream));
  const auto elapsed = [&](int from, int to) {
    float milliseconds = -1;
    EXPECT_CU(kSuccess, cu.EventElapsedTime(&milliseconds, events[from], events[to]));
    return milliseconds;
  };
  EXPECT_FLOAT_EQ(elapsed(0, 1), 0.002F);
  EXPECT_FLOAT_EQ(elapsed(1, 2), 0.005F);
  EXPECT_FLOAT_EQ(elapsed(2, 3), 0);
  EXPECT_FLOAT_EQ(elapsed(2, 0), -0.007F);
  EXPECT_CU(kInvalidValue, cu.EventElapsedTime(nullptr, events[0], events[1]));
}

TEST(EmulatorTest, EventsKeepTheTimeOfAStreamThatIsGone) {
  Machine machine;
  const DriverTable& cu = machine.cu;
  const DeviceAddress word = machine.Allocate(8);
  CuEvent start = nullptr;
  CuEvent end = nullptr;
  ASSERT_CU(kSuccess, cu.EventCreate(&start, kEventDefault));
  ASSERT_CU(kSuccess, cu.EventCreate(&end, kEventDefault));
  EXPECT_CU(kSuccess, cu.EventRecord(start, machine.stream));
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 1));
  EXPECT_CU(kSuccess, cu.EventRecord(end, machine.stream));
  EXPECT_CU(kSuccess, cu.StreamDestroy(machine.stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  float milliseconds = -1;
  EXPECT_CU(kSuccess, cu.EventElapsedTime(&milliseconds, start, end));
  EXPECT_FLOAT_EQ(milliseconds, 0.001F);
}

// Accounts.

TEST(EmulatorTest, LiveCountsWhatExists) {
  Machine machine;
  const DriverTable& cu = machine.cu;
  const CuMemoryHandle handle = machine.CreateGranules(2);
  DeviceAddress reserved = 0;
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&reserved, 4 * kGranule, 0, 0, 0));
  ASSERT_CU(kSuccess, cu.MemMap(reserved, kGranule, 0, handle, 0));
  const DeviceAddress plain = machine.Allocate(5000);
  CuEvent event = nullptr;
  ASSERT_CU(kSuccess, cu.EventCreate(&event, 0));
  const CuGraphExec exec = machine.Capture([&](CuStream stream) {
    EXPECT_CU(kSuccess, machine.Store(stream, plain, 1));
    EXPECT_CU(kSuccess, machine.Store(stream, plain, 2));
  });
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, machine.stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  const int64_t granule = static_cast<int64_t>(kGranule);
  EXPECT_EQ(machine.emulator->live(), (Emulator::Live{.physical_bytes = 2 * granule + 8192,
                                                      .mapped_bytes = granule,
                                                      .reserved_bytes = 4 * granule,
                                                      .handles = 1,
                                                      .allocations = 1,
                                                      .streams = 1,
                                                      .events = 1,
                                                      .graphs = 1,
                                                      .execs = 1,
                                                      .libraries = 1,
                                                      .captures = 0,
                                                      .contexts = 1,
                                                      .nodes_executed = 2}));
}

TEST(EmulatorTest, NodesInsideAChildAreCounted) {
  Machine machine;
  const CuGraph child = machine.NewGraph();
  CuGraph parent = nullptr;
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, machine.cu.GraphCreate(&parent, 0));
  for (int i = 0; i < 3; ++i)
    ASSERT_CU(kSuccess, machine.cu.GraphAddEmptyNode(&node, child, nullptr, 0));
  ASSERT_CU(kSuccess, machine.cu.GraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  const CuGraphExec exec = machine.Instantiate(parent);
  EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(machine.emulator->live().nodes_executed, 3);
}

}  // namespace
}  // namespace coppice
