// Goal: graphs run as CUDA documents: the order of nodes and of launches, snapshots, children.
// Method: one small test per rule of the Programming Guide on graphs and of the calls'
// documentation, on every driver. Results have to follow from the order that CUDA promises.

#include "tests/conformance/graph_fixture.h"

namespace coppice {
namespace {

class GraphRunConformanceTest : public GraphTest {
 protected:
  // A graph that doubles the float at `words`, in two steps by way of the next word.
  CuGraph NewDoubling(DeviceAddress words) {
    const CuGraph graph = NewGraph();
    const ScaleParams params{
        .x = PointerAt<float>(words), .y = PointerAt<float>(words + 8), .count = 1, .factor = 2};
    AddMove(graph, {AddKernel(graph, {}, "Scale", params)}, words, words + 8);
    return graph;
  }

  // Has the word at `word` hold the float 1.0.
  void SetToOne(DeviceAddress word) {
    EXPECT_CU(kSuccess, cu.MemsetD32Async(word, 0x3f800000, 1, a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  }
};
COPPICE_CONFORMANCE_SUITE(GraphRunConformanceTest);

// Nodes.

TEST_P(GraphRunConformanceTest, EmptyGraphRuns) {
  const CuGraphExec exec = Instantiate(NewGraph());
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
}

TEST_P(GraphRunConformanceTest, DependenciesOrderTheNodes) {
  const DeviceAddress words = NewWords(4);
  const CuGraph graph = NewGraph();
  const CuGraphNode root = AddStore(graph, {}, words, 7);
  const CuGraphNode left = AddMove(graph, {root}, words + 8, words);
  const CuGraphNode right = AddMove(graph, {root}, words + 16, words);
  const CuGraphNode gate = AddEmpty(graph, {left, right});
  AddMove(graph, {gate}, words + 24, words + 16);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 8), 7);
  EXPECT_EQ(Word(words + 24), 7);
}

TEST_P(GraphRunConformanceTest, LongChainsRunInOrder) {
  constexpr int kLinks = 100;
  const DeviceAddress words = NewWords(kLinks + 1);
  const CuGraph graph = NewGraph();
  CuGraphNode last = AddStore(graph, {}, words, 5);
  for (int i = 0; i < kLinks; ++i)
    last = AddMove(graph, {last}, words + 8 * (i + 1), words + 8 * i);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 8 * kLinks), 5);
}

TEST_P(GraphRunConformanceTest, UnorderedNodesAllRunOnce) {
  constexpr int kNodes = 20;
  const DeviceAddress words = NewWords(kNodes);
  const CuGraph graph = NewGraph();
  std::atomic<int> runs = 0;
  AddHost(graph, {}, Count, &runs);
  for (int i = 0; i < kNodes; ++i)
    AddStore(graph, {}, words + 8 * i, i + 1);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  for (int i = 0; i < kNodes; ++i)
    EXPECT_EQ(Word(words + 8 * i), i + 1);
  EXPECT_EQ(runs, 1);
}

TEST_P(GraphRunConformanceTest, NodeWaitsForEachOfItsDependencies) {
  constexpr int kNodes = 5;
  const DeviceAddress words = NewWords(2 * kNodes);
  const CuGraph graph = NewGraph();
  Nodes stores;
  for (int i = 0; i < kNodes; ++i)
    stores.push_back(AddStore(graph, {}, words + 8 * i, i + 1));
  const CuMemcpyParams copy{
      .source_device = words, .target_device = words + 8 * kNodes, .width_bytes = 8 * kNodes};
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess,
            cu.GraphAddMemcpyNode(&node, graph, stores.data(), stores.size(), &copy, context));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  for (int i = 0; i < kNodes; ++i)
    EXPECT_EQ(Word(words + 8 * (kNodes + i)), i + 1);
}

TEST_P(GraphRunConformanceTest, FillNodesWriteElementsOfTheirSize) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  const CuMemsetNodeParams fill{.target = word, .value = 0x1234, .element_size = 2, .width = 4};
  ASSERT_CU(kSuccess, cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, context));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(word), 0x1234123412341234);
}

TEST_P(GraphRunConformanceTest, FillNodesWriteAsManyElementsAsTheyAreWide) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  const CuMemsetNodeParams fill{
      .target = words + 4, .value = 0x01020304, .element_size = 4, .width = 2};
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, context));
  AddFill(graph, {node}, words + 13, 0xAB, 2);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words), 0x0102030400000000);
  EXPECT_EQ(Word(words + 8), 0x00ABAB0001020304);
}

