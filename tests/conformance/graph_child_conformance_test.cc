// Goal: child graphs are copies, and run between the neighbours of their node.
// Method: one small test per rule of cuGraphAddChildGraphNode's documentation, on every driver.

#include "tests/conformance/graph_fixture.h"

namespace coppice {
namespace {

class ChildGraphConformanceTest : public GraphTest {};
COPPICE_CONFORMANCE_SUITE(ChildGraphConformanceTest);

TEST_P(ChildGraphConformanceTest, ChildIsCopiedWhenAdded) {
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

TEST_P(ChildGraphConformanceTest, ChildOutlivesItsSource) {
  const DeviceAddress word = NewWords(1);
  CuGraph child = nullptr;
  ASSERT_CU(kSuccess, cu.GraphCreate(&child, 0));
  AddStore(child, {}, word, 3);
  const CuGraph parent = NewGraph();
  AddChild(parent, {}, child);
  EXPECT_CU(kSuccess, cu.GraphDestroy(child));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  EXPECT_EQ(Word(word), 3);
}

TEST_P(ChildGraphConformanceTest, CopyOfACopyIsACopy) {
  const DeviceAddress words = NewWords(2);
  const CuGraph inner = NewGraph();
  AddStore(inner, {}, words, 1);
  const CuGraph middle = NewGraph();
  AddChild(middle, {}, inner);
  const CuGraph outer = NewGraph();
  AddChild(outer, {}, middle);
  AddStore(inner, {}, words + 8, 2);
  AddStore(middle, {}, words + 8, 3);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(outer), a));
  EXPECT_EQ(Word(words), 1);
  EXPECT_EQ(Word(words + 8), 0);
}

TEST_P(ChildGraphConformanceTest, ExecOfAParentIsASnapshotOfItsChildren) {
  const DeviceAddress words = NewWords(2);
  const CuGraph child = NewGraph();
  AddStore(child, {}, words, 1);
  const CuGraph parent = NewGraph();
  AddChild(parent, {}, child);
  const CuGraphExec exec = Instantiate(parent);
  AddStore(child, {}, words + 8, 2);
  AddChild(parent, {}, child);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Word(words), 1);
  EXPECT_EQ(Word(words + 8), 0);
}

TEST_P(ChildGraphConformanceTest, SameChildRunsAsOftenAsItWasAdded) {
  std::atomic<int> runs = 0;
  const CuGraph child = NewGraph();
  AddHost(child, {}, Count, &runs);
  const CuGraph parent = NewGraph();
  AddChild(parent, {AddChild(parent, {}, child)}, child);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(runs, 2);
}

TEST_P(ChildGraphConformanceTest, ChildRunsBetweenItsNeighbours) {
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

TEST_P(ChildGraphConformanceTest, EveryRootOfAChildWaitsForTheNodesBefore) {
  const DeviceAddress words = NewWords(4);
  const CuGraph child = NewGraph();
  for (int i = 1; i < 4; ++i)
    AddMove(child, {}, words + 8 * i, words);
  const CuGraph parent = NewGraph();
  AddChild(parent, {AddStore(parent, {}, words, 5)}, child);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  for (int i = 1; i < 4; ++i)
    EXPECT_EQ(Word(words + 8 * i), 5);
}

TEST_P(ChildGraphConformanceTest, NodesBehindAChildWaitForEveryEndOfIt) {
  const DeviceAddress words = NewWords(8);
  const CuGraph child = NewGraph();
  for (int i = 0; i < 4; ++i)
    AddStore(child, {}, words + 8 * i, i + 1);
  const CuGraph parent = NewGraph();
  const CuGraphNode node = AddChild(parent, {}, child);
  for (int i = 0; i < 4; ++i)
    AddMove(parent, {node}, words + 8 * (4 + i), words + 8 * i);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(Word(words + 8 * (4 + i)), i + 1);
}

TEST_P(ChildGraphConformanceTest, EmptyChildStillOrdersItsNeighbours) {
  const DeviceAddress words = NewWords(4);
  const CuGraph parent = NewGraph();
  const CuGraphNode left = AddStore(parent, {}, words, 1);
  const CuGraphNode right = AddStore(parent, {}, words + 8, 2);
  const CuGraphNode gate = AddChild(parent, {left, right}, NewGraph());
  AddMove(parent, {gate}, words + 16, words);
  AddMove(parent, {gate}, words + 24, words + 8);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  EXPECT_EQ(Word(words + 16), 1);
  EXPECT_EQ(Word(words + 24), 2);
}

TEST_P(ChildGraphConformanceTest, CapturedGraphServesAsAChild) {
  const DeviceAddress words = NewWords(3);
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
  EXPECT_CU(kSuccess, Move(a, words + 8, words));
  EXPECT_CU(kSuccess, Move(a, words + 16, words + 8));
  CuGraph child = nullptr;
  ASSERT_CU(kSuccess, cu.StreamEndCapture(a, &child));
  const CuGraph parent = NewGraph();
  AddChild(parent, {AddStore(parent, {}, words, 6)}, Keep(child));
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(parent), a));
  EXPECT_EQ(Word(words + 16), 6);
}

}  // namespace
}  // namespace coppice
