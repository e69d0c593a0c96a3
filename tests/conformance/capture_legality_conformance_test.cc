// Goal: potentially unsafe calls are refused and invalidate where the modes say so, and nowhere
// else. Method: one small test per rule of cuThreadExchangeStreamCaptureMode's documentation, on
// every driver. CUDA lists no unsafe calls. Those here were seen by ROCm's hip-tests, PyTorch and
// NVIDIA's cuda-python; a call that nobody tells about has only to be refused wholly or to succeed
// wholly.

#include "tests/conformance/capture_fixture.h"

namespace coppice {
namespace {

class CaptureLegalityConformanceTest : public CaptureTest {
 protected:
  // An unsafe call: allocates and, if it may, frees again.
  CuResult Allocate() const {
    DeviceAddress address = 0;
    const CuResult result = cu.MemAlloc(&address, 64);
    if (result == CuResult::kSuccess) {
      EXPECT_CU(kSuccess, cu.MemFree(address));
    }
    return result;
  }

  // Makes a call while a thread-local capture of this thread is open, which it has to refuse.
  template <typename Call>
  void ExpectUnsafe(const char* what, Call call) {
    Begin(a);
    EXPECT_EQ(call(), CuResult::kStreamCaptureUnsupported) << what;
    EndInvalidated(a);
  }

  // Makes a call while a global capture is open: if refused, then with 900, which invalidates.
  template <typename Call>
  bool SucceedsOrInvalidates(Call call) {
    Begin(a, CuCaptureMode::kGlobal);
    const CuResult result = call();
    if (result == CuResult::kSuccess) {
      End(a);
    } else {
      EXPECT_CU(kStreamCaptureUnsupported, result);
      EndInvalidated(a);
    }
    return result == CuResult::kSuccess;
  }
};
COPPICE_CONFORMANCE_SUITE(CaptureLegalityConformanceTest);

// Unsafe calls on the thread that captures.

TEST_P(CaptureLegalityConformanceTest, UnsafeCallOnTheCapturingThreadInvalidatesUnlessRelaxed) {
  for (const CuCaptureMode mode : kCaptureModes) {
    Begin(a, mode);
    if (mode == CuCaptureMode::kRelaxed) {
      EXPECT_CU(kSuccess, Allocate());
      End(a);
    } else {
      EXPECT_CU(kStreamCaptureUnsupported, Allocate());
      EndInvalidated(a);
    }
  }
}

TEST_P(CaptureLegalityConformanceTest, FreeingIsUnsafe) {
  const DeviceAddress word = NewWords(1);
  ExpectUnsafe("MemFree", [&] { return cu.MemFree(word); });
  EXPECT_CU(kSuccess, Store(a, word, 1));
  EXPECT_EQ(Word(word), 1) << "what was refused was not done";
}

TEST_P(CaptureLegalityConformanceTest, WaitingForOtherStreamsIsUnsafe) {
  ExpectUnsafe("StreamSynchronize", [&] { return cu.StreamSynchronize(b); });
  ExpectUnsafe("StreamQuery", [&] { return cu.StreamQuery(b); });
}

TEST_P(CaptureLegalityConformanceTest, WaitingForOrdinaryEventsIsUnsafe) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  ExpectUnsafe("EventSynchronize", [&] { return cu.EventSynchronize(event); });
  ExpectUnsafe("EventQuery", [&] { return cu.EventQuery(event); });
}

TEST_P(CaptureLegalityConformanceTest, DestroyingAnExecIsUnsafe) {
  const CuGraphExec exec = Instantiate(NewGraph());
  ExpectUnsafe("GraphExecDestroy", [&] { return cu.GraphExecDestroy(exec); });
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a)) << "it is still there";
}

TEST_P(CaptureLegalityConformanceTest, UnsafeCallIsSafeAgainOnceTheCaptureHasEnded) {
  Begin(a, CuCaptureMode::kGlobal);
  EXPECT_CU(kStreamCaptureUnsupported, Allocate());
  EndInvalidated(a);
  EXPECT_CU(kSuccess, Allocate());
  Begin(a, CuCaptureMode::kGlobal);
  End(a);
  EXPECT_CU(kSuccess, Allocate());
}

// Safe calls, in the strictest mode.

