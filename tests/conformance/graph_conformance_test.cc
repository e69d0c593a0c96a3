// Goal: graphs are built as CUDA documents: nodes, edges, parameters, and what is refused.
// Method: one small test per rule of the graph calls' documentation, on every driver; what a null
// handle is worth is what ROCm's hip-tests expect of CUDA.

#include "tests/conformance/graph_fixture.h"

namespace coppice {
namespace {

class GraphConformanceTest : public GraphTest {};
COPPICE_CONFORMANCE_SUITE(GraphConformanceTest);

// Arguments.

TEST_P(GraphConformanceTest, CreateAndInstantiateCheckTheirArguments) {
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphCreate(&graph, 1));
  EXPECT_CU(kInvalidValue, cu.GraphCreate(nullptr, 0));
  EXPECT_CU(kInvalidValue, cu.GraphInstantiateWithFlags(nullptr, NewGraph(), 0));
  EXPECT_CU(kInvalidValue, cu.GraphInstantiateWithFlags(&exec, NewGraph(), 1U << 20));
}

TEST_P(GraphConformanceTest, NoGraphIsAnInvalidValue) {
  CuGraphNode node = nullptr;
  CuGraphExec exec = nullptr;
  size_t count = 0;
  EXPECT_CU(kInvalidValue, cu.GraphDestroy(nullptr));
  EXPECT_CU(kInvalidValue, cu.GraphInstantiateWithFlags(&exec, nullptr, 0));
  EXPECT_CU(kInvalidValue, cu.GraphAddEmptyNode(&node, nullptr, nullptr, 0));
  EXPECT_CU(kInvalidValue, cu.GraphGetNodes(nullptr, nullptr, &count));
  EXPECT_CU(kInvalidValue, cu.GraphGetEdges(nullptr, nullptr, nullptr, nullptr, &count));
  EXPECT_CU(kInvalidValue, cu.GraphAddChildGraphNode(&node, NewGraph(), nullptr, 0, nullptr));
}

TEST_P(GraphConformanceTest, NoExecIsAnInvalidValue) {
  EXPECT_CU(kInvalidValue, cu.GraphLaunch(nullptr, a));
  EXPECT_CU(kInvalidValue, cu.GraphUpload(nullptr, a));
  EXPECT_CU(kInvalidValue, cu.GraphExecDestroy(nullptr));
}

TEST_P(GraphConformanceTest, NoNodeIsAnInvalidValue) {
  CuGraphNodeType type{};
  EXPECT_CU(kInvalidValue, cu.GraphNodeGetType(nullptr, &type));
  EXPECT_CU(kInvalidValue, cu.GraphNodeGetType(AddEmpty(NewGraph(), {}), nullptr));
}

TEST_P(GraphConformanceTest, DependenciesAreNodesOfTheGraphEachOnce) {
  const CuGraph graph = NewGraph();
  const CuGraphNode own = AddEmpty(graph, {});
  const CuGraphNode foreign = AddEmpty(NewGraph(), {});
  const CuGraphNode twice[] = {own, own};
  CuGraphNode node = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphAddEmptyNode(&node, graph, twice, 2));
  EXPECT_CU(kInvalidValue, cu.GraphAddEmptyNode(&node, graph, &foreign, 1));
  EXPECT_CU(kInvalidValue, cu.GraphAddEmptyNode(&node, graph, nullptr, 1));
  EXPECT_CU(kInvalidValue, cu.GraphAddEmptyNode(nullptr, graph, nullptr, 0));
  EXPECT_EQ(NodeCount(graph), 1U);
}

TEST_P(GraphConformanceTest, NodesOfACopyAreNoDependenciesOfTheParent) {
  const CuGraph child = NewGraph();
  const CuGraphNode inside = AddEmpty(child, {});
  const CuGraph parent = NewGraph();
  AddChild(parent, {}, child);
  CuGraphNode node = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphAddEmptyNode(&node, parent, &inside, 1));
  EXPECT_EQ(NodeCount(parent), 1U);
}

TEST_P(GraphConformanceTest, NodeParametersAreChecked) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphAddKernelNode(&node, graph, nullptr, 0, nullptr));
  EXPECT_CU(kInvalidValue, cu.GraphAddHostNode(&node, graph, nullptr, 0, nullptr));
  const CuMemcpyParams nothing{.source_device = words, .target_device = words + 8};
  EXPECT_CU(kInvalidValue, cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &nothing, context));
  CuMemsetNodeParams fill{.target = words, .element_size = 3, .width = 1};
  EXPECT_CU(kInvalidValue, cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, context));
  fill = {.target = words, .element_size = 4, .width = 0};
  EXPECT_CU(kInvalidValue, cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, context));
  EXPECT_EQ(NodeCount(graph), 0U);
}