TEST_P(GraphRunConformanceTest, CopyNodesReachTheHost) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  int64_t host = 0;
  const CuMemcpyParams params{.source_device = word,
                              .target_type = CuMemoryType::kHost,
                              .target_host = &host,
                              .width_bytes = sizeof(host)};
  CuGraphNode node = AddStore(graph, {}, word, 11);
  ASSERT_CU(kSuccess, cu.GraphAddMemcpyNode(&node, graph, &node, 1, &params, context));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(host, 11);
}

TEST_P(GraphRunConformanceTest, CopyNodesReadTheHostAtEachLaunch) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  int64_t host = 0;
  const CuMemcpyParams params{.source_type = CuMemoryType::kHost,
                              .source_host = &host,
                              .target_device = word,
                              .width_bytes = sizeof(host)};
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &params, context));
  const CuGraphExec exec = Instantiate(graph);
  for (host = 5; host < 8; ++host) {
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
    EXPECT_EQ(Word(word), host);
  }
}

TEST_P(GraphRunConformanceTest, CopyNodesStartAtTheirOffsets) {
  const DeviceAddress words = NewWords(4);
  EXPECT_CU(kSuccess, Store(a, words + 8, 6));
  const CuMemcpyParams params{.source_x = 8,
                              .source_device = words,
                              .target_x = 16,
                              .target_device = words + 8,
                              .width_bytes = 8};
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &params, context));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 24), 6);
}

TEST_P(GraphRunConformanceTest, HostNodesRunOncePerLaunch) {
  std::atomic<int> runs = 0;
  const CuGraph graph = NewGraph();
  AddHost(graph, {}, Count, &runs);
  const CuGraphExec exec = Instantiate(graph);
  for (int launch = 0; launch < 3; ++launch)
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(runs, 3);
}

TEST_P(GraphRunConformanceTest, HostNodesRunBehindTheirDependencies) {
  struct Record {
    int64_t copied = 0;
    int64_t seen = 0;
  } record;
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  const CuMemcpyParams copy{.source_device = word,
                            .target_type = CuMemoryType::kHost,
                            .target_host = &record.copied,
                            .width_bytes = 8};
  const CuGraphNode store = AddStore(graph, {}, word, 9);
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddMemcpyNode(&node, graph, &store, 1, &copy, context));
  const auto look = [](void* data) {
    auto& self = *static_cast<Record*>(data);
    self.seen = self.copied;
  };
  AddHost(graph, {node}, look, &record);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(record.seen, 9);
}

// Snapshots: instantiation copies the graph.

TEST_P(GraphRunConformanceTest, ExecIsASnapshot) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, words, 1);
  const CuGraphExec exec = Instantiate(graph);
  AddStore(graph, {}, words + 8, 1);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 1);
  EXPECT_EQ(Word(words + 8), 0);
}

TEST_P(GraphRunConformanceTest, ExecOutlivesItsGraph) {
  const DeviceAddress word = NewWords(1);
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.GraphCreate(&graph, 0));
  AddStore(graph, {}, word, 5);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, cu.GraphDestroy(graph));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(word), 5);
}

TEST_P(GraphRunConformanceTest, GraphMayGoWhileItsLaunchIsQueued) {
  const DeviceAddress word = NewWords(1);
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.GraphCreate(&graph, 0));
  AddStore(graph, {}, word, 4);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_CU(kSuccess, cu.GraphDestroy(graph));
  EXPECT_EQ(Word(word), 4);
}

TEST_P(GraphRunConformanceTest, DestroyedExecFinishesItsLaunches) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 6);
  CuGraphExec exec = nullptr;
  ASSERT_CU(kSuccess, cu.GraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, cu.GraphExecDestroy(exec));
  EXPECT_EQ(Word(word), 6);
}

TEST_P(GraphRunConformanceTest, DestroyedExecFinishesItsLaunchesOnEveryStream) {
  const DeviceAddress words = NewWords(2);
  SetToOne(words);
  CuGraphExec exec = nullptr;
  ASSERT_CU(kSuccess, cu.GraphInstantiateWithFlags(&exec, NewDoubling(words), 0));
  for (int launch = 0; launch < 6; ++launch)
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, launch % 2 == 0 ? a : b));
  EXPECT_CU(kSuccess, cu.GraphExecDestroy(exec));
  EXPECT_EQ(Word(words) & 0xFFFFFFFF, 0x42800000) << "six doublings of 1.0 make 64.0";
}

TEST_P(GraphRunConformanceTest, LaunchOutlivesItsStream) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 3);
  const CuGraphExec exec = Instantiate(graph);
  CuStream stream = nullptr;
  ASSERT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, stream));
  EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
  EXPECT_CU(kSuccess, cu.CtxSynchronize());
  EXPECT_EQ(Word(word), 3);
}