TEST_P(CaptureLegalityConformanceTest, QueriesOfTheDeviceAreSafe) {
  int value = 0;
  Begin(a, CuCaptureMode::kGlobal);
  EXPECT_CU(kSuccess, cu.DeviceGetAttribute(&value, CuDeviceAttribute::kMultiprocessorCount, 0));
  EXPECT_CU(kSuccess, cu.DeviceGetCount(&value));
  End(a);
}

TEST_P(CaptureLegalityConformanceTest, MakingEventsAndOtherGraphsIsSafe) {
  Begin(a, CuCaptureMode::kGlobal);
  NewEvent();
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  EXPECT_CU(kSuccess, cu.GraphAddEmptyNode(&node, graph, nullptr, 0));
  EXPECT_EQ(NodeCount(End(a)), 0U);
  EXPECT_EQ(NodeCount(graph), 1U);
}

TEST_P(CaptureLegalityConformanceTest, WorkOfOtherStreamsIsSafe) {
  const DeviceAddress words = NewWords(3);
  Begin(a, CuCaptureMode::kGlobal);
  EXPECT_CU(kSuccess, Store(b, words, 1));
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words + 16, 2, 1, b));
  EXPECT_CU(kSuccess, cu.EventRecord(NewEvent(), b));
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
  EXPECT_EQ(NodeCount(End(a)), 0U);
  EXPECT_EQ(Word(words + 8), 1);
  EXPECT_EQ(Word(words + 16), 2);
}

// Calls that nobody tells about.

TEST_P(CaptureLegalityConformanceTest, AskingForFreeMemorySucceedsOrInvalidates) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  SucceedsOrInvalidates([&] { return cu.MemGetInfo(&free_bytes, &total_bytes); });
  ExpectUsable(a);
}

TEST_P(CaptureLegalityConformanceTest, AskingForTheIdOfAnAllocationSucceedsOrInvalidates) {
  const DeviceAddress word = NewWords(1);
  uint64_t id = 0;
  SucceedsOrInvalidates(
      [&] { return cu.PointerGetAttribute(&id, CuPointerAttribute::kBufferId, word); });
  ExpectUsable(a);
}

TEST_P(CaptureLegalityConformanceTest, MeasuringEarlierWorkSucceedsOrInvalidates) {
  const CuEvent event = NewEvent(kEventDefault);
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  EXPECT_CU(kSuccess, cu.EventSynchronize(event));
  float milliseconds = 0;
  SucceedsOrInvalidates([&] { return cu.EventElapsedTime(&milliseconds, event, event); });
  ExpectUsable(b);
}

TEST_P(CaptureLegalityConformanceTest, MakingAStreamSucceedsOrInvalidates) {
  CuStream stream = nullptr;
  if (SucceedsOrInvalidates([&] { return cu.StreamCreate(&stream, kStreamNonBlocking); })) {
    ExpectUsable(stream);
    EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  }
  ExpectUsable(a);
}

TEST_P(CaptureLegalityConformanceTest, DestroyingAnIdleStreamOrEventSucceedsOrInvalidates) {
  CuStream stream = nullptr;
  CuEvent event = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
  ASSERT_CU(kSuccess, cu.EventCreate(&event, kEventDisableTiming));
  if (!SucceedsOrInvalidates([&] { return cu.StreamDestroy(stream); })) {
    EXPECT_CU(kSuccess, cu.StreamDestroy(stream)) << "what was refused was not done";
  }
  if (!SucceedsOrInvalidates([&] { return cu.EventDestroy(event); })) {
    EXPECT_CU(kSuccess, cu.EventDestroy(event)) << "what was refused was not done";
  }
}