TEST_P(GraphConformanceTest, HostNodesNeedAFunction) {
  const CuHostNodeParams params{.function = nullptr, .user_data = nullptr};
  CuGraphNode node = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphAddHostNode(&node, NewGraph(), nullptr, 0, &params));
}

TEST_P(GraphConformanceTest, CopyAndFillNodesNeedParameters) {
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, nullptr, context));
  EXPECT_CU(kInvalidValue, cu.GraphAddMemsetNode(&node, graph, nullptr, 0, nullptr, context));
  EXPECT_EQ(NodeCount(graph), 0U);
}

TEST_P(GraphConformanceTest, ParametersOfAKernelNodeComeInOneWay) {
  StoreParams params{.target = PointerAt<int64_t>(NewWords(1)), .value = 1};
  void* arguments[] = {&params};
  void* extra[] = {nullptr};
  const CuKernelNodeParams both{.function = Function("Store"),
                                .block_x = kTestThreads,
                                .kernel_params = arguments,
                                .extra = extra};
  CuGraphNode node = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphAddKernelNode(&node, NewGraph(), nullptr, 0, &both));
}

// At which of the three calls is not documented.
TEST_P(GraphConformanceTest, KernelNodeBeyondTheLimitsNeverRuns) {
  const DeviceAddress word = NewWords(1);
  StoreParams params{.target = PointerAt<int64_t>(word), .value = 1};
  void* arguments[] = {&params};
  for (const auto& [grid_x, block_x] : {std::pair(0U, 64U), {1U, 0U}, {1U, 2048U}}) {
    const CuGraph graph = NewGraph();
    const CuKernelNodeParams node_params{.function = Function("Store"),
                                         .grid_x = grid_x,
                                         .block_x = block_x,
                                         .kernel_params = arguments};
    CuGraphNode node = nullptr;
    if (cu.GraphAddKernelNode(&node, graph, nullptr, 0, &node_params) != CuResult::kSuccess)
      continue;
    CuGraphExec exec = nullptr;
    if (cu.GraphInstantiateWithFlags(&exec, graph, 0) != CuResult::kSuccess) continue;
    EXPECT_NE(cu.GraphLaunch(exec, a), CuResult::kSuccess) << grid_x << " x " << block_x;
    EXPECT_CU(kSuccess, cu.GraphExecDestroy(exec));
  }
  EXPECT_EQ(Word(word), 0);
}

// Structure.

TEST_P(GraphConformanceTest, NodesAreListedInTheOrderOfCreation) {
  const CuGraph graph = NewGraph();
  const CuGraphNode first = AddEmpty(graph, {});
  const CuGraphNode second = AddEmpty(graph, {});
  const CuGraphNode third = AddEmpty(graph, {second, first});
  EXPECT_EQ(NodesOf(graph), (Nodes{first, second, third}));
  EXPECT_EQ(EdgesOf(graph), (Edges{{0, 2}, {1, 2}}));
}

TEST_P(GraphConformanceTest, ListsAreCutOrFilledUp) {
  const CuGraph graph = NewGraph();
  const CuGraphNode first = AddEmpty(graph, {});
  const CuGraphNode second = AddEmpty(graph, {first});
  Nodes nodes(3, first);
  size_t count = 3;
  EXPECT_CU(kSuccess, cu.GraphGetNodes(graph, nodes.data(), &count));
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(nodes, (Nodes{first, second, nullptr}));
  count = 1;
  EXPECT_CU(kSuccess, cu.GraphGetNodes(graph, nodes.data(), &count));
  EXPECT_EQ(count, 1U);
}

TEST_P(GraphConformanceTest, ListsOfEdgesAreCutOrFilledUp) {
  const CuGraph graph = NewGraph();
  const CuGraphNode first = AddEmpty(graph, {});
  const CuGraphNode second = AddEmpty(graph, {first});
  AddEmpty(graph, {second});
  Nodes from(3, first);
  Nodes to(3, first);
  size_t count = 3;
  EXPECT_CU(kSuccess, cu.GraphGetEdges(graph, from.data(), to.data(), nullptr, &count));
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(from[2], nullptr);
  EXPECT_EQ(to[2], nullptr);
  count = 1;
  EXPECT_CU(kSuccess, cu.GraphGetEdges(graph, from.data(), to.data(), nullptr, &count));
  EXPECT_EQ(count, 1U);
}

