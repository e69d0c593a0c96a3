// Goal: capture behaves as CUDA documents: what becomes a node, what is refused, what invalidates.
// Method: one small test per rule or result code, on every driver.

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

using Edges = std::vector<std::pair<int, int>>;

constexpr CuCaptureMode kModes[] = {CuCaptureMode::kGlobal, CuCaptureMode::kThreadLocal,
                                    CuCaptureMode::kRelaxed};

class CaptureConformanceTest : public ConformanceTest {
 protected:
  void Begin(CuStream stream, CuCaptureMode mode = CuCaptureMode::kThreadLocal) {
    ASSERT_CU(kSuccess, cu.StreamBeginCapture(stream, mode));
  }

  CuGraph End(CuStream stream) {
    CuGraph graph = nullptr;
    EXPECT_CU(kSuccess, cu.StreamEndCapture(stream, &graph));
    return Keep(graph);
  }

  // Ends a capture that was invalidated, and expects to be told so.
  void EndInvalidated(CuStream stream) {
    CuGraph graph = nullptr;
    EXPECT_CU(kStreamCaptureInvalidated, cu.StreamEndCapture(stream, &graph));
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(StatusOf(stream), CuCaptureStatus::kNone);
  }

  CuCaptureStatus StatusOf(CuStream stream) {
    CuCaptureStatus status = CuCaptureStatus::kNone;
    EXPECT_CU(kSuccess, cu.StreamIsCapturing(stream, &status));
    return status;
  }

  struct Info {
    CuCaptureStatus status = CuCaptureStatus::kNone;
    uint64_t id = 0;
    CuGraph graph = nullptr;
    std::vector<CuGraphNode> tail;
  };

  Info InfoOf(CuStream stream) {
    Info info;
    const CuGraphNode* nodes = nullptr;
    const CuGraphEdgeData* edges = nullptr;
    size_t count = 0;
    EXPECT_CU(kSuccess, cu.StreamGetCaptureInfo(stream, &info.status, &info.id, &info.graph, &nodes,
                                                &edges, &count));
    info.tail.assign(nodes, nodes + count);
    return info;
  }

  void SetThreadMode(CuCaptureMode mode) {
    EXPECT_CU(kSuccess, cu.ThreadExchangeStreamCaptureMode(&mode));
  }
};
COPPICE_CONFORMANCE_SUITE(CaptureConformanceTest);

// Beginning and ending.

TEST_P(CaptureConformanceTest, NothingRunsUntilTheGraphIsLaunched) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, word, 1));
  const CuGraph graph = End(a);
  EXPECT_EQ(Word(word), 0);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(word), 1);
}

TEST_P(CaptureConformanceTest, StreamIsUsableAfterItsCapture) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  End(a);
  EXPECT_EQ(StatusOf(a), CuCaptureStatus::kNone);
  EXPECT_CU(kSuccess, Store(a, word, 3));
  EXPECT_EQ(Word(word), 3);
}

TEST_P(CaptureConformanceTest, BeginChecksItsArguments) {
  EXPECT_CU(kInvalidValue, cu.StreamBeginCapture(a, static_cast<CuCaptureMode>(9)));
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamBeginCapture(nullptr, CuCaptureMode::kRelaxed));
}

TEST_P(CaptureConformanceTest, BeginOnACapturingStreamIsAnIllegalStateAndHarmless) {
  Begin(a);
  EXPECT_CU(kIllegalState, cu.StreamBeginCapture(a, CuCaptureMode::kRelaxed));
  End(a);
}

TEST_P(CaptureConformanceTest, StreamThatJoinedByAnEventCannotBeginEither) {
  Begin(a);
  Order(a, b);
  EXPECT_CU(kIllegalState, cu.StreamBeginCapture(b, CuCaptureMode::kRelaxed));
  Order(b, a);
  End(a);
}

TEST_P(CaptureConformanceTest, EndWithoutBeginIsAnIllegalState) {
  CuGraph graph = nullptr;
  EXPECT_CU(kIllegalState, cu.StreamEndCapture(a, &graph));
}

TEST_P(CaptureConformanceTest, EndOnAForkedStreamIsUnmatched) {
  Begin(a);
  Order(a, b);
  CuGraph graph = nullptr;
  EXPECT_CU(kStreamCaptureUnmatched, cu.StreamEndCapture(b, &graph));
  EXPECT_EQ(graph, nullptr);
  cu.StreamEndCapture(a, &graph);  // Whether the capture survives is not documented.
  if (graph != nullptr) Keep(graph);
}

