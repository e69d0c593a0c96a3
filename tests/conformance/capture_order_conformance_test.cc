// Goal: what a capture records and in which order: nodes, forks, joins, and when a join is missing.
// Method: one small test per rule of the Programming Guide's "cross-stream dependencies and
// events", on every driver. Edges are pairs of positions in the order of creation.

#include "tests/conformance/capture_fixture.h"

namespace coppice {
namespace {

class CaptureOrderConformanceTest : public CaptureTest {
 protected:
  CuEvent Recorded(CuStream stream) {
    const CuEvent event = NewEvent();
    EXPECT_CU(kSuccess, cu.EventRecord(event, stream));
    return event;
  }
};
COPPICE_CONFORMANCE_SUITE(CaptureOrderConformanceTest);

// What becomes a node.

TEST_P(CaptureOrderConformanceTest, WorkBecomesAChainOfNodesOfItsTypes) {
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

TEST_P(CaptureOrderConformanceTest, RecordAndWaitAddNoNodes) {
  Begin(a);
  Order(a, b);
  Order(b, a);
  EXPECT_EQ(NodeCount(End(a)), 0U);
}

TEST_P(CaptureOrderConformanceTest, CopiesOfEveryDirectionAreCopyNodes) {
  const DeviceAddress words = NewWords(2);
  int64_t in = 3;
  int64_t out = 0;
  Begin(a);
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(words, &in, sizeof(in), a));
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&out, words + 8, sizeof(out), a));
  const CuGraph graph = End(a);
  for (const CuGraphNode node : NodesOf(graph)) {
    CuGraphNodeType type{};
    EXPECT_CU(kSuccess, cu.GraphNodeGetType(node, &type));
    EXPECT_EQ(type, CuGraphNodeType::kMemcpy);
  }
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(out, 3);
}

TEST_P(CaptureOrderConformanceTest, CapturedWordFillsWriteWords) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  EXPECT_CU(kSuccess, cu.MemsetD32Async(words + 4, 0x01020304, 2, a));
  const CuGraph graph = End(a);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words), 0x0102030400000000);
  EXPECT_EQ(Word(words + 8), 0x01020304);
}

// Parameters are copied at the call; host memory of a copy is read and written at each launch.

TEST_P(CaptureOrderConformanceTest, KernelParametersAreCopiedAtTheCall) {
  const DeviceAddress word = NewWords(1);
  auto params = std::make_unique<StoreParams>();
  *params = {.target = PointerAt<int64_t>(word), .value = 1};
  void* arguments[] = {params.get()};
  Begin(a);
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  params->value = 2;
  params.reset();
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(End(a)), a));
  EXPECT_EQ(Word(word), 1);
}

TEST_P(CaptureOrderConformanceTest, CapturedCopyReadsTheHostWhenItRuns) {
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

TEST_P(CaptureOrderConformanceTest, CapturedCopyWritesTheHostAtEachLaunch) {
  const DeviceAddress word = NewWords(1);
  int64_t host = 0;
  Begin(a);
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&host, word, sizeof(host), a));
  const CuGraphExec exec = Instantiate(End(a));
  for (int64_t value = 4; value < 7; ++value) {
    EXPECT_CU(kSuccess, Store(a, word, value));
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    EXPECT_EQ(host, value);
  }
}

// Fork and join.

TEST_P(CaptureOrderConformanceTest, ForkAndJoinMakeADiamond) {
  const DeviceAddress words = NewWords(4);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  Order(a, b);
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  EXPECT_CU(kSuccess, Move(a, words + 16, words));
  Order(b, a);
  EXPECT_CU(kSuccess, Move(a, words + 24, words + 8));
  const CuGraph graph = End(a);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
  EXPECT_EQ(EdgesOf(graph), (Edges{{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 24), 1);
}

TEST_P(CaptureOrderConformanceTest, ForkEndsWithTheCapture) {
  Begin(a);
  Order(a, b);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kActive);
  Order(b, a);
  End(a);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
}

TEST_P(CaptureOrderConformanceTest, RealWorkBeforeTheCaptureIsNoDependency) {
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

TEST_P(CaptureOrderConformanceTest, WideForkHasABranchPerStream) {
  constexpr int kBranches = 6;
  const DeviceAddress words = NewWords(kBranches + 2);
  std::vector<CuStream> streams;
  for (int i = 0; i < kBranches; ++i)
    streams.push_back(NewStream());
  Edges expected;
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 5));
  for (int i = 0; i < kBranches; ++i) {
    Order(a, streams[i]);
    EXPECT_CU(kSuccess, Move(streams[i], words + 8 * (i + 1), words));
    expected.emplace_back(0, i + 1);
  }
  for (int i = 0; i < kBranches; ++i) {
    Order(streams[i], a);
    expected.emplace_back(i + 1, kBranches + 1);
  }
  EXPECT_CU(kSuccess, Move(a, words + 8 * (kBranches + 1), words + 8 * kBranches));
  const CuGraph graph = End(a);
  Edges edges = EdgesOf(graph);
  std::erase(edges, std::pair(0, kBranches + 1));  // Implied by the others.
  EXPECT_EQ(edges, expected);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 8 * (kBranches + 1)), 5);
}

