// Goal: what a stream's next captured node depends on can be changed, and so a graph gets into a
// capture as a child. Method: one small test per rule of cuStreamUpdateCaptureDependencies's
// documentation, on every driver.

#include "tests/conformance/capture_fixture.h"

namespace coppice {
namespace {

using Nodes = std::vector<CuGraphNode>;

class CaptureDependenciesConformanceTest : public CaptureTest {
 protected:
  CuResult Update(CuStream stream, Nodes nodes, unsigned flags) {
    return cu.StreamUpdateCaptureDependencies(stream, nodes.data(), nullptr, nodes.size(), flags);
  }

  CuGraphNode AddEmpty(CuGraph graph) {
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddEmptyNode(&node, graph, nullptr, 0));
    return node;
  }

  // Adds `child` behind what `stream` has captured so far.
  CuGraphNode AddChild(CuStream stream, CuGraph child) {
    const Info info = InfoOf(stream);
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddChildGraphNode(&node, info.graph, info.tail.data(),
                                                  info.tail.size(), child));
    return node;
  }

  // A graph that copies the word at `source` to `target`.
  CuGraph NewMove(DeviceAddress target, DeviceAddress source) {
    const CuMemcpyParams params{
        .source_device = source, .target_device = target, .width_bytes = sizeof(int64_t)};
    const CuGraph graph = NewGraph();
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &params, context));
    return graph;
  }
};
COPPICE_CONFORMANCE_SUITE(CaptureDependenciesConformanceTest);

// What is set no longer holds has not to be joined either.
TEST_P(CaptureDependenciesConformanceTest, SetReplacesWhatTheNextNodeDependsOn) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, word, 1));
  const CuGraphNode other = AddEmpty(InfoOf(a).graph);
  EXPECT_CU(kSuccess, Update(a, {other}, kSetCaptureDependencies));
  EXPECT_EQ(InfoOf(a).tail, Nodes{other});
  EXPECT_CU(kSuccess, Store(a, word, 2));
  const CuGraph graph = End(a);
  EXPECT_EQ(NodeCount(graph), 3U);
  EXPECT_EQ(EdgesOf(graph), (Edges{{1, 2}}));
}

TEST_P(CaptureDependenciesConformanceTest, AddKeepsWhatTheNextNodeDependsOn) {
  const DeviceAddress word = NewWords(1);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, word, 1));
  CuGraphNode other = AddEmpty(InfoOf(a).graph);
  const CuGraphEdgeData plain;
  EXPECT_CU(kSuccess,
            cu.StreamUpdateCaptureDependencies(a, &other, &plain, 1, kAddCaptureDependencies));
  EXPECT_EQ(InfoOf(a).tail.size(), 2U);
  EXPECT_CU(kSuccess, Store(a, word, 2));
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 2}, {1, 2}}));
}

TEST_P(CaptureDependenciesConformanceTest, EveryStreamOfACaptureHasItsOwn) {
  const DeviceAddress words = NewWords(2);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  Order(a, b);
  const CuGraphNode other = AddEmpty(InfoOf(b).graph);
  EXPECT_CU(kSuccess, Update(b, {other}, kSetCaptureDependencies));
  EXPECT_NE(InfoOf(a).tail, Nodes{other});
  EXPECT_CU(kSuccess, Store(b, words + 8, 2));
  Order(b, a);
  EXPECT_CU(kSuccess, Store(a, words, 3));
  EXPECT_EQ(EdgesOf(End(a)), (Edges{{0, 3}, {1, 2}, {2, 3}}));
}

TEST_P(CaptureDependenciesConformanceTest, ChildRunsBetweenEarlierAndLaterWork) {
  const DeviceAddress words = NewWords(3);
  const CuGraph child = NewMove(words + 8, words);
  for (const CuCaptureMode mode : kCaptureModes) {
    Begin(a, mode);
    EXPECT_CU(kSuccess, Store(a, words, 9));
    EXPECT_CU(kSuccess, Update(a, {AddChild(a, child)}, kSetCaptureDependencies));
    EXPECT_CU(kSuccess, Move(a, words + 16, words + 8));
    const CuGraph graph = End(a);
    EXPECT_EQ(EdgesOf(graph), (Edges{{0, 1}, {1, 2}}));
    CuGraphNodeType type = CuGraphNodeType::kEmpty;
    EXPECT_CU(kSuccess, cu.GraphNodeGetType(NodesOf(graph)[1], &type));
    EXPECT_EQ(type, CuGraphNodeType::kGraph);
    EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0, 24, a));
    EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
    EXPECT_EQ(Word(words + 16), 9);
  }
}

TEST_P(CaptureDependenciesConformanceTest, NodeThatNobodyDependsOnIsPartOfTheGraphAllTheSame) {
  const DeviceAddress words = NewWords(3);
  Begin(a);
  EXPECT_CU(kSuccess, Store(a, words, 4));
  AddChild(a, NewMove(words + 8, words));
  EXPECT_CU(kSuccess, Store(a, words + 16, 5));
  const CuGraph graph = End(a);
  EXPECT_EQ(EdgesOf(graph), (Edges{{0, 1}, {0, 2}}));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 8), 4);
}

TEST_P(CaptureDependenciesConformanceTest, StreamThatDoesNotCaptureHasNone) {
  const CuGraphNode node = AddEmpty(NewGraph());
  EXPECT_CU(kIllegalState, Update(a, {node}, kSetCaptureDependencies));
  Begin(b);
  EXPECT_CU(kIllegalState, Update(a, {AddEmpty(InfoOf(b).graph)}, kAddCaptureDependencies));
  End(b);
}

// Whether the capture survives a call with wrong arguments is not documented.
TEST_P(CaptureDependenciesConformanceTest, ArgumentsAreNodesOfTheCaptureAndAKnownFlag) {
  Begin(a);
  EXPECT_CU(kInvalidValue, Update(a, {AddEmpty(InfoOf(a).graph)}, 2));
  EndEitherWay(a);
  Begin(a);
  EXPECT_CU(kInvalidValue, Update(a, {AddEmpty(NewGraph())}, kAddCaptureDependencies));
  EndEitherWay(a);
  Begin(a);
  EXPECT_CU(kInvalidValue,
            cu.StreamUpdateCaptureDependencies(a, nullptr, nullptr, 1, kAddCaptureDependencies));
  EndEitherWay(a);
}

TEST_P(CaptureDependenciesConformanceTest, InvalidatedCaptureTakesNone) {
  Begin(a);
  EXPECT_CU(kStreamCaptureUnsupported, cu.StreamQuery(a));
  EXPECT_CU(kStreamCaptureInvalidated, Update(a, {AddEmpty(NewGraph())}, kAddCaptureDependencies));
  EndInvalidated(a);
}

}  // namespace
}  // namespace coppice
