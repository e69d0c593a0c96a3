// Goal: work that touches memory it may not ends the process's CUDA work with 700, for good.
// Method: one small test per cause and per kind of later call, on every driver, each in a process
// of its own. That the error is sticky and shows at the next wait is the documentation of the
// results; that host functions behind it do not run is cuLaunchHostFunc's. Whether a call notices
// at once or the next wait does is open; what is released afterwards is not looked at.

#include "tests/conformance/child_process.h"
#include "tests/conformance/graph_fixture.h"

namespace coppice {
namespace {

class FaultConformanceTest : public GraphTest {
 protected:
  // A submission that was taken, or that found the fault of an earlier one.
  static void Taken(CuResult result) {
    EXPECT_TRUE(result == CuResult::kSuccess || result == CuResult::kIllegalAddress)
        << NameOf(result);
  }

  // Ends the context.
  void Fault() {
    Taken(Store(a, Reserve(1), 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  }

  // A granule that is mapped with `access`.
  DeviceAddress Mapped(CuMemAccessFlags access) {
    const DeviceAddress address = Reserve(1);
    MapFresh(address);
    EXPECT_CU(kSuccess, Allow(address, 1, access));
    return address;
  }

  // Launches `graph`, which was made while `address` was mapped, when it no longer is.
  void ExpectFaultOnceUnmapped(CuGraph graph, DeviceAddress address) {
    const CuGraphExec exec = Instantiate(graph);
    Taken(cu.GraphLaunch(exec, a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    UnmapGranule(address);
    Taken(cu.GraphLaunch(exec, a));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  }

  // A copy or fill that may not be done: refused, or a fault.
  void ExpectRefusalOrFault(CuResult result) {
    if (result == CuResult::kInvalidValue) return;
    Taken(result);
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  }
};
COPPICE_CONFORMANCE_SUITE(FaultConformanceTest);

// Causes: kernels.

TEST_P(FaultConformanceTest, KernelWritesWhereNothingIsMapped) {
  EXPECT_IN_CHILD({
    Taken(Store(a, Reserve(1), 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, KernelReadsWhereNothingIsMapped) {
  EXPECT_IN_CHILD({
    const ScaleParams params{.x = PointerAt<float>(Reserve(1)),
                             .y = PointerAt<float>(NewWords(1)),
                             .count = 1,
                             .factor = 1};
    const CuGraph graph = NewGraph();
    AddKernel(graph, {}, "Scale", params);
    Taken(cu.GraphLaunch(Instantiate(graph), a));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, KernelTouchesAMappingBeforeItIsAccessible) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Reserve(1);
    EXPECT_CU(kSuccess, cu.MemMap(address, kGranule, 0, Create(1), 0));
    Taken(Store(a, address, 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, KernelTouchesAMappingThatIsNoLongerAccessible) {
  EXPECT_IN_CHILD({
    Taken(Store(a, Mapped(CuMemAccessFlags::kNone), 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, KernelWritesToReadOnlyMemory) {
  EXPECT_IN_CHILD({
    Taken(Store(a, Mapped(CuMemAccessFlags::kRead), 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, KernelTouchesMemoryThatWasUnmapped) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
    UnmapGranule(address);
    Taken(Store(a, address, 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, AccessIsForgottenWithTheMapping) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
    UnmapGranule(address);
    EXPECT_CU(kSuccess, cu.MemMap(address, kGranule, 0, Create(1), 0));
    Taken(Store(a, address, 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, AccessOfOneAliasIsNotAccessOfAnother) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Reserve(2);
    const CuMemoryHandle handle = Create(1);
    MapGranule(address, handle);
    EXPECT_CU(kSuccess, cu.MemMap(address + kGranule, kGranule, 0, handle, 0));
    Taken(Store(a, address, 1));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    Taken(Store(a, address + kGranule, 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, KernelRunsOverTheEndOfItsMapping) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Reserve(2);
    MapFresh(address);
    FillParams params{.target = PointerAt<float>(address + kGranule - 8), .count = 4, .value = 1};
    void* arguments[] = {&params};
    Taken(cu.LaunchKernel(Function("Fill"), 1, 1, 1, kTestThreads, 1, 1, 0, a, arguments, nullptr));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

// Small allocations may share pages with others; one of several granules does not.
TEST_P(FaultConformanceTest, KernelTouchesMemoryThatWasFreed) {
  EXPECT_IN_CHILD({
    DeviceAddress address = 0;
    EXPECT_CU(kSuccess, cu.MemAlloc(&address, 8 * kGranule));
    EXPECT_CU(kSuccess, cu.MemFree(address));
    Taken(Store(a, address + 4 * kGranule, 1));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(FaultConformanceTest, WholeMappingIsAccessible) {
  const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
  EXPECT_CU(kSuccess, Store(a, address, 1));
  EXPECT_CU(kSuccess, Store(a, address + kGranule - 8, 2));
  EXPECT_EQ(Word(address), 1);
  EXPECT_EQ(Word(address + kGranule - 8), 2);
  UnmapGranule(address);
  Unreserve(address, 1);
}

// Causes: copies and fills.

TEST_P(FaultConformanceTest, FillWhereNothingIsMapped) {
  EXPECT_IN_CHILD({ ExpectRefusalOrFault(cu.MemsetD8Async(Reserve(1), 0, 8, a)); });
}

TEST_P(FaultConformanceTest, CopyWhereNothingIsMapped) {
  EXPECT_IN_CHILD({ ExpectRefusalOrFault(Move(a, Reserve(1), NewWords(1))); });
}

TEST_P(FaultConformanceTest, CopyFromWhereNothingIsMapped) {
  EXPECT_IN_CHILD({ ExpectRefusalOrFault(Move(a, NewWords(1), Reserve(1))); });
}

TEST_P(FaultConformanceTest, FillOfReadOnlyMemory) {
  EXPECT_IN_CHILD(
      { ExpectRefusalOrFault(cu.MemsetD32Async(Mapped(CuMemAccessFlags::kRead), 0, 1, a)); });
}

TEST_P(FaultConformanceTest, CopyIntoReadOnlyMemory) {
  EXPECT_IN_CHILD({ ExpectRefusalOrFault(Move(a, Mapped(CuMemAccessFlags::kRead), NewWords(1))); });
}

TEST_P(FaultConformanceTest, CopyBetweenInaccessibleMemoryAndTheHost) {
  EXPECT_IN_CHILD({
    int64_t host = 0;
    ExpectRefusalOrFault(
        cu.MemcpyDtoHAsync(&host, Mapped(CuMemAccessFlags::kNone), sizeof(host), a));
  });
}

// Causes: graphs whose memory went after they were made.

TEST_P(FaultConformanceTest, KernelNodeOutlivesItsMemory) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
    const CuGraph graph = NewGraph();
    AddStore(graph, {}, address, 1);
    ExpectFaultOnceUnmapped(graph, address);
  });
}

TEST_P(FaultConformanceTest, CopyNodeOutlivesItsTarget) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
    const CuGraph graph = NewGraph();
    AddMove(graph, {}, address, NewWords(1));
    ExpectFaultOnceUnmapped(graph, address);
  });
}

TEST_P(FaultConformanceTest, CopyNodeOutlivesItsSource) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
    const CuGraph graph = NewGraph();
    AddMove(graph, {}, NewWords(1), address);
    ExpectFaultOnceUnmapped(graph, address);
  });
}

TEST_P(FaultConformanceTest, FillNodeOutlivesItsMemory) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
    const CuGraph graph = NewGraph();
    AddFill(graph, {}, address, 1, 8);
    ExpectFaultOnceUnmapped(graph, address);
  });
}

TEST_P(FaultConformanceTest, NodeOfAChildOutlivesItsMemory) {
  EXPECT_IN_CHILD({
    const DeviceAddress address = Mapped(CuMemAccessFlags::kReadWrite);
    const CuGraph child = NewGraph();
    AddStore(child, {AddEmpty(child, {})}, address, 1);
    const CuGraph parent = NewGraph();
    AddChild(parent, {AddEmpty(parent, {})}, child);
    ExpectFaultOnceUnmapped(parent, address);
  });
}

// Where the error shows.

TEST_P(FaultConformanceTest, EventBehindTheFaultReportsIt) {
  EXPECT_IN_CHILD({
    const CuEvent event = NewEvent();
    Taken(Store(a, Reserve(1), 1));
    Taken(cu.EventRecord(event, a));
    EXPECT_CU(kIllegalAddress, cu.EventSynchronize(event));
  });
}

TEST_P(FaultConformanceTest, ContextReportsTheFaultOfAnyStream) {
  EXPECT_IN_CHILD({
    Taken(Store(b, Reserve(1), 1));
    EXPECT_CU(kIllegalAddress, cu.CtxSynchronize());
  });
}

TEST_P(FaultConformanceTest, PollingAStreamEndsAtTheFault) {
  EXPECT_IN_CHILD({
    Taken(Store(a, Reserve(1), 1));
    EXPECT_CU(kIllegalAddress, Poll(a));
  });
}

TEST_P(FaultConformanceTest, PollingAnEventEndsAtTheFault) {
  EXPECT_IN_CHILD({
    const CuEvent event = NewEvent();
    Taken(Store(a, Reserve(1), 1));
    Taken(cu.EventRecord(event, a));
    EXPECT_CU(kIllegalAddress, Poll(event));
  });
}

TEST_P(FaultConformanceTest, StreamThatWaitsForTheFaultReportsIt) {
  EXPECT_IN_CHILD({
    const CuEvent event = NewEvent();
    Taken(Store(a, Reserve(1), 1));
    Taken(cu.EventRecord(event, a));
    Taken(cu.StreamWaitEvent(b, event, 0));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(b));
  });
}

// What is left: nothing but the same code.

TEST_P(FaultConformanceTest, EveryWaitKeepsReportingIt) {
  EXPECT_IN_CHILD({
    const CuEvent event = NewEvent();
    EXPECT_CU(kSuccess, cu.EventRecord(event, b));
    Fault();
    for (int round = 0; round < 2; ++round) {
      EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
      EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(b));
      EXPECT_CU(kIllegalAddress, cu.StreamQuery(b));
      EXPECT_CU(kIllegalAddress, cu.EventSynchronize(event));
      EXPECT_CU(kIllegalAddress, cu.EventQuery(event));
      EXPECT_CU(kIllegalAddress, cu.CtxSynchronize());
    }
  });
}

TEST_P(FaultConformanceTest, MemoryIsNoLongerAllocatedCopiedOrFilled) {
  EXPECT_IN_CHILD({
    const DeviceAddress words = NewWords(2);
    int64_t host = 0;
    Fault();
    DeviceAddress address = 0;
    EXPECT_CU(kIllegalAddress, cu.MemAlloc(&address, 64));
    EXPECT_CU(kIllegalAddress, cu.MemcpyHtoDAsync(words, &host, sizeof(host), a));
    EXPECT_CU(kIllegalAddress, cu.MemcpyDtoHAsync(&host, words, sizeof(host), a));
    EXPECT_CU(kIllegalAddress, Move(a, words + 8, words));
    EXPECT_CU(kIllegalAddress, cu.MemsetD8Async(words, 0, 8, b));
    EXPECT_CU(kIllegalAddress, cu.MemsetD32Async(words, 0, 2, b));
  });
}

TEST_P(FaultConformanceTest, NothingIsLaunchedAnyMore) {
  EXPECT_IN_CHILD({
    const DeviceAddress word = NewWords(1);
    const CuFunction store = Function("Store");
    StoreParams params{.target = PointerAt<int64_t>(word), .value = 1};
    void* arguments[] = {&params};
    Fault();
    EXPECT_CU(kIllegalAddress,
              cu.LaunchKernel(store, 1, 1, 1, kTestThreads, 1, 1, 0, b, arguments, nullptr));
    const auto nothing = [](void*) {};
    EXPECT_CU(kIllegalAddress, cu.LaunchHostFunc(b, nothing, nullptr));
  });
}

TEST_P(FaultConformanceTest, NoStreamOrEventIsMadeOrUsedAnyMore) {
  EXPECT_IN_CHILD({
    const CuEvent event = NewEvent();
    Fault();
    CuStream stream = nullptr;
    CuEvent made = nullptr;
    EXPECT_CU(kIllegalAddress, cu.StreamCreate(&stream, kStreamNonBlocking));
    EXPECT_CU(kIllegalAddress, cu.EventCreate(&made, 0));
    EXPECT_CU(kIllegalAddress, cu.EventRecord(event, b));
    EXPECT_CU(kIllegalAddress, cu.StreamWaitEvent(b, event, 0));
  });
}

TEST_P(FaultConformanceTest, NoGraphIsInstantiatedOrLaunchedAnyMore) {
  EXPECT_IN_CHILD({
    const CuGraph graph = NewGraph();
    AddStore(graph, {}, NewWords(1), 1);
    const CuGraphExec exec = Instantiate(graph);
    Fault();
    CuGraphExec made = nullptr;
    EXPECT_CU(kIllegalAddress, cu.GraphInstantiateWithFlags(&made, graph, 0));
    EXPECT_CU(kIllegalAddress, cu.GraphUpload(exec, b));
    EXPECT_CU(kIllegalAddress, cu.GraphLaunch(exec, b));
  });
}

TEST_P(FaultConformanceTest, NoCaptureBeginsAnyMore) {
  EXPECT_IN_CHILD({
    Fault();
    for (const CuStream stream : {a, b})
      EXPECT_CU(kIllegalAddress, cu.StreamBeginCapture(stream, CuCaptureMode::kRelaxed));
  });
}

TEST_P(FaultConformanceTest, OtherThreadsMeetItToo) {
  EXPECT_IN_CHILD({
    const DeviceAddress word = NewWords(1);
    Fault();
    std::thread([&] {
      EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
      DeviceAddress address = 0;
      EXPECT_CU(kIllegalAddress, cu.MemAlloc(&address, 64));
      EXPECT_CU(kIllegalAddress, cu.MemsetD8Async(word, 0, 8, b));
      EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(b));
    }).join();
  });
}

TEST_P(FaultConformanceTest, DriverStillTellsWhatItMeans) {
  EXPECT_IN_CHILD({
    Fault();
    const char* name = nullptr;
    int version = 0;
    EXPECT_CU(kSuccess, cu.GetErrorName(CuResult::kIllegalAddress, &name));
    EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    EXPECT_CU(kSuccess, cu.DriverGetVersion(&version));
  });
}

// What was queued behind the fault.

TEST_P(FaultConformanceTest, HostFunctionBehindTheFaultDoesNotRun) {
  EXPECT_IN_CHILD({
    std::atomic<int> runs = 0;
    Taken(Store(a, Reserve(1), 1));
    Taken(cu.LaunchHostFunc(a, Count, &runs));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
    EXPECT_CU(kIllegalAddress, cu.CtxSynchronize());
    EXPECT_EQ(runs, 0);
  });
}

TEST_P(FaultConformanceTest, HostFunctionOfAStreamThatWaitsDoesNotRun) {
  EXPECT_IN_CHILD({
    std::atomic<int> runs = 0;
    const CuEvent event = NewEvent();
    Taken(Store(a, Reserve(1), 1));
    Taken(cu.EventRecord(event, a));
    Taken(cu.StreamWaitEvent(b, event, 0));
    Taken(cu.LaunchHostFunc(b, Count, &runs));
    EXPECT_CU(kIllegalAddress, cu.CtxSynchronize());
    EXPECT_EQ(runs, 0);
  });
}

TEST_P(FaultConformanceTest, HostNodeBehindTheFaultDoesNotRun) {
  EXPECT_IN_CHILD({
    std::atomic<int> runs = 0;
    const CuGraph graph = NewGraph();
    AddHost(graph, {AddStore(graph, {}, Reserve(1), 1)}, Count, &runs);
    const CuGraphExec exec = Instantiate(graph);
    Taken(cu.GraphLaunch(exec, a));
    Taken(cu.GraphLaunch(exec, a));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
    EXPECT_EQ(runs, 0);
  });
}

TEST_P(FaultConformanceTest, CopyBehindTheFaultDoesNotReachTheHost) {
  EXPECT_IN_CHILD({
    const DeviceAddress word = NewWords(1);
    int64_t host = 5;
    Taken(Store(a, Reserve(1), 1));
    Taken(cu.MemcpyDtoHAsync(&host, word, sizeof(host), a));
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
    EXPECT_EQ(host, 5);
  });
}

}  // namespace
}  // namespace coppice