TEST_P(CaptureOrderConformanceTest, ForksForkAgain) {
  const DeviceAddress words = NewWords(3);
  const CuStream c = NewStream();
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  Order(a, b);
  EXPECT_CU(kSuccess, Move(b, words + 8, words));
  Order(b, c);
  EXPECT_CU(kSuccess, Move(c, words + 16, words + 8));
  Order(c, b);
  Order(b, a);
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 1}, {1, 2}}));
}

TEST_P(CaptureOrderConformanceTest, BranchMayJoinThroughAnother) {
  const DeviceAddress words = NewWords(4);
  const CuStream c = NewStream();
  Begin(a);
  Order(a, b);
  Order(a, c);
  EXPECT_CU(kSuccess, Store(b, words, 1));
  EXPECT_CU(kSuccess, Store(c, words + 8, 2));
  Order(b, c);
  EXPECT_CU(kSuccess, Move(c, words + 16, words));
  Order(c, a);
  const CuGraph graph = End(a);
  EXPECT_EQ(EdgesOf(graph), (Edges{{0, 2}, {1, 2}}));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 16), 1);
}

TEST_P(CaptureOrderConformanceTest, BranchStartsWhereItsEventWasRecorded) {
  const DeviceAddress words = NewWords(3);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  const CuEvent after_first = Recorded(a);
  EXPECT_CU(kSuccess, Store(a, words + 8, 2));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, after_first, 0));
  EXPECT_CU(kSuccess, Store(b, words + 16, 3));
  Order(b, a);
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 1}, {0, 2}}));
}

TEST_P(CaptureOrderConformanceTest, WaitUsesTheCapturedRecordOfItsOwnTime) {
  const DeviceAddress words = NewWords(4);
  const CuStream c = NewStream();
  const CuEvent event = NewEvent();
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(b, event, 0));
  EXPECT_CU(kSuccess, Store(a, words + 8, 2));
  EXPECT_CU(kSuccess, cu.EventRecord(event, a));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(c, event, 0));
  EXPECT_CU(kSuccess, Store(b, words + 16, 3));
  EXPECT_CU(kSuccess, Store(c, words + 24, 4));
  Order(b, a);
  Order(c, a);
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 1}, {0, 2}, {1, 3}}));
}

TEST_P(CaptureOrderConformanceTest, RepeatedWaitIsOneDependency) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, words, 1));
  const CuEvent event = Recorded(b);
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(a, event, 0));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(a, event, 0));
  EXPECT_EQ(InfoOf(a).tail.size(), 1U);
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 1}}));
}

TEST_P(CaptureOrderConformanceTest, WaitForItselfChangesNothing) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  Order(a, a);
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 1}}));
}

TEST_P(CaptureOrderConformanceTest, BranchesStayUnordered) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, Store(b, words + 8, 2));
  Order(b, a);
  EXPECT_EQ(EdgesOf(End(a)), Edges());
}

// 904: a branch counts as joined if its last node precedes the end of the origin.

TEST_P(CaptureOrderConformanceTest, WorkBehindAJoinIsUnjoined) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, words, 1));
  Order(b, a);
  EXPECT_CU(kSuccess, Store(b, words + 8, 1));
  EndUnjoined(a);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
}

TEST_P(CaptureOrderConformanceTest, JoinOfAnEarlierEventIsNotEnough) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, words, 1));
  const CuEvent early = Recorded(b);
  EXPECT_CU(kSuccess, Store(b, words + 8, 1));
  EXPECT_CU(kSuccess, cu.StreamWaitEvent(a, early, 0));
  EndUnjoined(a);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
}

TEST_P(CaptureOrderConformanceTest, BranchOfABranchHasToJoinToo) {
  const DeviceAddress words = NewWords(2);
  const CuStream c = NewStream();
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, words, 1));
  Order(b, c);
  EXPECT_CU(kSuccess, Store(c, words + 8, 1));
  Order(b, a);
  EndUnjoined(a);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
  EXPECT_EQ(StatusOf(c), CuCaptureStatus::kNone);
}

TEST_P(CaptureOrderConformanceTest, JoinedBranchMayForkAgain) {
  const DeviceAddress words = NewWords(3);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, words, 1));
  Order(b, a);
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  Order(a, b);
  EXPECT_CU(kSuccess, Move(b, words + 16, words + 8));
  Order(b, a);
  const CuGraph graph = End(a);
  Edges edges = EdgesOf(graph);
  std::erase(edges, std::pair(0, 2));  // Implied by the others.
  EXPECT_EQ(edges, (Edges{{0, 1}, {1, 2}}));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 16), 1);
}

TEST_P(CaptureOrderConformanceTest, ForkWithoutWorkIsJoinedOrUnjoinedButEnds) {
  Begin(a);
  Order(a, b);
  EndEitherWay(a);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kNone);
  ExpectUsable(b);
}

// Leaving the capture: real work goes on behind the real work before it.

TEST_P(CaptureOrderConformanceTest, OtherStreamsRunTheirWorkMeanwhile) {
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

TEST_P(CaptureOrderConformanceTest, RealWorkAroundACaptureStaysInOrder) {
  const DeviceAddress words = NewWords(4);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, Store(b, words + 16, 2));
  Begin(a);
  Order(a, b);
  Order(b, a);
  End(a);
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  EXPECT_CU(kSuccess, Move(b, words + 24, words + 16));
  EXPECT_EQ(Word(words + 8), 1);
  EXPECT_EQ(Word(words + 24), 2);
}

}  // namespace
}  // namespace coppice
