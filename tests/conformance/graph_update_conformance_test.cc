// Goal: an exec that is changed runs the change from its next launch on, or stays as it was.
// Method: one small test per rule of the Programming Guide on updating instantiated graphs, on
// every driver. Launches are not waited for before the change: queued ones keep what they had.

#include "tests/conformance/graph_fixture.h"

namespace coppice {
namespace {

class GraphUpdateConformanceTest : public GraphTest {
 protected:
  // Gives the kernel node `node` of `exec` a store of `value` at `address`.
  CuResult SetStore(CuGraphExec exec, CuGraphNode node, DeviceAddress address, int64_t value) {
    StoreParams params{.target = PointerAt<int64_t>(address), .value = value};
    void* arguments[] = {&params};
    const CuKernelNodeParams node_params{
        .function = Function("Store"), .block_x = kTestThreads, .kernel_params = arguments};
    return cu.GraphExecKernelNodeSetParams(exec, node, &node_params);
  }

  // Expects that `exec` cannot become `graph`, for `reason`.
  void ExpectRefused(CuGraphExec exec, CuGraph graph, CuGraphExecUpdateResult reason) {
    CuGraphExecUpdateResultInfo info;
    EXPECT_CU(kGraphExecUpdateFailure, cu.GraphExecUpdate(exec, graph, &info));
    EXPECT_EQ(info.result, reason);
  }
};
COPPICE_CONFORMANCE_SUITE(GraphUpdateConformanceTest);

// One kernel node.

TEST_P(GraphUpdateConformanceTest, NewParametersCountFromTheNextLaunchOn) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  const CuGraphNode node = AddStore(graph, {}, words, 1);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, SetStore(exec, node, words + 8, 2));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 1);
  EXPECT_EQ(Word(words + 8), 2);
}

TEST_P(GraphUpdateConformanceTest, NewParametersAreCopiedAtTheCall) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  const CuGraphNode node = AddStore(graph, {}, word, 1);
  const CuGraphExec exec = Instantiate(graph);
  auto params = std::make_unique<StoreParams>();
  *params = {.target = PointerAt<int64_t>(word), .value = 2};
  void* arguments[] = {params.get()};
  auto node_params = std::make_unique<CuKernelNodeParams>();
  *node_params = {
      .function = Function("Store"), .block_x = kTestThreads, .kernel_params = arguments};
  EXPECT_CU(kSuccess, cu.GraphExecKernelNodeSetParams(exec, node, node_params.get()));
  *params = {};
  params.reset();
  *node_params = {};
  node_params.reset();
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(word), 2);
}

TEST_P(GraphUpdateConformanceTest, FunctionAndGridMayChange) {
  constexpr int64_t kCount = 3 * kTestThreads;
  const DeviceAddress words = NewWords(kCount);
  const CuGraph graph = NewGraph();
  const CuGraphNode node = AddStore(graph, {}, words, 1);
  const CuGraphExec exec = Instantiate(graph);
  FillParams params{.target = PointerAt<float>(words), .count = kCount, .value = 1};
  void* arguments[] = {&params};
  const CuKernelNodeParams node_params{.function = Function("Fill"),
                                       .grid_x = GridFor(kCount),
                                       .block_x = kTestThreads,
                                       .kernel_params = arguments};
  EXPECT_CU(kSuccess, cu.GraphExecKernelNodeSetParams(exec, node, &node_params));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 0x3f8000003f800000);
  EXPECT_EQ(Word(words + 4 * kCount - 8), 0x3f8000003f800000);
  EXPECT_EQ(Word(words + 4 * kCount), 0);
}

TEST_P(GraphUpdateConformanceTest, OnlyTheExecChanges) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  const CuGraphNode node = AddStore(graph, {}, words, 1);
  const CuGraphExec changed = Instantiate(graph);
  const CuGraphExec before = Instantiate(graph);
  EXPECT_CU(kSuccess, SetStore(changed, node, words + 8, 2));
  const CuGraphExec after = Instantiate(graph);
  for (const CuGraphExec exec : {before, after}) {
    EXPECT_CU(kSuccess, Store(a, words, 0));
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
    EXPECT_EQ(Word(words), 1);
    EXPECT_EQ(Word(words + 8), 0);
  }
}

TEST_P(GraphUpdateConformanceTest, OtherNodesKeepTheirParametersAndOrder) {
  const DeviceAddress words = NewWords(3);
  const CuGraph graph = NewGraph();
  const CuGraphNode node = AddStore(graph, {}, words, 1);
  AddMove(graph, {AddMove(graph, {node}, words + 8, words)}, words + 16, words + 8);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, SetStore(exec, node, words, 5));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words + 16), 5);
}