TEST_P(CaptureLegalityConformanceTest, LoadingAndUnloadingALibrarySucceedOrInvalidate) {
  CuLibrary loaded = nullptr;
  const auto load = [&] {
    return cu.LibraryLoadData(&loaded, image(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  if (!SucceedsOrInvalidates(load)) {
    ASSERT_CU(kSuccess, load());
  }
  if (!SucceedsOrInvalidates([&] { return cu.LibraryUnload(loaded); })) {
    EXPECT_CU(kSuccess, cu.LibraryUnload(loaded)) << "what was refused was not done";
  }
  ExpectUsable(a);
}

TEST_P(CaptureLegalityConformanceTest, FirstUseOfAKernelSucceedsOrInvalidates) {
  const DeviceAddress target = NewWords(1);
  CuLibrary fresh = nullptr;
  ASSERT_CU(kSuccess,
            cu.LibraryLoadData(&fresh, image(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CuKernel kernel = nullptr;
  ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, fresh, "Fill"));
  FillParams params{.target = PointerAt<float>(target), .count = 1, .value = 1};
  void* arguments[] = {&params};
  SucceedsOrInvalidates([&] {
    return cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                           arguments, nullptr);
  });
  EXPECT_EQ(Word(target), 0);
  EXPECT_CU(kSuccess, cu.LibraryUnload(fresh));
}

TEST_P(CaptureLegalityConformanceTest, OtherExecsSucceedOrInvalidate) {
  const CuGraph graph = NewGraph();
  const CuGraphExec exec = Instantiate(graph);
  CuGraphExec made = nullptr;
  if (SucceedsOrInvalidates([&] { return cu.GraphInstantiateWithFlags(&made, graph, 0); })) {
    EXPECT_CU(kSuccess, cu.GraphExecDestroy(made));
  }
  SucceedsOrInvalidates([&] { return cu.GraphLaunch(exec, b); });
  SucceedsOrInvalidates([&] { return cu.GraphUpload(exec, b); });
  ExpectUsable(b);
}

TEST_P(CaptureLegalityConformanceTest, ReservingAddressesSucceedsOrInvalidates) {
  DeviceAddress address = 0;
  const auto reserve = [&] { return cu.MemAddressReserve(&address, kGranule, 0, 0, 0); };
  if (!SucceedsOrInvalidates(reserve)) {
    ASSERT_CU(kSuccess, reserve());
  }
  if (!SucceedsOrInvalidates([&] { return cu.MemAddressFree(address, kGranule); })) {
    EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
  }
}

// PyTorch grows its segments during captures: whatever the driver says, the memory is whole.
TEST_P(CaptureLegalityConformanceTest, MappingMemorySucceedsOrInvalidates) {
  const CuMemAllocationProperties properties{
      .type = CuMemAllocationType::kPinned,
      .location = {.type = CuMemLocationType::kDevice, .id = 0}};
  const CuMemAccessDescriptor access{.location = properties.location,
                                     .flags = CuMemAccessFlags::kReadWrite};
  DeviceAddress address = 0;
  CuMemoryHandle handle = 0;
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&address, kGranule, 0, 0, 0));
  const auto whole = [&](auto call) {
    if (!SucceedsOrInvalidates(call)) {
      EXPECT_CU(kSuccess, call()) << "what was refused was not done";
    }
  };
  whole([&] { return cu.MemCreate(&handle, kGranule, &properties, 0); });
  whole([&] { return cu.MemMap(address, kGranule, 0, handle, 0); });
  whole([&] { return cu.MemSetAccess(address, kGranule, &access, 1); });
  EXPECT_CU(kSuccess, Store(a, address, 4));
  EXPECT_EQ(Word(address), 4);
  whole([&] { return cu.MemUnmap(address, kGranule); });
  whole([&] { return cu.MemRelease(handle); });
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
}

// Other threads, and the mode of a thread.

TEST_P(CaptureLegalityConformanceTest, RelaxedThreadMayMakeUnsafeCalls) {
  Begin(a, CuCaptureMode::kGlobal);
  SetThreadMode(CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, Allocate());
  SetThreadMode(CuCaptureMode::kGlobal);
  End(a);
}

TEST_P(CaptureLegalityConformanceTest, UnsafeCallOfAnotherThreadKillsGlobalCapturesOnly) {
  for (const CuCaptureMode mode : kCaptureModes) {
    Begin(a, mode);
    CuResult result = CuResult::kUnknown;
    OnThread([&] { result = Allocate(); });
    if (mode == CuCaptureMode::kGlobal) {
      EXPECT_CU(kStreamCaptureUnsupported, result);
      EndInvalidated(a);
    } else {
      EXPECT_CU(kSuccess, result);
      End(a);
    }
  }
}

TEST_P(CaptureLegalityConformanceTest, ThreadLocalThreadLeavesGlobalCapturesOfOthersAlone) {
  Begin(a, CuCaptureMode::kGlobal);
  OnThread([&] {
    SetThreadMode(CuCaptureMode::kThreadLocal);
    EXPECT_CU(kSuccess, Allocate());
  });
  End(a);
}

TEST_P(CaptureLegalityConformanceTest, ExchangeReturnsTheEarlierModeOfTheThread) {
  CuCaptureMode mode = CuCaptureMode::kRelaxed;
  EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CuCaptureMode::kGlobal);
  OnThread([&] {
    CuCaptureMode other = CuCaptureMode::kThreadLocal;
    EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&other));
    EXPECT_EQ(other, CuCaptureMode::kGlobal);
  });
  EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CuCaptureMode::kRelaxed);
  mode = static_cast<CuCaptureMode>(9);
  EXPECT_CU(kInvalidValue, cu.ThreadExchangeStreamCaptureMode(&mode));
  EXPECT_CU(kInvalidValue, cu.ThreadExchangeStreamCaptureMode(nullptr));
}