TEST_P(CaptureConformanceTest, EndWithAnUnjoinedForkFailsAndEndsTheCapture) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, word, 1));
  CuGraph graph = nullptr;
  EXPECT_CU(kStreamCaptureUnjoined, cu.StreamEndCapture(a, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(StatusOf(a), CuCaptureStatus::kNone);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
}

TEST_P(CaptureConformanceTest, OnlyRelaxedCapturesEndOnAnotherThread) {
  for (const CuCaptureMode mode : kModes) {
    const CuStream stream = NewStream();
    Begin(stream, mode);
    CuGraph graph = nullptr;
    const CuResult expected =
        mode == CuCaptureMode::kRelaxed ? CuResult::kSuccess : CuResult::kStreamCaptureWrongThread;
    OnThread([&] { EXPECT_EQ(cu.StreamEndCapture(stream, &graph), expected); });
    if (graph == nullptr) cu.StreamEndCapture(stream, &graph);
    if (graph != nullptr) Keep(graph);
  }
}

TEST_P(CaptureConformanceTest, OtherThreadsMayCaptureWorkIntoTheStream) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  OnThread([&] { EXPECT_CU(kSuccess, Store(a, word, 1)); });
  EXPECT_EQ(NodeCount(End(a)), 1U);
}

// What becomes a node, and its dependencies.

TEST_P(CaptureConformanceTest, WorkBecomesAChainOfNodesOfItsTypes) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0, 8, a));
  EXPECT_CU(kSuccess, cu.LaunchHostFunc(
                          a, [](void*) {}, nullptr));
  const CuGraph graph = End(a);
  EXPECT_EQ(EdgesOf(graph), (Edges{{0, 1}, {1, 2}, {2, 3}}));
  std::vector<CuGraphNodeType> types;
  for (const CuGraphNode node : NodesOf(graph)) {
    types.emplace_back();
    EXPECT_CU(kSuccess, cu.GraphNodeGetType(node, &types.back()));
  }
  EXPECT_EQ(types, (std::vector{CuGraphNodeType::kKernel, CuGraphNodeType::kMemcpy,
                                CuGraphNodeType::kMemset, CuGraphNodeType::kHost}));
}

TEST_P(CaptureConformanceTest, ForkAndJoinMakeADiamond) {
  const DeviceAddress words = NewWords(4);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  Order(a, b);
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_CU(kSuccess, Move(a, words + 16, words));
  Order(b, a);
  EXPECT_CU(kSuccess, Move(a, words + 24, words + 8));
  const CuGraph graph = End(a);
  EXPECT_EQ(EdgesOf(graph), (Edges{{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 24), 1);
}

TEST_P(CaptureConformanceTest, RecordAndWaitAddNoNodes) {
  Begin(a);
  Order(a, b);
  Order(b, a);
  EXPECT_EQ(NodeCount(End(a)), 0U);
}

TEST_P(CaptureConformanceTest, ForkEndsWithTheCapture) {
  Begin(a);
  Order(a, b);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kActive);
  Order(b, a);
  End(a);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
}

TEST_P(CaptureConformanceTest, RealWorkBeforeTheCaptureIsNoDependency) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, Store(b, words + 8, 1));
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, words + 8, 2));
  EXPECT_EQ(InfoOf(b).tail.size(), 1U);
  Order(b, a);
  EXPECT_EQ(EdgesOf(End(a)), Edges());
}

TEST_P(CaptureConformanceTest, KernelParametersAreCopiedAtTheCall) {
  const DeviceAddress word = NewWords(1);
  StoreParams params{.target = PointerAt<int64_t>(word), .value = 1};
  void* arguments[] = {&params};
  Begin(a);
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  params.value = 2;
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(End(a)), a));
  EXPECT_EQ(Word(word), 1);
}

TEST_P(CaptureConformanceTest, CapturedCopyReadsTheHostWhenItRuns) {
  const DeviceAddress word = NewWords(1);
  int64_t host = 1;
  Begin(a);
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(word, &host, sizeof(host), a));
  const CuGraphExec exec = Instantiate(End(a));
  for (host = 5; host < 8; ++host) {
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
    EXPECT_EQ(Word(word), host);
  }
}

TEST_P(CaptureConformanceTest, OtherStreamsRunTheirWorkMeanwhile) {
  const DeviceAddress word = NewWords(1);
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, Store(b, word, 1));
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
  SetThreadMode(CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, cu.StreamSynchronize(b));
  SetThreadMode(CuCaptureMode::kGlobal);
  End(a);
  EXPECT_EQ(Word(word), 1);
}

// Capture information.

