// Goal: graphs and their execs behave as CUDA documents: structure, snapshots, order of launches.
// Method: one small test per rule, on every driver.

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

using Edges = std::vector<std::pair<int, int>>;
using Nodes = std::vector<CuGraphNode>;

class GraphConformanceTest : public ConformanceTest {
 protected:
  template <typename Params>
  CuGraphNode AddKernel(CuGraph graph, const Nodes& after, const char* name, Params params) {
    void* arguments[] = {&params};
    const CuKernelNodeParams node_params{
        .function = Function(name), .block_x = kTestThreads, .kernel_params = arguments};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess,
              cu.GraphAddKernelNode(&node, graph, after.data(), after.size(), &node_params));
    return node;
  }

  // A node that stores `value` at `address`.
  CuGraphNode AddStore(CuGraph graph, const Nodes& after, DeviceAddress address, int64_t value) {
    return AddKernel(graph, after, "Store",
                     StoreParams{.target = PointerAt<int64_t>(address), .value = value});
  }

  // A node that copies the word at `source` to `target`.
  CuGraphNode AddMove(CuGraph graph,
                      const Nodes& after,
                      DeviceAddress target,
                      DeviceAddress source) {
    const CuMemcpyParams params{
        .source_device = source, .target_device = target, .width_bytes = sizeof(int64_t)};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess,
              cu.GraphAddMemcpyNode(&node, graph, after.data(), after.size(), &params, context));
    return node;
  }

  CuGraphNode AddEmpty(CuGraph graph, const Nodes& after) {
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddEmptyNode(&node, graph, after.data(), after.size()));
    return node;
  }

  CuGraphNode AddChild(CuGraph graph, const Nodes& after, CuGraph child) {
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddChildGraphNode(&node, graph, after.data(), after.size(), child));
    return node;
  }

  CuGraphNode AddHost(CuGraph graph, const Nodes& after, CuHostFunction function, void* data) {
    const CuHostNodeParams params{.function = function, .user_data = data};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, cu.GraphAddHostNode(&node, graph, after.data(), after.size(), &params));
    return node;
  }

  // A graph that doubles the float at `words`, in two steps by way of the next word.
  CuGraph NewDoubling(DeviceAddress words) {
    const CuGraph graph = NewGraph();
    const ScaleParams params{
        .x = PointerAt<float>(words), .y = PointerAt<float>(words + 8), .count = 1, .factor = 2};
    AddMove(graph, {AddKernel(graph, {}, "Scale", params)}, words, words + 8);
    return graph;
  }
};
COPPICE_CONFORMANCE_SUITE(GraphConformanceTest);

// Structure.

TEST_P(GraphConformanceTest, CreateAndInstantiateCheckTheirArguments) {
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  EXPECT_CU(kInvalidValue, cu.GraphCreate(&graph, 1));
  EXPECT_CU(kInvalidValue, cu.GraphCreate(nullptr, 0));
  EXPECT_CU(kInvalidValue, cu.GraphInstantiateWithFlags(nullptr, NewGraph(), 0));
  EXPECT_CU(kInvalidValue, cu.GraphInstantiateWithFlags(&exec, NewGraph(), 1U << 20));
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

// Running.

TEST_P(GraphConformanceTest, EmptyGraphRuns) {
  const CuGraphExec exec = Instantiate(NewGraph());
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
}

TEST_P(GraphConformanceTest, DependenciesOrderTheNodes) {
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

TEST_P(GraphConformanceTest, FillNodesWriteElementsOfTheirSize) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  const CuMemsetNodeParams fill{.target = word, .value = 0x1234, .element_size = 2, .width = 4};
  ASSERT_CU(kSuccess, cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, context));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(word), 0x1234123412341234);
}

TEST_P(GraphConformanceTest, CopyNodesReachTheHost) {
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

TEST_P(GraphConformanceTest, HostNodesRunOncePerLaunch) {
  int runs = 0;
  const CuGraph graph = NewGraph();
  AddHost(
      graph, {}, [](void* counter) { ++*static_cast<int*>(counter); }, &runs);
  const CuGraphExec exec = Instantiate(graph);
  for (int launch = 0; launch < 3; ++launch)
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(runs, 3);
}

TEST_P(GraphConformanceTest, ExecIsASnapshot) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, words, 1);
  const CuGraphExec exec = Instantiate(graph);
  AddStore(graph, {}, words + 8, 1);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 1);
  EXPECT_EQ(Word(words + 8), 0);
}

TEST_P(GraphConformanceTest, ExecOutlivesItsGraph) {
  const DeviceAddress word = NewWords(1);
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.GraphCreate(&graph, 0));
  AddStore(graph, {}, word, 5);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, cu.GraphDestroy(graph));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(word), 5);
}

