// Goal: graphs, executable graphs and captures are owned once and end on every path.
// Method: graphs of small kernels and empty nodes on an emulated device.

#include "coppice/runtime/graph.h"

#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "tests/support/succeeding_table.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

using testing::NotNull;

Graph::Topology MakeTopology(int nodes, std::vector<GraphEdge> edges) {
  return {.nodes = std::vector<CuGraphNode>(static_cast<size_t>(nodes)), .edges = std::move(edges)};
}

TEST(TopologyTest, EmptyGraphAndSingleNodeAreChains) {
  EXPECT_TRUE(MakeTopology(0, {}).IsChain());
  EXPECT_TRUE(MakeTopology(1, {}).IsChain());
}

TEST(TopologyTest, OnePathThroughAllNodesIsAChainInAnyNumbering) {
  EXPECT_TRUE(MakeTopology(3, {{0, 1}, {1, 2}}).IsChain());
  EXPECT_TRUE(MakeTopology(3, {{2, 0}, {0, 1}}).IsChain());
}

TEST(TopologyTest, ImpliedAndRepeatedEdgesDoNotMatter) {
  EXPECT_TRUE(MakeTopology(3, {{0, 1}, {1, 2}, {0, 2}}).IsChain());
  EXPECT_TRUE(MakeTopology(2, {{0, 1}, {0, 1}}).IsChain());
}

TEST(TopologyTest, UnorderedNodesAreNoChain) {
  EXPECT_FALSE(MakeTopology(2, {}).IsChain());
  EXPECT_FALSE(MakeTopology(3, {{0, 1}, {0, 2}}).IsChain()) << "a fork";
  EXPECT_FALSE(MakeTopology(3, {{0, 2}, {1, 2}}).IsChain()) << "a join";
  EXPECT_FALSE(MakeTopology(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}).IsChain()) << "a diamond";
  EXPECT_FALSE(MakeTopology(4, {{0, 1}, {2, 3}}).IsChain()) << "two chains";
}

TEST(TopologyTest, CycleIsNoChain) {
  EXPECT_FALSE(MakeTopology(2, {{0, 1}, {1, 0}}).IsChain());
  EXPECT_FALSE(MakeTopology(3, {{0, 1}, {1, 2}, {2, 1}}).IsChain());
}

class GraphTest : public testing::Test {
 protected:
  GraphTest() {
    auto library = KernelLibrary::Load(driver_, test_kernels_image);
    EXPECT_OK(library);
    library_.emplace(*std::move(library));
    auto store = library_->Get("Store");
    EXPECT_OK(store);
    store_ = *store;
    auto memory = device_.Upload<int64_t>({0});
    EXPECT_OK(memory);
    word_.emplace(*std::move(memory));
  }

  CuGraphNode AddEmptyNode(const Graph& graph, const std::vector<CuGraphNode>& dependencies) {
    CuGraphNode node = nullptr;
    EXPECT_OK(driver_.Call<&DriverTable::GraphAddEmptyNode>(
        &node, graph.handle(), dependencies.data(), dependencies.size()));
    return node;
  }

  // Stores `value` to the word, on `stream`.
  absl::Status LaunchStore(CuStream stream, int64_t value, unsigned grid = 1) {
    const StoreParams params{.target = PointerAt<int64_t>(word_->address()), .value = value};
    return Launch(driver_, store_, stream, params, grid);
  }

  int64_t Word() { return device_.Download<int64_t>(word_->address(), 1)[0]; }
  Emulator::Live Live() { return device_.emulator().live(); }

  // Makes an ongoing capture invalid, as an application's forbidden call would.
  void Invalidate(CuStream stream) {
    EXPECT_NE(driver_.table().StreamSynchronize(stream), CuResult::kSuccess);
  }

  TestDevice device_;
  const Driver& driver_ = device_.driver();
  std::optional<KernelLibrary> library_;
  Kernel store_;
  std::optional<DeviceMemory> word_;
};

using GraphExecTest = GraphTest;
using CaptureTest = GraphTest;

TEST_F(GraphTest, IsDestroyedOnceHoweverOftenItMoves) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(Graph first, Graph::Create(driver_));
    const Graph second = std::move(first);
    EXPECT_EQ(Live().graphs, 1);
  }
  EXPECT_EQ(Live().graphs, 0);
}