TEST_P(CaptureConformanceTest, InfoHasTheTailAndAGraphThatGrows) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  EXPECT_TRUE(InfoOf(a).tail.empty());
  EXPECT_CU(kSuccess, Store(a, word, 1));
  EXPECT_CU(kSuccess, Store(a, word, 2));
  const Info info = InfoOf(a);
  EXPECT_EQ(info.status, CuCaptureStatus::kActive);
  ASSERT_EQ(NodeCount(info.graph), 2U);
  EXPECT_EQ(info.tail, std::vector<CuGraphNode>{NodesOf(info.graph)[1]});
  EXPECT_EQ(EdgesOf(info.graph), (Edges{{0, 1}}));
  EXPECT_EQ(End(a), info.graph);
}

TEST_P(CaptureConformanceTest, TailUnitesBothBranchesAfterAJoin) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, Store(b, words + 8, 1));
  Order(b, a);
  EXPECT_EQ(InfoOf(a).tail, NodesOf(InfoOf(a).graph));
  End(a);
}

TEST_P(CaptureConformanceTest, NodesMayBeAddedToTheGraphWhileCapturing) {
  Begin(a);
  const CuGraph graph = InfoOf(a).graph;
  CuGraphNode node = nullptr;
  EXPECT_CU(kSuccess, cu.GraphAddEmptyNode(&node, graph, nullptr, 0));
  EXPECT_EQ(NodeCount(End(a)), 1U) << "and they need not be joined";
}

TEST_P(CaptureConformanceTest, IdsAreNotReused) {
  Begin(a);
  const uint64_t first = InfoOf(a).id;
  End(a);
  Begin(a);
  EXPECT_NE(InfoOf(a).id, first);
  End(a);
}

TEST_P(CaptureConformanceTest, StatusIsRequired) {
  EXPECT_CU(kInvalidValue, cu.StreamIsCapturing(a, nullptr));
}

// What necessarily conflicts with a capture, in every mode.

TEST_P(CaptureConformanceTest, WaitingForTheCapturingStreamInvalidates) {
  for (const CuCaptureMode mode : kModes) {
    Begin(a, mode);
    EXPECT_CU(kStreamCaptureUnsupported, cu.StreamSynchronize(a));
    EXPECT_EQ(StatusOf(a), CuCaptureStatus::kInvalidated);
    EndInvalidated(a);
  }
}

TEST_P(CaptureConformanceTest, QueryingTheCapturingStreamInvalidates) {
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(a));
  EndInvalidated(a);
}

TEST_P(CaptureConformanceTest, WaitingForTheContextInvalidatesInEveryMode) {
  for (const CuCaptureMode mode : kModes) {
    Begin(a, mode);
    OnThread([&] { EXPECT_CU(kStreamCaptureUnsupported, cu.CtxSynchronize()); });
    EndInvalidated(a);
  }
}

TEST_P(CaptureConformanceTest, WaitingForACapturedEventInvalidates) {
  for (const bool query : {false, true}) {
    Begin(a);
    const CuEvent event = NewEvent();
    EXPECT_CU(kSuccess, cu.EventRecord(event, a));
    EXPECT_CU(kCapturedEvent, query ? cu.EventQuery(event) : cu.EventSynchronize(event));
    EndInvalidated(a);
  }
}

TEST_P(CaptureConformanceTest, MergingTwoCapturesInvalidatesBoth) {
  Begin(a);
  Begin(b);
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  EXPECT_CU(kStreamCaptureMerge, cu.StreamWaitEvent(a, event, 0));
  EndInvalidated(a);
  EndInvalidated(b);
}

TEST_P(CaptureConformanceTest, WaitingForRealWorkBreaksTheIsolation) {
  const CuEvent event = NewEvent();
  EXPECT_CU(kSuccess, cu.EventRecord(event, b));
  Begin(a);
  EXPECT_CU(kStreamCaptureIsolation, cu.StreamWaitEvent(a, event, 0));
  EndInvalidated(a);
}

TEST_P(CaptureConformanceTest, LaunchingAGraphIntoTheStreamInvalidates) {
  const CuGraphExec exec = Instantiate(NewGraph());
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kStreamCaptureUnsupported, cu.GraphLaunch(exec, a));
  EndInvalidated(a);
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kStreamCaptureUnsupported, cu.GraphUpload(exec, a));
  EndInvalidated(a);
}

TEST_P(CaptureConformanceTest, InvalidatedCaptureRefusesEveryUse) {
  const DeviceAddress word = NewWords(1);
  const CuEvent event = NewEvent();
  Begin(a, CuCaptureMode::kRelaxed);
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(a));
  EXPECT_CU(kStreamCaptureInvalidated, Store(a, word, 1));
  EXPECT_CU(kStreamCaptureInvalidated, cu.EventRecord(NewEvent(), a));
  EXPECT_CU(kStreamCaptureInvalidated, cu.StreamWaitEvent(b, event, 0));
  EndInvalidated(a);
}

