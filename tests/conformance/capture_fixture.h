// What the suites about stream capture share.
//
// Units: none. Threads: the test's own, unless it attaches others.

#pragma once

#include "tests/conformance/conformance_fixture.h"

namespace coppice {

inline constexpr CuCaptureMode kCaptureModes[] = {
    CuCaptureMode::kGlobal, CuCaptureMode::kThreadLocal, CuCaptureMode::kRelaxed};

class CaptureTest : public ConformanceTest {
 protected:
  // The kernel has run before any capture: what its first use may do inside one is not documented.
  void SetUp() override {
    ConformanceTest::SetUp();
    if (context == nullptr) return;
    const DeviceAddress word = NewWords(1);
    ASSERT_CU(kSuccess, Store(a, word, 0));
    ASSERT_CU(kSuccess, cu.StreamSynchronize(a));
  }

  void Begin(CuStream stream, CuCaptureMode mode = CuCaptureMode::kThreadLocal) {
    ASSERT_CU(kSuccess, cu.StreamBeginCapture(stream, mode));
  }

  CuGraph End(CuStream stream) {
    CuGraph graph = nullptr;
    EXPECT_CU(kSuccess, cu.StreamEndCapture(stream, &graph));
    return Keep(graph);
  }

  // Ends a capture that failed, and expects to be told so and to get no graph.
  void EndInvalidated(CuStream stream) { EndFailed(stream, CuResult::kStreamCaptureInvalidated); }
  void EndUnjoined(CuStream stream) { EndFailed(stream, CuResult::kStreamCaptureUnjoined); }

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

  // A capture whose outcome is not documented: it may have survived or not, but has to end.
  void EndEitherWay(CuStream stream) {
    CuGraph graph = nullptr;
    const CuResult result = cu.StreamEndCapture(stream, &graph);
    EXPECT_EQ(result == CuResult::kSuccess, graph != nullptr) << NameOf(result);
    if (graph != nullptr) Keep(graph);
    EXPECT_EQ(StatusOf(stream), CuCaptureStatus::kNone);
  }

  // Real work of `stream` runs.
  void ExpectUsable(CuStream stream) {
    const DeviceAddress word = NewWords(1);
    EXPECT_CU(kSuccess, Store(stream, word, 77));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(stream));
    EXPECT_EQ(Word(word), 77);
  }

 private:
  void EndFailed(CuStream stream, CuResult code) {
    auto graph = reinterpret_cast<CuGraph>(this);  // So that a graph left alone is no null.
    EXPECT_EQ(cu.StreamEndCapture(stream, &graph), code);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(StatusOf(stream), CuCaptureStatus::kNone);
  }
};

}  // namespace coppice