TEST_P(GraphUpdateConformanceTest, RefusedParametersChangeNothing) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  const CuGraphNode node = AddStore(graph, {}, words, 1);
  const CuGraphNode fill = AddFill(graph, {}, words + 8, 0, 8);
  const CuGraphNode foreign = AddStore(NewGraph(), {}, words, 2);
  const CuGraphExec exec = Instantiate(graph);
  StoreParams params{.target = PointerAt<int64_t>(words), .value = 3};
  void* arguments[] = {&params};
  void* extra[] = {nullptr};
  const CuKernelNodeParams both{.function = Function("Store"),
                                .block_x = kTestThreads,
                                .kernel_params = arguments,
                                .extra = extra};
  EXPECT_CU(kInvalidValue, cu.GraphExecKernelNodeSetParams(exec, node, nullptr));
  EXPECT_CU(kInvalidValue, cu.GraphExecKernelNodeSetParams(exec, node, &both));
  EXPECT_CU(kInvalidValue, SetStore(exec, fill, words, 4));
  EXPECT_CU(kInvalidValue, SetStore(exec, foreign, words, 5));
  EXPECT_CU(kInvalidValue, SetStore(nullptr, node, words, 6));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 1);
}

// Everything at once.

TEST_P(GraphUpdateConformanceTest, ExecTakesTheParametersOfAnEqualGraph) {
  const DeviceAddress words = NewWords(3);
  const auto make = [&](int64_t value, DeviceAddress target) {
    const CuGraph graph = NewGraph();
    AddMove(graph, {AddStore(graph, {}, words, value)}, target, words);
    return graph;
  };
  const CuGraphExec exec = Instantiate(make(1, words + 8));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  CuGraphExecUpdateResultInfo info;
  EXPECT_CU(kSuccess, cu.GraphExecUpdate(exec, make(2, words + 16), &info));
  EXPECT_EQ(info.result, CuGraphExecUpdateResult::kSuccess);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words + 8), 1);
  EXPECT_EQ(Word(words + 16), 2);
}

TEST_P(GraphUpdateConformanceTest, UpdateIsASnapshotOfItsGraph) {
  const DeviceAddress word = NewWords(1);
  const CuGraph first = NewGraph();
  AddStore(first, {}, word, 1);
  const CuGraphExec exec = Instantiate(first);
  CuGraph second = nullptr;
  ASSERT_CU(kSuccess, cu.GraphCreate(&second, 0));
  AddStore(second, {}, word, 2);
  CuGraphExecUpdateResultInfo info;
  EXPECT_CU(kSuccess, cu.GraphExecUpdate(exec, second, &info));
  EXPECT_CU(kSuccess, cu.GraphDestroy(second));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(word), 2);
}

TEST_P(GraphUpdateConformanceTest, RecapturedCallsUpdateTheirExec) {
  const DeviceAddress words = NewWords(3);
  const auto capture = [&](int64_t value) {
    EXPECT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
    EXPECT_CU(kSuccess, Store(a, words, value));
    Order(a, b);
    EXPECT_CU(kSuccess, Move(b, words + 8, words));
    EXPECT_CU(kSuccess, Move(a, words + 16, words));
    Order(b, a);
    CuGraph graph = nullptr;
    EXPECT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
    return Keep(graph);
  };
  const CuGraphExec exec = Instantiate(capture(1));
  CuGraphExecUpdateResultInfo info;
  EXPECT_CU(kSuccess, cu.GraphExecUpdate(exec, capture(2), &info));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words + 8), 2);
  EXPECT_EQ(Word(words + 16), 2);
}

TEST_P(GraphUpdateConformanceTest, RefusedUpdatesLeaveTheExecAsItWas) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  AddMove(graph, {AddStore(graph, {}, words, 3)}, words + 8, words);
  const CuGraphExec exec = Instantiate(graph);

  const CuGraph longer = NewGraph();
  AddStore(longer, {AddMove(longer, {AddStore(longer, {}, words, 4)}, words + 8, words)}, words, 5);
  ExpectRefused(exec, longer, CuGraphExecUpdateResult::kTopologyChanged);

  const CuGraph unordered = NewGraph();
  AddStore(unordered, {}, words, 4);
  AddMove(unordered, {}, words + 8, words);
  ExpectRefused(exec, unordered, CuGraphExecUpdateResult::kTopologyChanged);

  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 3);
  EXPECT_EQ(Word(words + 8), 3);
}

TEST_P(GraphUpdateConformanceTest, NodesKeepTheirTypes) {
  const DeviceAddress words = NewWords(1);
  const CuGraph store = NewGraph();
  AddStore(store, {}, words, 3);
  const CuGraphExec exec = Instantiate(store);
  const CuGraph fill = NewGraph();
  AddFill(fill, {}, words, 1, 8);
  ExpectRefused(exec, fill, CuGraphExecUpdateResult::kNodeTypeChanged);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 3);
}

}  // namespace
}  // namespace coppice