TEST_P(GraphConformanceTest, EdgesAreListedWithBothEnds) {
  const CuGraph graph = NewGraph();
  AddEmpty(graph, {AddEmpty(graph, {})});
  CuGraphNode end = nullptr;
  size_t count = 1;
  EXPECT_CU(kInvalidValue, cu.GraphGetEdges(graph, &end, nullptr, nullptr, &count));
  EXPECT_CU(kInvalidValue, cu.GraphGetEdges(graph, nullptr, &end, nullptr, &count));
}

TEST_P(GraphConformanceTest, ListsNeedAPlaceForTheCount) {
  const CuGraph graph = NewGraph();
  EXPECT_CU(kInvalidValue, cu.GraphGetNodes(graph, nullptr, nullptr));
  EXPECT_CU(kInvalidValue, cu.GraphGetEdges(graph, nullptr, nullptr, nullptr, nullptr));
}

TEST_P(GraphConformanceTest, NewGraphIsEmpty) {
  const CuGraph graph = NewGraph();
  EXPECT_EQ(NodeCount(graph), 0U);
  EXPECT_EQ(EdgesOf(graph), Edges());
}

TEST_P(GraphConformanceTest, EdgesWithoutDataAreZero) {
  const CuGraph graph = NewGraph();
  AddEmpty(graph, {AddEmpty(graph, {})});
  CuGraphNode from = nullptr;
  CuGraphNode to = nullptr;
  CuGraphEdgeData data{.from_port = 9, .to_port = 9, .type = 9};
  size_t count = 1;
  ASSERT_CU(kSuccess, cu.GraphGetEdges(graph, &from, &to, &data, &count));
  EXPECT_EQ(data.from_port + data.to_port + data.type, 0);
}

TEST_P(GraphConformanceTest, NodesTellTheirTypes) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  const std::vector<std::pair<CuGraphNode, CuGraphNodeType>> expected = {
      {AddStore(graph, {}, words, 1), CuGraphNodeType::kKernel},
      {AddMove(graph, {}, words, words + 8), CuGraphNodeType::kMemcpy},
      {AddFill(graph, {}, words, 1, 8), CuGraphNodeType::kMemset},
      {AddHost(
           graph, {}, [](void*) {}, nullptr),
       CuGraphNodeType::kHost},
      {AddChild(graph, {}, NewGraph()), CuGraphNodeType::kGraph},
      {AddEmpty(graph, {}), CuGraphNodeType::kEmpty}};
  for (const auto& [node, type] : expected) {
    CuGraphNodeType found{};
    EXPECT_CU(kSuccess, cu.GraphNodeGetType(node, &found));
    EXPECT_EQ(found, type);
  }
}

TEST_P(GraphConformanceTest, ChildIsOneNode) {
  const CuGraph child = NewGraph();
  AddEmpty(child, {AddEmpty(child, {})});
  const CuGraph parent = NewGraph();
  AddChild(parent, {AddEmpty(parent, {})}, child);
  EXPECT_EQ(NodeCount(parent), 2U);
  EXPECT_EQ(EdgesOf(parent), (Edges{{0, 1}}));
}

// Parameters are copied when the node is added: what the caller passed may change and go.

TEST_P(GraphConformanceTest, NodeParametersAreCopiedAtTheCall) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 1);  // Its parameters are gone when it returns.
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(word), 1);
}

TEST_P(GraphConformanceTest, EveryStructOfParametersIsCopied) {
  const DeviceAddress words = NewWords(3);
  const CuGraph graph = NewGraph();
  std::atomic<int> runs = 0;
  auto store = std::make_unique<StoreParams>();
  *store = {.target = PointerAt<int64_t>(words), .value = 7};
  void* arguments[] = {store.get()};
  auto kernel = std::make_unique<CuKernelNodeParams>();
  *kernel = {.function = Function("Store"), .block_x = kTestThreads, .kernel_params = arguments};
  auto copy = std::make_unique<CuMemcpyParams>();
  *copy = {.source_device = words, .target_device = words + 8, .width_bytes = 8};
  auto fill = std::make_unique<CuMemsetNodeParams>();
  *fill = {.target = words + 16, .value = 3, .element_size = 4, .width = 1};
  auto host = std::make_unique<CuHostNodeParams>();
  *host = {.function = Count, .user_data = &runs};
  auto after = std::make_unique<CuGraphNode>();
  ASSERT_CU(kSuccess, cu.GraphAddKernelNode(after.get(), graph, nullptr, 0, kernel.get()));
  *store = {};
  store.reset();
  *kernel = {};
  kernel.reset();
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddMemcpyNode(&node, graph, after.get(), 1, copy.get(), context));
  *copy = {};
  copy.reset();
  ASSERT_CU(kSuccess, cu.GraphAddMemsetNode(&node, graph, after.get(), 1, fill.get(), context));
  *fill = {};
  fill.reset();
  ASSERT_CU(kSuccess, cu.GraphAddHostNode(&node, graph, after.get(), 1, host.get()));
  *host = {};
  host.reset();
  *after = nullptr;
  after.reset();
  EXPECT_EQ(EdgesOf(graph), (Edges{{0, 1}, {0, 2}, {0, 3}}));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(words + 8), 7);
  EXPECT_EQ(Word(words + 16), 3);
  EXPECT_EQ(runs, 1);
}