TEST_F(GraphTest, NullHandleIsAnEmptyOwner) {
  const Graph graph(driver_, nullptr);
  EXPECT_EQ(graph.handle(), nullptr);
}

TEST_F(GraphTest, TopologyOfAnEmptyGraphIsEmpty) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, Graph::Create(driver_));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph::Topology topology, graph.GetTopology());
  EXPECT_THAT(topology.nodes, IsEmpty());
  EXPECT_THAT(topology.edges, IsEmpty());
}

TEST_F(GraphTest, TopologyNamesEdgesByPosition) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, Graph::Create(driver_));
  const CuGraphNode a = AddEmptyNode(graph, {});
  const CuGraphNode b = AddEmptyNode(graph, {a});
  const CuGraphNode c = AddEmptyNode(graph, {a, b});
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph::Topology topology, graph.GetTopology());
  EXPECT_THAT(topology.nodes, UnorderedElementsAre(a, b, c));
  std::vector<std::pair<CuGraphNode, CuGraphNode>> edges;
  for (const GraphEdge& edge : topology.edges) {
    edges.emplace_back(topology.nodes[static_cast<size_t>(edge.from)],
                       topology.nodes[static_cast<size_t>(edge.to)]);
  }
  EXPECT_THAT(edges, UnorderedElementsAre(std::pair(a, b), std::pair(a, c), std::pair(b, c)));
}

TEST_F(GraphTest, KernelNodesAreInTheOrderOfTheTopology) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 1, 2));
  ASSERT_OK(driver_.Call<&DriverTable::MemsetD8Async>(word_->address(), uint8_t{0}, size_t{8},
                                                      device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 2, 3));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto kernels, graph.GetKernelNodes());
  const auto store_of = [this](int64_t value, unsigned grid) {
    const StoreParams params{.target = PointerAt<int64_t>(word_->address()), .value = value};
    const auto* const bytes = reinterpret_cast<const std::byte*>(&params);
    return KernelNode{.name = "Store",
                      .parameters = {{bytes, bytes + sizeof(params)}},
                      .grid = {grid, 1, 1},
                      .block = {kTestThreads, 1, 1}};
  };
  EXPECT_THAT(kernels, ElementsAre(store_of(1, 2), std::nullopt, store_of(2, 3)));
}

TEST_F(GraphTest, KernelNodesKeepTheAttributesOfTheirLaunches) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel cube, library_->Get("Cube"));
  const CubeParams params{.target = PointerAt<int64_t>(word_->address())};
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  for (const LaunchShape& shape : {LaunchShape{.shared_bytes = 8}, LaunchShape{.cooperative = true},
                                   LaunchShape{.grid = {4}, .programmatic = true, .cluster = {2}}})
    ASSERT_OK(Launch(driver_, cube, device_.stream(), params, shape));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto kernels, graph.GetKernelNodes());
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0]->shared_bytes, 8U);
  EXPECT_FALSE(kernels[0]->cooperative);
  EXPECT_EQ(kernels[0]->cluster, (std::array<unsigned, 3>{1, 1, 1}));
  EXPECT_TRUE(kernels[1]->cooperative);
  EXPECT_EQ(kernels[2]->cluster, (std::array<unsigned, 3>{2, 1, 1}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph::Topology topology, graph.GetTopology());
  EXPECT_TRUE(topology.IsChain()) << "a programmatic edge is one";
}

TEST_F(GraphTest, DoesNotBreakACaptureOfTheApplication) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture recording, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 1));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, recording.End());
  COPPICE_ASSERT_OK_AND_ASSIGN(GraphExec made, GraphExec::Instantiate(driver_, graph));
  std::optional<GraphExec> exec(std::move(made));
  ASSERT_OK(
      driver_.Call<&DriverTable::StreamBeginCapture>(device_.stream(), CuCaptureMode::kGlobal));
  EXPECT_OK(graph.GetKernelNodes());
  EXPECT_OK(graph.GetNodes());
  exec.reset();
  CuGraph captured = nullptr;
  EXPECT_OK(driver_.Call<&DriverTable::StreamEndCapture>(device_.stream(), &captured));
  EXPECT_OK(driver_.Call<&DriverTable::GraphDestroy>(captured));
}