TEST_P(CaptureLegalityConformanceTest, ModesNest) {
  CuCaptureMode outer = CuCaptureMode::kThreadLocal;
  CuCaptureMode inner = CuCaptureMode::kRelaxed;
  EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&outer));
  EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&inner));
  EXPECT_EQ(inner, CuCaptureMode::kThreadLocal);
  EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&inner));
  EXPECT_EQ(inner, CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&outer));
  EXPECT_EQ(outer, CuCaptureMode::kThreadLocal);
}

TEST_P(CaptureLegalityConformanceTest, ModeOfTheThreadIsNotTheModeOfItsCaptures) {
  Begin(a, CuCaptureMode::kGlobal);
  SetThreadMode(CuCaptureMode::kRelaxed);
  OnThread([&] { EXPECT_CU(kStreamCaptureUnsupported, Allocate()); });
  SetThreadMode(CuCaptureMode::kGlobal);
  EndInvalidated(a);
}

TEST_P(CaptureLegalityConformanceTest, ThreadLocalThreadIsStillBoundByItsOwnCaptures) {
  SetThreadMode(CuCaptureMode::kThreadLocal);
  for (const CuCaptureMode mode : {CuCaptureMode::kGlobal, CuCaptureMode::kThreadLocal}) {
    Begin(a, mode);
    EXPECT_CU(kStreamCaptureUnsupported, Allocate());
    EndInvalidated(a);
  }
  SetThreadMode(CuCaptureMode::kGlobal);
}

TEST_P(CaptureLegalityConformanceTest, ModeIsReadAtTheCall) {
  Begin(a, CuCaptureMode::kGlobal);
  SetThreadMode(CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, Allocate());
  SetThreadMode(CuCaptureMode::kGlobal);
  EXPECT_CU(kStreamCaptureUnsupported, Allocate());
  EndInvalidated(a);
}

TEST_P(CaptureLegalityConformanceTest, ThreadThatFillsACaptureIsNotBoundByIt) {
  const DeviceAddress word = NewWords(1);
  Begin(a, CuCaptureMode::kThreadLocal);
  OnThread([&] {
    EXPECT_CU(kSuccess, Store(a, word, 1));
    EXPECT_CU(kSuccess, Allocate());
  });
  EXPECT_EQ(NodeCount(End(a)), 1U);
}

TEST_P(CaptureLegalityConformanceTest, UnsafeCallOfAThirdThreadKillsEveryGlobalCapture) {
  Begin(a, CuCaptureMode::kGlobal);
  OnThread([&] {
    Begin(b, CuCaptureMode::kGlobal);
    OnThread([&] { EXPECT_CU(kStreamCaptureUnsupported, Allocate()); });
    EndInvalidated(b);
  });
  EndInvalidated(a);
}

// Whether the relaxed capture lives on is not documented.
TEST_P(CaptureLegalityConformanceTest, RefusalForOneCaptureLeavesARelaxedOneWhole) {
  Begin(a, CuCaptureMode::kGlobal);
  OnThread([&] {
    Begin(b, CuCaptureMode::kRelaxed);
    EXPECT_CU(kStreamCaptureUnsupported, Allocate());
    EndEitherWay(b);
  });
  EndInvalidated(a);
}

// PyTorch saw a watchdog's query of an old event kill the captures of other threads.
TEST_P(CaptureLegalityConformanceTest, QueryOfAnOldEventByAnotherThreadKillsGlobalCaptures) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  Begin(a, CuCaptureMode::kGlobal);
  OnThread([&] { EXPECT_CU(kStreamCaptureUnsupported, cu.EventQuery(event)); });
  EndInvalidated(a);
  Begin(a, CuCaptureMode::kThreadLocal);
  OnThread([&] { EXPECT_CU(kSuccess, cu.EventSynchronize(event)); });
  End(a);
}

}  // namespace
}  // namespace coppice
