// Goal: a capture begins, ends, tells about itself and is invalidated as CUDA documents.
// Method: one small test per rule or result code, on every driver. The rules are those of the
// Programming Guide on stream capture, "prohibited and unhandled operations" and "invalidation";
// the codes 401 and 900 to 908 are those that ROCm's hip-tests expect of CUDA.

#include "tests/conformance/capture_fixture.h"

namespace coppice {
namespace {

class CaptureConformanceTest : public CaptureTest {};
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

TEST_P(CaptureConformanceTest, BeginChecksItsArguments) {
  EXPECT_CU(kInvalidValue, cu.StreamBeginCapture(a, static_cast<CuCaptureMode>(9)));
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamBeginCapture(nullptr, CuCaptureMode::kRelaxed));
  const auto legacy = reinterpret_cast<CuStream>(uintptr_t{1});
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamBeginCapture(legacy, CuCaptureMode::kRelaxed));
}

TEST_P(CaptureConformanceTest, BlockingStreamsCapture) {
  const DeviceAddress word = NewWords(1);
  CuStream blocking = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&blocking, 0));
  Begin(blocking);
  EXPECT_CU(kSuccess, Store(blocking, word, 1));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(End(blocking)), a));
  EXPECT_EQ(Word(word), 1);
  EXPECT_CU(kSuccess, cu.StreamDestroy(blocking));
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

TEST_P(CaptureConformanceTest, EndsOnceAndNotBeforeItBegins) {
  CuGraph graph = nullptr;
  EXPECT_CU(kIllegalState, cu.StreamEndCapture(a, &graph));
  Begin(a);
  End(a);
  EXPECT_CU(kIllegalState, cu.StreamEndCapture(a, &graph));
  EXPECT_EQ(graph, nullptr);
}

TEST_P(CaptureConformanceTest, EndNeedsAPlaceForTheGraph) {
  Begin(a);
  EXPECT_CU(kInvalidValue, cu.StreamEndCapture(a, nullptr));
  EndEitherWay(a);
  ExpectUsable(a);
}

TEST_P(CaptureConformanceTest, EndOnAForkedStreamIsUnmatched) {
  Begin(a);
  Order(a, b);
  CuGraph graph = nullptr;
  EXPECT_CU(kStreamCaptureUnmatched, cu.StreamEndCapture(b, &graph));
  EXPECT_EQ(graph, nullptr);
  EndEitherWay(a);
  ExpectUsable(a);
  ExpectUsable(b);
}

TEST_P(CaptureConformanceTest, StreamsAreUsableAfterAnUnjoinedEnd) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  Order(a, b);
  EXPECT_CU(kSuccess, Store(b, word, 1));
  EndUnjoined(a);
  ExpectUsable(a);
  ExpectUsable(b);
  EXPECT_EQ(Word(word), 0) << "what was captured never runs";
  Begin(a);
  EXPECT_EQ(NodeCount(End(a)), 0U);
}

TEST_P(CaptureConformanceTest, OnlyRelaxedCapturesEndOnAnotherThread) {
  for (const CuCaptureMode mode : kCaptureModes) {
    const CuStream stream = NewStream();
    Begin(stream, mode);
    CuGraph graph = nullptr;
    const bool relaxed = mode == CuCaptureMode::kRelaxed;
    OnThread([&] {
      EXPECT_EQ(cu.StreamEndCapture(stream, &graph),
                relaxed ? CuResult::kSuccess : CuResult::kStreamCaptureWrongThread);
    });
    EXPECT_EQ(graph != nullptr, relaxed);
    if (relaxed) {
      Keep(graph);
    } else {
      EndEitherWay(stream);
    }
    ExpectUsable(stream);
  }
}

TEST_P(CaptureConformanceTest, RelaxedCaptureWandersBetweenThreads) {
  const DeviceAddress words = NewWords(2);
  CuGraph graph = nullptr;
  OnThread([&] {
    Begin(a, CuCaptureMode::kRelaxed);
    EXPECT_CU(kSuccess, Store(a, words, 4));
  });
  OnThread([&] { EXPECT_CU(kSuccess, Move(a, words + 8, words)); });
  OnThread([&] { EXPECT_CU(kSuccess, cu.StreamEndCapture(a, &graph)); });
  EXPECT_EQ(EdgesOf(Keep(graph)), (Edges{{0, 1}}));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 8), 4);
}

TEST_P(CaptureConformanceTest, CapturesOfOneThreadAreIndependent) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  Begin(b);
  EXPECT_NE(InfoOf(a).id, InfoOf(b).id);
  EXPECT_NE(InfoOf(a).graph, InfoOf(b).graph);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, Store(b, words + 8, 2));
  EXPECT_CU(kSuccess, Store(b, words + 8, 3));
  EXPECT_EQ(NodeCount(End(a)), 1U);
  EXPECT_EQ(StatusOf(b), CuCaptureStatus::kActive);
  EXPECT_EQ(NodeCount(End(b)), 2U);
}

TEST_P(CaptureConformanceTest, CapturesOfTwoThreadsAreIndependent) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  OnThread([&] {
    Begin(b);
    EXPECT_CU(kSuccess, Store(b, words + 8, 2));
    EXPECT_EQ(NodeCount(End(b)), 1U);
  });
  EXPECT_CU(kSuccess, Store(a, words, 3));
  EXPECT_EQ(NodeCount(End(a)), 2U);
}

// Capture information: the documentation of cuStreamIsCapturing and cuStreamGetCaptureInfo.

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

TEST_P(CaptureConformanceTest, InfoButTheStatusIsOptional) {
  EXPECT_CU(kInvalidValue, cu.StreamIsCapturing(a, nullptr));
  EXPECT_EQ(InfoOf(a).status, CuCaptureStatus::kNone);
  Begin(a);
  CuCaptureStatus status = CuCaptureStatus::kNone;
  EXPECT_CU(kSuccess,
            cu.StreamGetCaptureInfo(a, &status, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, CuCaptureStatus::kActive);
  EXPECT_CU(kInvalidValue,
            cu.StreamGetCaptureInfo(a, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
  End(a);
}

TEST_P(CaptureConformanceTest, ForkedStreamsShareTheCapture) {
  Begin(a);
  Order(a, b);
  EXPECT_EQ(InfoOf(b).status, CuCaptureStatus::kActive);
  EXPECT_EQ(InfoOf(b).id, InfoOf(a).id);
  EXPECT_EQ(InfoOf(b).graph, InfoOf(a).graph);
  Order(b, a);
  End(a);
}

TEST_P(CaptureConformanceTest, AskingHarmsNothing) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  for (int i = 0; i < 3; ++i) {
    EXPECT_CU(kSuccess, Store(a, word, i));
    EXPECT_EQ(InfoOf(a).tail.size(), 1U);
    OnThread([&] { EXPECT_EQ(StatusOf(a), CuCaptureStatus::kActive); });
  }
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 1}, {1, 2}}));
}

}  // namespace
}  // namespace coppice