TEST_P(GraphConformanceTest, DestroyedExecFinishesItsLaunches) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 6);
  CuGraphExec exec = nullptr;
  ASSERT_CU(kSuccess, cu.GraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, cu.GraphExecDestroy(exec));
  EXPECT_EQ(Word(word), 6);
}

TEST_P(GraphConformanceTest, ChildIsCopiedWhenAdded) {
  const DeviceAddress words = NewWords(2);
  const CuGraph child = NewGraph();
  AddStore(child, {}, words, 1);
  const CuGraph parent = NewGraph();
  AddChild(parent, {}, child);
  AddStore(child, {}, words + 8, 1);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  EXPECT_EQ(Word(words), 1);
  EXPECT_EQ(Word(words + 8), 0);
}

TEST_P(GraphConformanceTest, ChildRunsBetweenItsNeighbours) {
  const DeviceAddress words = NewWords(4);
  const CuGraph inner = NewGraph();
  AddMove(inner, {}, words + 16, words + 8);
  const CuGraph child = NewGraph();
  AddChild(child, {AddMove(child, {}, words + 8, words)}, inner);
  const CuGraph parent = NewGraph();
  const CuGraphNode first = AddStore(parent, {}, words, 9);
  const CuGraphNode middle = AddChild(parent, {first}, child);
  const CuGraphNode nothing = AddChild(parent, {middle}, NewGraph());
  AddMove(parent, {nothing}, words + 24, words + 16);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  EXPECT_EQ(Word(words + 24), 9);
}

TEST_P(GraphConformanceTest, LaunchesAreOrderedWithTheirStream) {
  const DeviceAddress words = NewWords(2);
  const CuGraph graph = NewGraph();
  AddMove(graph, {}, words + 8, words);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, Store(a, words, 1));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_CU(kSuccess, Store(a, words, 2));
  EXPECT_EQ(Word(words + 8), 1);
}

TEST_P(GraphConformanceTest, OneExecNeverOverlapsItself) {
  const DeviceAddress words = NewWords(2);
  EXPECT_CU(kSuccess, cu.MemsetD32Async(words, 0x3f800000, 1, a));  // 1.0
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  const CuGraphExec exec = Instantiate(NewDoubling(words));
  for (int launch = 0; launch < 10; ++launch)
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, launch % 2 == 0 ? a : b));
  EXPECT_EQ(Word(words) & 0xFFFFFFFF, 0x44800000) << "ten doublings of 1.0 make 1024.0";
}

TEST_P(GraphConformanceTest, UploadChangesNothing) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 3);
  const CuGraphExec exec = Instantiate(graph);
  EXPECT_CU(kSuccess, cu.GraphUpload(exec, b));
  EXPECT_EQ(Word(word), 0);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(word), 3);
}

TEST_P(GraphConformanceTest, NodeParametersAreCopiedAtTheCall) {
  const DeviceAddress word = NewWords(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, word, 1);  // Its parameters are gone when it returns.
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Word(word), 1);
}

TEST_P(GraphConformanceTest, ExecSeesTheMemoryThatIsMappedWhenItRuns) {
  const CuMemAllocationProperties properties{
      .type = CuMemAllocationType::kPinned,
      .location = {.type = CuMemLocationType::kDevice, .id = 0}};
  const CuMemAccessDescriptor access{.location = properties.location,
                                     .flags = CuMemAccessFlags::kReadWrite};
  DeviceAddress address = 0;
  ASSERT_CU(kSuccess, cu.MemAddressReserve(&address, kGranule, 0, 0, 0));
  CuGraphExec exec = nullptr;
  for (int round = 0; round < 2; ++round) {
    CuMemoryHandle handle = 0;
    ASSERT_CU(kSuccess, cu.MemCreate(&handle, kGranule, &properties, 0));
    ASSERT_CU(kSuccess, cu.MemMap(address, kGranule, 0, handle, 0));
    ASSERT_CU(kSuccess, cu.MemRelease(handle));
    ASSERT_CU(kSuccess, cu.MemSetAccess(address, kGranule, &access, 1));
    if (exec == nullptr) {
      const CuGraph graph = NewGraph();
      AddMove(graph, {AddStore(graph, {}, address, 12)}, address + 8, address);
      exec = Instantiate(graph);
    }
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
    EXPECT_EQ(Word(address + 8), 12);
    ASSERT_CU(kSuccess, cu.MemUnmap(address, kGranule));
  }
  EXPECT_CU(kSuccess, cu.MemAddressFree(address, kGranule));
}

}  // namespace
}  // namespace coppice