TEST_P(GraphConformanceTest, KernelAndContextStandForAFunction) {
  const DeviceAddress word = NewWords(1);
  CuKernel kernel = nullptr;
  ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, library, "Store"));
  StoreParams params{.target = PointerAt<int64_t>(word), .value = 8};
  void* arguments[] = {&params};
  const CuKernelNodeParams node_params{
      .block_x = kTestThreads, .kernel_params = arguments, .kernel = kernel, .context = context};
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddKernelNode(&node, graph, nullptr, 0, &node_params));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(word), 8);
}

// What a kernel node launches, as it tells: the documentation of cuGraphKernelNodeGetParams.

TEST_P(GraphConformanceTest, EveryKernelNodeTellsItsOwnParameters) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  const CuGraphNode nodes[] = {AddStore(graph, {}, word, 5), AddStore(graph, {}, word, 6)};
  CuKernelNodeParams params[2];
  for (int i = 0; i < 2; ++i)
    ASSERT_CU(kSuccess, cu.GraphKernelNodeGetParams(nodes[i], &params[i]));
  for (int i = 0; i < 100; ++i)  // They stay as long as the node does.
    AddStore(graph, {}, word, 7);
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(params[i].kernel_params, nullptr);
    const auto& told = *static_cast<const StoreParams*>(params[i].kernel_params[0]);
    EXPECT_EQ(told.target, PointerAt<int64_t>(word));
    EXPECT_EQ(told.value, 5 + i);
  }
}

TEST_P(GraphConformanceTest, CapturedLaunchTellsItsShape) {
  FillParams fill;
  void* arguments[] = {&fill};
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Fill"), 4, 3, 2, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  ASSERT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
  CuKernelNodeParams params;
  ASSERT_CU(kSuccess, cu.GraphKernelNodeGetParams(NodesOf(Keep(graph))[0], &params));
  EXPECT_EQ(std::vector({params.grid_x, params.grid_y, params.grid_z}),
            (std::vector<unsigned>{4, 3, 2}));
  EXPECT_EQ(std::vector({params.block_x, params.block_y, params.block_z}),
            (std::vector<unsigned>{kTestThreads, 1, 1}));
  EXPECT_EQ(params.shared_bytes, 0U);
  EXPECT_EQ(params.extra, nullptr);
}

TEST_P(GraphConformanceTest, WhatAKernelNodeTellsMakesAnotherLikeIt) {
  const DeviceAddress word = NewWords(1);
  CuKernelNodeParams params;
  ASSERT_CU(kSuccess, cu.GraphKernelNodeGetParams(AddStore(NewGraph(), {}, word, 8), &params));
  const CuGraph copy = NewGraph();
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddKernelNode(&node, copy, nullptr, 0, &params));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(copy), a));
  EXPECT_EQ(Word(word), 8);
}

TEST_P(GraphConformanceTest, OtherNodesHaveNoKernelParameters) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  CuKernelNodeParams params;
  EXPECT_CU(kInvalidValue, cu.GraphKernelNodeGetParams(AddEmpty(graph, {}), &params));
  EXPECT_CU(kInvalidValue,
            cu.GraphKernelNodeGetParams(AddMove(graph, {}, words + 8, words), &params));
  EXPECT_CU(kInvalidValue, cu.GraphKernelNodeGetParams(AddStore(graph, {}, words, 1), nullptr));
  EXPECT_CU(kInvalidValue, cu.GraphKernelNodeGetParams(nullptr, &params));
}

}  // namespace
}  // namespace coppice