TEST_F(GraphTest, NodesAreInTheOrderOfTheTopologyAndKernelsSayHowTheyAreLaunched) {
  const DeviceMemory words = *device_.Upload<int64_t>({0, 0});
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 1, 2));
  ASSERT_OK(driver_.Call<&DriverTable::MemsetD8Async>(words.address(), uint8_t{0}, size_t{8},
                                                      device_.stream()));
  ASSERT_OK(driver_.Call<&DriverTable::MemcpyDtoDAsync>(words.address(), words.address() + 8,
                                                        size_t{8}, device_.stream()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<GraphNodeInfo> nodes, graph.GetNodes());
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].type, CuGraphNodeType::kKernel);
  EXPECT_EQ(
      nodes[0].launch,
      (KernelNode{
          .name = "Store", .parameters = {}, .grid = {2, 1, 1}, .block = {kTestThreads, 1, 1}}));
  EXPECT_EQ(nodes[1].type, CuGraphNodeType::kMemset);
  EXPECT_EQ(nodes[2].type, CuGraphNodeType::kMemcpy);
  EXPECT_FALSE(nodes[1].launch || nodes[2].launch);
}

TEST(GraphNodeInfoTest, EveryTypeHasANameOfItsOwn) {
  const std::vector<std::string> names = {"kernel", "memcpy", "memset",     "host",
                                          "child",  "empty",  "event wait", "event record"};
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(NameOf(static_cast<CuGraphNodeType>(i)), names[i]);
  EXPECT_STREQ(NameOf(static_cast<CuGraphNodeType>(99)), "other");
}

// A driver with graphs of one kernel node: it launches a kernel that is no function yet and has no
// parameters.
DriverTable OneKernelTable() {
  DriverTable table = SucceedingTable();
  table.GraphGetNodes = [](CuGraph, CuGraphNode*, size_t* count) {
    *count = 1;
    return CuResult::kSuccess;
  };
  table.GraphNodeGetType = [](CuGraphNode, CuGraphNodeType* type) {
    *type = CuGraphNodeType::kKernel;
    return CuResult::kSuccess;
  };
  table.GraphKernelNodeGetParams = [](CuGraphNode, CuKernelNodeParams* params) {
    *params = {.grid_y = 7, .shared_bytes = 8, .kernel = reinterpret_cast<CuKernel>(16)};
    return CuResult::kSuccess;
  };
  table.KernelGetFunction = [](CuFunction* function, CuKernel kernel) {
    *function = reinterpret_cast<CuFunction>(kernel);
    return CuResult::kSuccess;
  };
  table.FuncGetName = [](const char** name, CuFunction function) {
    *name = "Kernel";
    return function == nullptr ? CuResult::kInvalidValue : CuResult::kSuccess;
  };
  table.FuncGetParamInfo = [](CuFunction, size_t, size_t*, size_t*) {
    return CuResult::kInvalidValue;
  };
  return table;
}

absl::StatusOr<std::vector<std::optional<KernelNode>>> KernelNodesBy(const DriverTable& table) {
  const Driver driver(table, DriverKind::kCuda);
  return Graph(driver, nullptr).GetKernelNodes();
}

TEST(KernelNodesTest, NodeMayNameItsKernelInsteadOfAFunction) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto kernels, KernelNodesBy(OneKernelTable()));
  EXPECT_THAT(kernels,
              ElementsAre(KernelNode{
                  .name = "Kernel", .parameters = {}, .grid = {1, 7, 1}, .shared_bytes = 8}));
}

TEST(KernelNodesTest, DeviceWithoutClustersIsAskedForOne) {
  DriverTable table = OneKernelTable();
  table.GraphKernelNodeGetAttribute = [](CuGraphNode, CuLaunchAttributeId attribute,
                                         CuLaunchAttributeValue* value) {
    value->cooperative = 1;
    return attribute == CuLaunchAttributeId::kCooperative ? CuResult::kSuccess
                                                          : CuResult::kInvalidValue;
  };
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto kernels, KernelNodesBy(table));
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_TRUE(kernels[0]->cooperative);
  EXPECT_EQ(kernels[0]->cluster, (std::array<unsigned, 3>{1, 1, 1}));
}