TEST_P(GraphRunConformanceTest, ExecsOfOneGraphLiveAndDieAlone) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, words, 1);
  CuGraphExec first = nullptr;
  ASSERT_CU(kSuccess, cu.GraphInstantiateWithFlags(&first, graph, 0));
  AddStore(graph, {}, words + 8, 2);
  const CuGraphExec second = Instantiate(graph);
  EXPECT_NE(first, second);
  EXPECT_CU(kSuccess, cu.GraphLaunch(first, a));
  EXPECT_EQ(Word(words + 8), 0);
  EXPECT_CU(kSuccess, cu.GraphExecDestroy(first));
  EXPECT_CU(kSuccess, cu.GraphLaunch(second, a));
  EXPECT_EQ(Word(words + 8), 2);
}

// The order of launches.

TEST_P(GraphRunConformanceTest, LaunchesAreOrderedWithTheirStream) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  AddMove(graph, {}, words + 8, words);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, Store(a, words, 2));
  EXPECT_EQ(Word(words + 8), 1);
}

TEST_P(GraphRunConformanceTest, OneExecNeverOverlapsItself) {
  const DeviceAddress words = NewWords(2);
  SetToOne(words);
  const CuGraphExec exec = Instantiate(NewDoubling(words));
  for (int launch = 0; launch < 10; ++launch)
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, launch % 2 == 0 ? a : b));
  EXPECT_EQ(Word(words) & 0xFFFFFFFF, 0x44800000) << "ten doublings of 1.0 make 1024.0";
}

TEST_P(GraphRunConformanceTest, UploadsBetweenLaunchesKeepTheirOrder) {
  const DeviceAddress words = NewWords(2);
  SetToOne(words);
  const CuStream c = NewStream();
  const CuGraphExec exec = Instantiate(NewDoubling(words));
  for (int launch = 0; launch < 6; ++launch) {
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, launch % 2 == 0 ? a : b));
    EXPECT_CU(kSuccess, cu.GraphUpload(exec, c));
    Order(c, launch % 2 == 0 ? b : a);  // No launch elsewhere is behind an upload by itself.
  }
  EXPECT_CU(kSuccess, cu.StreamSynchronize(c));
  EXPECT_EQ(Word(words) & 0xFFFFFFFF, 0x42800000) << "six doublings of 1.0 make 64.0";
}

TEST_P(GraphRunConformanceTest, EventsOrderLaunchesOfTwoExecs) {
  const DeviceAddress words = NewWords(3);
  const CuGraph first = NewGraph();
  AddMove(first, {}, words + 8, words);
  const CuGraph second = NewGraph();
  AddMove(second, {}, words + 16, words + 8);
  const CuGraphExec first_exec = Instantiate(first);
  const CuGraphExec second_exec = Instantiate(second);
  for (int round = 1; round <= 5; ++round) {
    EXPECT_CU(kSuccess, Store(a, words, round));
    EXPECT_CU(kSuccess, cu.GraphLaunch(first_exec, a));
    Order(a, b);
    EXPECT_CU(kSuccess, cu.GraphLaunch(second_exec, b));
    Order(b, a);
  }
  EXPECT_EQ(Word(words + 16), 5);
}

TEST_P(GraphRunConformanceTest, EventBehindALaunchWaitsForAllItsNodes) {
  constexpr int kNodes = 8;
  const DeviceAddress words = NewWords(2 * kNodes);
  const CuGraph graph = NewGraph();
  for (int i = 0; i < kNodes; ++i)
    AddStore(graph, {}, words + 8 * i, i + 1);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  Order(a, b);
  EXPECT_CU(kSuccess, cu.MemcpyDtoDAsync(words + 8 * kNodes, words, 8 * kNodes, b));
  for (int i = 0; i < kNodes; ++i)
    EXPECT_EQ(Word(words + 8 * (kNodes + i)), i + 1);
}

TEST_P(GraphRunConformanceTest, ManyLaunchesQueueUp) {
  std::atomic<int> runs = 0;
  const CuGraph graph = NewGraph();
  AddHost(graph, {}, Count, &runs);
  const CuGraphExec exec = Instantiate(graph);
  for (int launch = 0; launch < 100; ++launch)
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(runs, 100);
}

TEST_P(GraphRunConformanceTest, AnotherThreadMayLaunch) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 2);
  const CuGraphExec exec = Instantiate(graph);
  OnThread([&] { EXPECT_CU(kSuccess, cu.GraphLaunch(exec, b)); });
  EXPECT_EQ(Word(word), 2);
}

TEST_P(GraphRunConformanceTest, UploadChangesNothing) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 3);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, cu.GraphUpload(exec, b));
  EXPECT_EQ(Word(word), 0);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(word), 3);
}

}  // namespace
}  // namespace coppice