// What is unsafe depends on the modes.

TEST_P(CaptureConformanceTest, UnsafeCallOnTheCapturingThreadInvalidatesUnlessRelaxed) {
  for (const CuCaptureMode mode : kModes) {
    DeviceAddress address = 0;
    Begin(a, mode);
    if (mode == CuCaptureMode::kRelaxed) {
      EXPECT_CU(kSuccess, cu.MemAlloc(&address, 64));
      End(a);
      EXPECT_CU(kSuccess, cu.MemFree(address));
    } else {
      EXPECT_CU(kStreamCaptureUnsupported, cu.MemAlloc(&address, 64));
      EndInvalidated(a);
    }
  }
}

TEST_P(CaptureConformanceTest, UnsafeCallsAreThese) {
  const CuEvent event = NewEvent();
  const CuGraphExec exec = Instantiate(NewGraph());
  const DeviceAddress word = NewWords(1);
  const auto refused = [&](const char* what, CuResult result) {
    EXPECT_EQ(result, CuResult::kStreamCaptureUnsupported) << what;
    EndInvalidated(a);
    Begin(a);
  };
  Begin(a);
  refused("MemFree", cu.MemFree(word));
  refused("StreamSynchronize", cu.StreamSynchronize(b));
  refused("StreamQuery", cu.StreamQuery(b));
  refused("EventSynchronize", cu.EventSynchronize(event));
  refused("EventQuery", cu.EventQuery(event));
  refused("GraphExecDestroy", cu.GraphExecDestroy(exec));
  CuLibrary loaded = nullptr;
  refused("LibraryLoadData",
          cu.LibraryLoadData(&loaded, image(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  End(a);
}

TEST_P(CaptureConformanceTest, CreationQueriesAndVirtualMemoryAreSafe) {
  Begin(a, CuCaptureMode::kGlobal);
  NewStream();
  Instantiate(NewGraph());
  size_t bytes = 0;
  size_t total = 0;
  int value = 0;
  EXPECT_CU(kSuccess, cu.MemGetInfo(&bytes, &total));
  EXPECT_CU(kSuccess, cu.DeviceGetAttribute(&value, CuDeviceAttribute::kMultiprocessorCount, 0));
  DeviceAddress address = 0;
  EXPECT_CU(kSuccess, cu.MemAddressReserve(&address, kGranule, 0, 0, 0));
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
  Order(a, b);  // Makes an event.
  Order(b, a);
  End(a);
}

TEST_P(CaptureConformanceTest, RelaxedThreadMayMakeUnsafeCalls) {
  Begin(a, CuCaptureMode::kGlobal);
  SetThreadMode(CuCaptureMode::kRelaxed);
  DeviceAddress address = 0;
  EXPECT_CU(kSuccess, cu.MemAlloc(&address, 64));
  EXPECT_CU(kSuccess, cu.MemFree(address));
  SetThreadMode(CuCaptureMode::kGlobal);
  End(a);
}

TEST_P(CaptureConformanceTest, UnsafeCallOfAnotherThreadKillsGlobalCapturesOnly) {
  for (const CuCaptureMode mode : kModes) {
    Begin(a, mode);
    OnThread([&] {
      DeviceAddress address = 0;
      if (mode == CuCaptureMode::kGlobal) {
        EXPECT_CU(kStreamCaptureUnsupported, cu.MemAlloc(&address, 64));
      } else {
        EXPECT_CU(kSuccess, cu.MemAlloc(&address, 64));
        EXPECT_CU(kSuccess, cu.MemFree(address));
      }
    });
    if (mode == CuCaptureMode::kGlobal) {
      EndInvalidated(a);
    } else {
      End(a);
    }
  }
}

TEST_P(CaptureConformanceTest, ThreadLocalThreadLeavesGlobalCapturesOfOthersAlone) {
  Begin(a, CuCaptureMode::kGlobal);
  OnThread([&] {
    SetThreadMode(CuCaptureMode::kThreadLocal);
    DeviceAddress address = 0;
    EXPECT_CU(kSuccess, cu.MemAlloc(&address, 64));
    EXPECT_CU(kSuccess, cu.MemFree(address));
  });
  End(a);
}

TEST_P(CaptureConformanceTest, ExchangeReturnsTheEarlierModeOfTheThread) {
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
}

}  // namespace
}  // namespace coppice