TEST(KernelNodesTest, LaunchesAreKnownWhereParametersAreNot) {
  DriverTable old = OneKernelTable();
  old.FuncGetParamInfo = [](CuFunction, size_t, size_t*, size_t*) {
    return CuResult::kNotSupported;
  };
  const Driver driver(old, DriverKind::kCuda);
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto nodes, Graph(driver, nullptr).GetNodes());
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].launch,
            (KernelNode{.name = "Kernel", .parameters = {}, .grid = {1, 7, 1}, .shared_bytes = 8}));
}

TEST(KernelNodesTest, ParametersWithoutSizesAreUnimplemented) {
  DriverTable old = OneKernelTable();
  old.FuncGetParamInfo = [](CuFunction, size_t, size_t*, size_t*) {
    return CuResult::kNotSupported;
  };
  EXPECT_THAT(KernelNodesBy(old), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(KernelNodesTest, ParametersInOneBufferAreUnimplemented) {
  DriverTable table = OneKernelTable();
  table.GraphKernelNodeGetParams = [](CuGraphNode, CuKernelNodeParams* params) {
    static void* end = nullptr;
    *params = {.function = reinterpret_cast<CuFunction>(16), .extra = &end};
    return CuResult::kSuccess;
  };
  EXPECT_THAT(KernelNodesBy(table), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST_F(GraphExecTest, RunsWhatTheGraphDescribes) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 42));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  COPPICE_ASSERT_OK_AND_ASSIGN(const GraphExec exec, GraphExec::Instantiate(driver_, graph));
  ASSERT_OK(exec.Upload(device_.stream()));
  EXPECT_EQ(Word(), 0) << "neither capture nor upload runs anything";
  ASSERT_OK(driver_.Call<&DriverTable::GraphLaunch>(exec.handle(), device_.stream()));
  EXPECT_EQ(Word(), 42);
}

TEST_F(GraphExecTest, IsDestroyedOnceHoweverOftenItMoves) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, Graph::Create(driver_));
    COPPICE_ASSERT_OK_AND_ASSIGN(GraphExec first, GraphExec::Instantiate(driver_, graph));
    const GraphExec second = std::move(first);
    EXPECT_EQ(Live().execs, 1);
  }
  EXPECT_EQ(Live().execs, 0);
}

TEST(GraphExecFailureTest, CycleIsAnInvalidArgument) {
  // No entry of the table adds an edge to finished nodes, so a real graph cannot have a cycle.
  DriverTable table = SucceedingTable();
  table.GraphInstantiateWithFlags = [](CuGraphExec*, CuGraph, unsigned long long) {
    return CuResult::kInvalidValue;
  };
  const Driver driver(table, DriverKind::kEmulator);
  const Graph graph(driver, nullptr);
  EXPECT_THAT(GraphExec::Instantiate(driver, graph), StatusIs(kWrongArgument));
}

TEST_F(CaptureTest, BeginsInThreadLocalMode) {
  static std::optional<CuCaptureMode> seen;
  DriverTable table = SucceedingTable();
  table.StreamBeginCapture = [](CuStream, CuCaptureMode mode) {
    seen = mode;
    return CuResult::kSuccess;
  };
  const Driver driver(table, DriverKind::kEmulator);
  EXPECT_OK(Capture::Begin(driver, device_.stream()));
  EXPECT_EQ(seen, CuCaptureMode::kThreadLocal);
}

TEST_F(CaptureTest, StreamThatCapturesAlreadyAborts) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Capture capture, Capture::Begin(driver_, device_.stream()));
  EXPECT_THAT(Capture::Begin(driver_, device_.stream()), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(CaptureTest, DestructorEndsTheCaptureAndDropsItsGraph) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(Capture first, Capture::Begin(driver_, device_.stream()));
    const Capture second = std::move(first);
    ASSERT_OK(LaunchStore(device_.stream(), 42));
    EXPECT_EQ(Live().captures, 1);
  }
  EXPECT_EQ(Live().captures, 0);
  EXPECT_EQ(Live().graphs, 0);
  EXPECT_EQ(Word(), 0) << "the captured work never runs";
}

