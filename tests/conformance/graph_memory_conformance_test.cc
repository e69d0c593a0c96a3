// Goal: a graph sees the memory that is mapped at its addresses when it is launched.
// Method: one small test per rule, on every driver. That mappings change at the call and nodes keep
// addresses only is the Programming Guide's chapter on virtual memory management. Launches that
// find no memory are in fault_conformance_test.cc.

#include "tests/conformance/graph_fixture.h"

namespace coppice {
namespace {

class GraphMemoryConformanceTest : public GraphTest {};
COPPICE_CONFORMANCE_SUITE(GraphMemoryConformanceTest);

TEST_P(GraphMemoryConformanceTest, EveryTypeOfNodeSeesTheMemoryThatIsMappedAtTheLaunch) {
  const DeviceAddress address = Reserve(1);
  const CuMemoryHandle first = Create(1);
  const CuMemoryHandle second = Create(1);
  MapGranule(address, first);
  const CuGraph graph = NewGraph();
  const CuGraphNode store = AddStore(graph, {}, address, 12);
  const CuGraphNode move = AddMove(graph, {store}, address + 8, address);
  AddFill(graph, {move}, address + 16, 0x11, 8);
  const CuGraphExec exec = Instantiate(graph);
  UnmapGranule(address);
  MapGranule(address, second);
  EXPECT_CU(kSuccess, cu.MemsetD8Async(address, 0, 24, a));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(address), 12);
  EXPECT_EQ(Word(address + 8), 12);
  EXPECT_EQ(Word(address + 16), 0x1111111111111111);
  UnmapGranule(address);
  for (const CuMemoryHandle handle : {first, second})
    EXPECT_CU(kSuccess, cu.MemRelease(handle));
  Unreserve(address, 1);
}

TEST_P(GraphMemoryConformanceTest, LaunchLeavesMemoryAloneThatIsMappedNoMore) {
  const DeviceAddress address = Reserve(2);
  const CuMemoryHandle first = Create(1);
  MapGranule(address, first);
  MapGranule(address + kGranule, first);
  EXPECT_CU(kSuccess, Store(a, address, 1));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  const CuGraph graph = NewGraph();
  AddFill(graph, {AddStore(graph, {}, address, 2)}, address + 8, 3, 8);
  const CuGraphExec exec = Instantiate(graph);
  UnmapGranule(address);
  MapFresh(address);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(address), 2);
  EXPECT_EQ(Word(address + kGranule), 1) << "the first memory, by its other address";
  UnmapGranule(address);
  UnmapGranule(address + kGranule);
  EXPECT_CU(kSuccess, cu.MemRelease(first));
  Unreserve(address, 2);
}

TEST_P(GraphMemoryConformanceTest, CapturedWorkSeesTheMemoryThatIsMappedAtTheLaunch) {
  const DeviceAddress address = Reserve(1);
  MapFresh(address);
  ASSERT_CU(kSuccess, Store(a, address, 0));
  ASSERT_CU(kSuccess, cu.StreamSynchronize(a));
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
  EXPECT_CU(kSuccess, Store(a, address, 5));
  EXPECT_CU(kSuccess, Move(a, address + 8, address));
  EXPECT_CU(kSuccess, cu.MemsetD32Async(address, 7, 1, a));
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
  const CuGraphExec exec = Instantiate(Keep(graph));
  for (int round = 0; round < 3; ++round) {
    UnmapGranule(address);
    MapFresh(address);
    EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
    EXPECT_EQ(Word(address), 7);
    EXPECT_EQ(Word(address + 8), 5);
  }
  UnmapGranule(address);
  Unreserve(address, 1);
}

TEST_P(GraphMemoryConformanceTest, KernelNodesMayNameAddressesThatAreMappedLater) {
  const DeviceAddress address = Reserve(1);
  const CuGraph graph = NewGraph();
  AddStore(graph, {}, address, 4);
  const CuGraphExec exec = Instantiate(graph);
  MapFresh(address);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(address), 4);
  UnmapGranule(address);
  Unreserve(address, 1);
}

TEST_P(GraphMemoryConformanceTest, MappingWhileALaunchIsQueuedReachesOtherRangesOnly) {
  const DeviceAddress address = Reserve(2);
  MapFresh(address);
  const CuGraph graph = NewGraph();
  AddMove(graph, {AddStore(graph, {}, address, 8)}, address + 8, address);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  MapFresh(address + kGranule);
  EXPECT_CU(kSuccess, Store(b, address + kGranule, 9));
  EXPECT_EQ(Word(address + 8), 8);
  EXPECT_EQ(Word(address + kGranule), 9);
  UnmapGranule(address);
  UnmapGranule(address + kGranule);
  Unreserve(address, 2);
}

}  // namespace
}  // namespace coppice