TEST_F(CaptureTest, EndGivesTheGraphAndTheStreamBack) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 1));
  ASSERT_OK(LaunchStore(device_.stream(), 2));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
  EXPECT_EQ(Live().captures, 0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph::Topology topology, graph.GetTopology());
  EXPECT_EQ(topology.nodes.size(), 2U);
  EXPECT_TRUE(topology.IsChain());
  ASSERT_OK(LaunchStore(device_.stream(), 3));
  EXPECT_EQ(Word(), 3);
}

TEST_F(CaptureTest, InvalidatedCaptureAbortsAndIsOver) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 1));
  Invalidate(device_.stream());
  EXPECT_THAT(capture.Nodes(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(capture.End(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(Live().captures, 0);
  EXPECT_EQ(Live().graphs, 0);
  EXPECT_OK(device_.Synchronize()) << "the stream is usable again";
}

TEST_F(CaptureTest, DestructorEndsAnInvalidatedCapture) {
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Capture capture, Capture::Begin(driver_, device_.stream()));
    Invalidate(device_.stream());
  }
  EXPECT_EQ(Live().captures, 0);
  EXPECT_EQ(Live().graphs, 0);
}

TEST_F(CaptureTest, ForkThatIsNotJoinedAbortsAndIsOver) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Stream side, Stream::Create(driver_));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Event fork, Event::Create(driver_));
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(fork.Record(device_.stream()));
  ASSERT_OK(fork.MakeWait(side.handle()));
  ASSERT_OK(LaunchStore(side.handle(), 1));
  const absl::StatusOr<Graph> graph = capture.End();
  EXPECT_THAT(graph, StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(CuResultOf(graph.status()), CuResult::kStreamCaptureUnjoined);
  EXPECT_EQ(Live().captures, 0);
  EXPECT_EQ(Live().graphs, 0);
}

TEST_F(CaptureTest, NodesAreThoseCapturedSoFar) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<CuGraphNode> none, capture.Nodes());
  EXPECT_THAT(none, IsEmpty());
  ASSERT_OK(LaunchStore(device_.stream(), 1));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<CuGraphNode> one, capture.Nodes());
  EXPECT_THAT(one, ElementsAre(NotNull()));
  ASSERT_OK(LaunchStore(device_.stream(), 2));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<CuGraphNode> two, capture.Nodes());
  EXPECT_EQ(two.size(), 2U);
  EXPECT_THAT(two, Each(NotNull()));
  EXPECT_THAT(two, testing::Contains(one[0]));
}

using AddChildToCaptureTest = GraphTest;

TEST_F(AddChildToCaptureTest, PutsACopyBetweenEarlierAndLaterWork) {
  // The word is what the last of three stores leaves, so that the child is seen both as the last
  // and before another.
  for (const bool has_more : {false, true}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(Capture recording, Capture::Begin(driver_, device_.stream()));
    ASSERT_OK(LaunchStore(device_.stream(), 2));
    auto child = std::make_unique<Graph>(*recording.End());
    COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
    ASSERT_OK(LaunchStore(device_.stream(), 1));
    ASSERT_OK(AddChildToCapture(driver_, device_.stream(), *child));
    child.reset();
    if (has_more) {
      ASSERT_OK(LaunchStore(device_.stream(), 3));
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const Graph graph, capture.End());
    COPPICE_ASSERT_OK_AND_ASSIGN(const Graph::Topology topology, graph.GetTopology());
    EXPECT_EQ(topology.nodes.size(), has_more ? 3U : 2U) << "the child is one node";
    EXPECT_TRUE(topology.IsChain());
    COPPICE_ASSERT_OK_AND_ASSIGN(const GraphExec exec, GraphExec::Instantiate(driver_, graph));
    ASSERT_OK(driver_.Call<&DriverTable::GraphLaunch>(exec.handle(), device_.stream()));
    EXPECT_EQ(Word(), has_more ? 3 : 2);
  }
}

TEST_F(AddChildToCaptureTest, NeedsACaptureThatGoesOn) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph child, Graph::Create(driver_));
  EXPECT_THAT(AddChildToCapture(driver_, device_.stream(), child), StatusIs(kRefused));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Capture capture, Capture::Begin(driver_, device_.stream()));
  Invalidate(device_.stream());
  EXPECT_THAT(AddChildToCapture(driver_, device_.stream(), child),
              StatusIs(absl::StatusCode::kAborted));
}

TEST(AddChildToCaptureFailureTest, ErrorsOfTheDriverAreReturned) {
  DriverTable table = SucceedingTable();
  table.StreamGetCaptureInfo = [](CuStream, CuCaptureStatus* status, uint64_t*, CuGraph*,
                                  const CuGraphNode**, const CuGraphEdgeData**, size_t*) {
    *status = CuCaptureStatus::kActive;
    return CuResult::kSuccess;
  };
  table.StreamUpdateCaptureDependencies = [](CuStream, CuGraphNode*, const CuGraphEdgeData*, size_t,
                                             unsigned) { return CuResult::kIllegalState; };
  const Driver stale(table, DriverKind::kEmulator);
  EXPECT_EQ(CuResultOf(AddChildToCapture(stale, nullptr, Graph(stale, nullptr))),
            CuResult::kIllegalState);
  table.StreamGetCaptureInfo = [](CuStream, CuCaptureStatus*, uint64_t*, CuGraph*,
                                  const CuGraphNode**, const CuGraphEdgeData** edge_data, size_t*) {
    return edge_data == nullptr ? CuResult::kLossyQuery : CuResult::kSuccess;
  };
  const Driver programmatic(table, DriverKind::kEmulator);
  EXPECT_EQ(CuResultOf(AddChildToCapture(programmatic, nullptr, Graph(programmatic, nullptr))),
            CuResult::kLossyQuery);
}

TEST_F(AddChildToCaptureTest, AGraphOfKernelsMayBeAChild) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture recording, Capture::Begin(driver_, device_.stream()));
  ASSERT_OK(LaunchStore(device_.stream(), 2));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Graph child, recording.End());
  EXPECT_OK(CheckChild(driver_, child.handle()));
}

TEST(CheckChildTest, NamesWhatNoChildHolds) {
  static CuGraphNodeType second = CuGraphNodeType::kKernel;
  static CuGraphNode nodes[] = {reinterpret_cast<CuGraphNode>(8),
                                reinterpret_cast<CuGraphNode>(16)};
  DriverTable table = SucceedingTable();
  table.GraphGetNodes = [](CuGraph, CuGraphNode* into, size_t* count) {
    if (into != nullptr) std::copy_n(nodes, *count, into);
    *count = std::size(nodes);
    return CuResult::kSuccess;
  };
  table.GraphNodeGetType = [](CuGraphNode node, CuGraphNodeType* type) {
    *type = node == nodes[0] ? CuGraphNodeType::kKernel : second;
    return CuResult::kSuccess;
  };
  const Driver driver(table, DriverKind::kEmulator);
  struct Case {
    int type;
    const char* what;  // Null: nothing is wrong with it.
  };
  for (const Case& one : {Case{0, nullptr}, Case{4, nullptr}, Case{7, nullptr}, Case{12, nullptr},
                          Case{10, "node 1 of 2 in the graph allocates memory"},
                          Case{11, "frees memory"}, Case{13, "has a condition"}}) {
    second = static_cast<CuGraphNodeType>(one.type);
    const absl::Status status = CheckChild(driver, nullptr);
    if (one.what == nullptr) {
      EXPECT_OK(status) << one.type;
      continue;
    }
    EXPECT_THAT(status, StatusIs(kWrongArgument, HasSubstr(one.what)));
  }
}

using CaptureDeathTest = GraphTest;

TEST_F(CaptureDeathTest, EndsOnlyOnce) {
  COPPICE_ASSERT_OK_AND_ASSIGN(Capture capture, Capture::Begin(driver_, device_.stream()));
  EXPECT_OK(capture.End());
  EXPECT_DEATH((void)capture.End(), "already ended");
  EXPECT_DEATH((void)capture.Nodes(), "already ended");
}

}  // namespace
}  // namespace coppice
