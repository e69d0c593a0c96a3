// Goal: launches with attributes, shared memory and grids of three dimensions behave as CUDA
// documents.
// Method: one small test per documented rule, on every driver; clusters and programmatic launches
// where the device has them.

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

CuLaunchAttribute Cooperative() {
  CuLaunchAttribute attribute{.id = CuLaunchAttributeId::kCooperative};
  attribute.value.cooperative = 1;
  return attribute;
}

CuLaunchAttribute Cluster(unsigned x, unsigned y = 1, unsigned z = 1) {
  CuLaunchAttribute attribute{.id = CuLaunchAttributeId::kClusterDimension};
  attribute.value.cluster = {x, y, z};
  return attribute;
}

CuLaunchAttribute Programmatic() {
  CuLaunchAttribute attribute{.id = CuLaunchAttributeId::kProgrammaticStreamSerialization};
  attribute.value.programmatic = 1;
  return attribute;
}

class LaunchExConformanceTest : public ConformanceTest {
 protected:
  static constexpr int64_t kWords = 64;  // At `words`: one per block of a launch.

  void SetUp() override {
    ConformanceTest::SetUp();
    if (context != nullptr) words = NewWords(kWords);
  }

  // Launches "Cube", whose block b stores b plus what it summed up in shared memory at word b.
  CuResult Cube(std::array<unsigned, 3> grid,
                std::vector<CuLaunchAttribute> attributes = {},
                unsigned shared_bytes = 0) {
    CubeParams params{.target = PointerAt<int64_t>(words),
                      .shared_words = static_cast<int64_t>(shared_bytes / sizeof(int64_t))};
    void* arguments[] = {&params};
    const CuLaunchConfig config{.grid_x = grid[0],
                                .grid_y = grid[1],
                                .grid_z = grid[2],
                                .block_x = kTestThreads,
                                .shared_bytes = shared_bytes,
                                .stream = a,
                                .attributes = attributes.data(),
                                .attribute_count = static_cast<unsigned>(attributes.size())};
    return cu.LaunchKernelEx(&config, Function("Cube"), arguments, nullptr);
  }

  // What the first `count` blocks stored.
  std::vector<int64_t> Stored(int64_t count) {
    std::vector<int64_t> stored(static_cast<size_t>(count));
    EXPECT_CU(kSuccess,
              cu.MemcpyDtoHAsync(stored.data(), words, stored.size() * sizeof(int64_t), a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    return stored;
  }

  static std::vector<int64_t> UpFrom(int64_t first, int64_t count) {
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
  }

  // What `count` words of shared memory sum up to.
  static int64_t SumOf(unsigned bytes) {
    const int64_t count = bytes / sizeof(int64_t);
    return count * (count - 1) / 2;
  }

  int DeviceLimit(CuDeviceAttribute attribute) const {
    int value = 0;
    EXPECT_CU(kSuccess, cu.DeviceGetAttribute(&value, attribute, 0));
    return value;
  }

  bool HasClusters() const { return DeviceLimit(CuDeviceAttribute::kComputeCapabilityMajor) >= 9; }

  // Captures what `record` submits to `a`.
  template <typename Record>
  CuGraph Captured(Record record) {
    CuGraph graph = nullptr;
    EXPECT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kThreadLocal));
    record();
    EXPECT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
    return Keep(graph);
  }

  CuGraphNode OnlyNode(CuGraph graph) const {
    CuGraphNode node = nullptr;
    size_t count = 1;
    EXPECT_CU(kSuccess, cu.GraphGetNodes(graph, &node, &count));
    EXPECT_EQ(count, 1U);
    return node;
  }

  void ExpectRefused(CuResult result) {
    EXPECT_TRUE(result == CuResult::kInvalidValue || result == CuResult::kInvalidClusterSize)
        << NameOf(result);
  }

  DeviceAddress words = 0;
};
COPPICE_CONFORMANCE_SUITE(LaunchExConformanceTest);

// Sizes: the documentation of cuLaunchKernelEx, which has the limits of cuLaunchKernel.

TEST_P(LaunchExConformanceTest, EveryBlockKnowsItsPlaceInThreeDimensions) {
  EXPECT_CU(kSuccess, Cube({3, 4, 2}));
  EXPECT_EQ(Stored(24), UpFrom(0, 24));
}

TEST_P(LaunchExConformanceTest, SizesHaveTheLimitsOfEveryLaunch) {
  EXPECT_CU(kInvalidValue, Cube({0, 1, 1}));
  EXPECT_CU(kInvalidValue, Cube({1, 65536, 1}));
  EXPECT_CU(kInvalidValue, Cube({1, 1, 65536}));
  EXPECT_CU(kInvalidValue, Cube({0x80000000, 1, 1}));
}

TEST_P(LaunchExConformanceTest, ConfigIsNeeded) {
  CubeParams params{.target = PointerAt<int64_t>(words)};
  void* arguments[] = {&params};
  EXPECT_CU(kInvalidValue, cu.LaunchKernelEx(nullptr, Function("Cube"), arguments, nullptr));
  const CuLaunchConfig config{
      .block_x = kTestThreads, .stream = a, .attributes = nullptr, .attribute_count = 1};
  EXPECT_CU(kInvalidValue, cu.LaunchKernelEx(&config, Function("Cube"), arguments, nullptr));
}

TEST_P(LaunchExConformanceTest, ParametersComeInOneWay) {
  CubeParams params{.target = PointerAt<int64_t>(words)};
  void* arguments[] = {&params};
  void* extra[] = {nullptr};
  const CuLaunchConfig config{.block_x = kTestThreads, .stream = a};
  EXPECT_CU(kInvalidValue, cu.LaunchKernelEx(&config, Function("Cube"), arguments, extra));
}

TEST_P(LaunchExConformanceTest, IgnoredAttributeChangesNothing) {
  EXPECT_CU(kSuccess, Cube({4, 1, 1}, {CuLaunchAttribute()}));
  EXPECT_EQ(Stored(4), UpFrom(0, 4));
}

// Shared memory: the documentation of cuFuncSetAttribute and of the attribute.

TEST_P(LaunchExConformanceTest, DynamicSharedMemoryIsAsLargeAsTheLaunchSays) {
  constexpr unsigned kBytes = 800;
  EXPECT_CU(kSuccess, Cube({2, 2, 1}, {}, kBytes));
  EXPECT_EQ(Stored(4), UpFrom(SumOf(kBytes), 4));
}

TEST_P(LaunchExConformanceTest, SharedMemoryUpToTheDefaultNeedsNoLeave) {
  const int bytes = DeviceLimit(CuDeviceAttribute::kMaxSharedMemoryPerBlock);
  int allowed = 0;
  EXPECT_CU(kSuccess, cu.FuncGetAttribute(&allowed, CuFunctionAttribute::kMaxDynamicSharedBytes,
                                          Function("Cube")));
  EXPECT_EQ(allowed, bytes) << "the kernel has no static shared memory";
  EXPECT_CU(kSuccess, Cube({2, 1, 1}, {}, static_cast<unsigned>(bytes)));
  EXPECT_EQ(Stored(2), UpFrom(SumOf(static_cast<unsigned>(bytes)), 2));
}

TEST_P(LaunchExConformanceTest, SharedMemoryBeyondTheDefaultNeedsALeave) {
  constexpr unsigned kBytes = 64 * 1024;
  if (DeviceLimit(CuDeviceAttribute::kMaxSharedMemoryPerBlockOptin) < static_cast<int>(kBytes))
    GTEST_SKIP() << "the device has less shared memory";
  EXPECT_CU(kInvalidValue, Cube({2, 1, 1}, {}, kBytes));
  EXPECT_CU(kSuccess,
            cu.FuncSetAttribute(Function("Cube"), CuFunctionAttribute::kMaxDynamicSharedBytes,
                                static_cast<int>(kBytes)));
  EXPECT_CU(kInvalidValue, Cube({2, 1, 1}, {}, kBytes + 8));
  EXPECT_CU(kSuccess, Cube({2, 1, 1}, {}, kBytes));
  EXPECT_EQ(Stored(2), UpFrom(SumOf(kBytes), 2));
}

TEST_P(LaunchExConformanceTest, LeaveEndsAtTheDevicesLimit) {
  const int limit = DeviceLimit(CuDeviceAttribute::kMaxSharedMemoryPerBlockOptin);
  const auto allow = [&](int bytes) {
    return cu.FuncSetAttribute(Function("Cube"), CuFunctionAttribute::kMaxDynamicSharedBytes,
                               bytes);
  };
  EXPECT_CU(kSuccess, allow(limit));
  EXPECT_CU(kInvalidValue, allow(limit + 1));
  int allowed = 0;
  EXPECT_CU(kSuccess, cu.FuncGetAttribute(&allowed, CuFunctionAttribute::kMaxDynamicSharedBytes,
                                          Function("Cube")));
  EXPECT_EQ(allowed, limit);
}

TEST_P(LaunchExConformanceTest, LeaveIsTheFunctionsOwn) {
  EXPECT_CU(kSuccess,
            cu.FuncSetAttribute(Function("Store"), CuFunctionAttribute::kMaxDynamicSharedBytes, 0));
  int allowed = 0;
  EXPECT_CU(kSuccess, cu.FuncGetAttribute(&allowed, CuFunctionAttribute::kMaxDynamicSharedBytes,
                                          Function("Cube")));
  EXPECT_GT(allowed, 0);
}

TEST_P(LaunchExConformanceTest, FunctionTellsHowManyThreadsABlockMayHave) {
  int threads = 0;
  EXPECT_CU(kSuccess, cu.FuncGetAttribute(&threads, CuFunctionAttribute::kMaxThreadsPerBlock,
                                          Function("Cube")));
  EXPECT_GE(threads, kTestThreads);
  EXPECT_LE(threads, DeviceLimit(CuDeviceAttribute::kMaxThreadsPerBlock));
  EXPECT_CU(kInvalidValue,
            cu.FuncSetAttribute(Function("Cube"), CuFunctionAttribute::kMaxThreadsPerBlock, 32))
      << "it can be read only";
  EXPECT_CU(kInvalidValue, cu.FuncGetAttribute(nullptr, CuFunctionAttribute::kMaxThreadsPerBlock,
                                               Function("Cube")));
}

// Cooperative launches: the documentation of cuLaunchCooperativeKernel.

TEST_P(LaunchExConformanceTest, CooperativeGridThatFitsRuns) {
  EXPECT_CU(kSuccess, Cube({2, 2, 2}, {Cooperative()}, 64));
  EXPECT_EQ(Stored(8), UpFrom(SumOf(64), 8));
}

TEST_P(LaunchExConformanceTest, CooperativeGridBeyondTheDeviceIsTooLarge) {
  EXPECT_CU(kCooperativeLaunchTooLarge, Cube({1 << 20, 1, 1}, {Cooperative()}));
  EXPECT_EQ(Stored(2), (std::vector<int64_t>{0, 0})) << "nothing ran";
}

TEST_P(LaunchExConformanceTest, CooperativeLaunchIsCooperativeInAGraph) {
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({4, 1, 1}, {Cooperative()})); });
  CuLaunchAttributeValue value;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeGetAttribute(OnlyNode(graph),
                                                     CuLaunchAttributeId::kCooperative, &value));
  EXPECT_NE(value.cooperative, 0);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Stored(4), UpFrom(0, 4));
}

TEST_P(LaunchExConformanceTest, PlainLaunchIsNotCooperativeInAGraph) {
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({4, 1, 1}, {}, 800)); });
  CuLaunchAttributeValue value;
  value.cooperative = 1;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeGetAttribute(OnlyNode(graph),
                                                     CuLaunchAttributeId::kCooperative, &value));
  EXPECT_EQ(value.cooperative, 0);
  CuKernelNodeParams params;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeGetParams(OnlyNode(graph), &params));
  EXPECT_EQ(params.shared_bytes, 800U);
}

TEST_P(LaunchExConformanceTest, UpdateMakesNoNodeCooperative) {
  const CuGraph plain = Captured([&] { EXPECT_CU(kSuccess, Cube({4, 1, 1})); });
  const CuGraph cooperative = Captured([&] {
    EXPECT_CU(kSuccess, Cube({4, 1, 1}, {Cooperative()}));
  });
  const CuGraphExec exec = Instantiate(plain);
  CuGraphExecUpdateResultInfo info;
  EXPECT_CU(kGraphExecUpdateFailure, cu.GraphExecUpdate(exec, cooperative, &info));
  EXPECT_NE(info.result, CuGraphExecUpdateResult::kSuccess);
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Stored(4), UpFrom(0, 4)) << "it is what it was";
}

TEST_P(LaunchExConformanceTest, ParametersOfANodeChangeNotItsAttributes) {
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({4, 1, 1}, {Cooperative()})); });
  const CuGraphExec exec = Instantiate(graph);
  CuKernelNodeParams params;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeGetParams(OnlyNode(graph), &params));
  params.grid_x = 5;
  EXPECT_CU(kSuccess, cu.GraphExecKernelNodeSetParams(exec, OnlyNode(graph), &params));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Stored(5), UpFrom(0, 5));
}

TEST_P(LaunchExConformanceTest, AttributeOfANodeNeedsAKernelAndAPlaceToGo) {
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({1, 1, 1})); });
  EXPECT_CU(kInvalidValue, cu.GraphKernelNodeGetAttribute(
                               OnlyNode(graph), CuLaunchAttributeId::kCooperative, nullptr));
  const CuGraph fill = Captured([&] { EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0, 8, a)); });
  CuLaunchAttributeValue value;
  EXPECT_CU(kInvalidValue, cu.GraphKernelNodeGetAttribute(
                               OnlyNode(fill), CuLaunchAttributeId::kCooperative, &value));
}

// Attributes of nodes that were added: the documentation of cuGraphKernelNodeSetAttribute.

TEST_P(LaunchExConformanceTest, NodeTakesAnAttribute) {
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({4, 1, 1})); });
  const CuLaunchAttributeValue given = Cooperative().value;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeSetAttribute(OnlyNode(graph),
                                                     CuLaunchAttributeId::kCooperative, &given));
  CuLaunchAttributeValue value;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeGetAttribute(OnlyNode(graph),
                                                     CuLaunchAttributeId::kCooperative, &value));
  EXPECT_NE(value.cooperative, 0);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Stored(4), UpFrom(0, 4));
}

TEST_P(LaunchExConformanceTest, NodeTakesClusters) {
  if (!HasClusters()) GTEST_SKIP() << "the device has no clusters";
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({4, 2, 1})); });
  const CuLaunchAttributeValue given = Cluster(2, 2).value;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeSetAttribute(
                          OnlyNode(graph), CuLaunchAttributeId::kClusterDimension, &given));
  CuLaunchAttributeValue value;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeGetAttribute(
                          OnlyNode(graph), CuLaunchAttributeId::kClusterDimension, &value));
  EXPECT_EQ(value.cluster.x, 2U);
  EXPECT_EQ(value.cluster.y, 2U);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Stored(8), UpFrom(0, 8));
}

TEST_P(LaunchExConformanceTest, AttributeIsSetOfAKernelAndFromSomewhere) {
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({1, 1, 1})); });
  EXPECT_CU(kInvalidValue, cu.GraphKernelNodeSetAttribute(
                               OnlyNode(graph), CuLaunchAttributeId::kCooperative, nullptr));
  const CuGraph fill = Captured([&] { EXPECT_CU(kSuccess, cu.MemsetD8Async(words, 0, 8, a)); });
  const CuLaunchAttributeValue value = Cooperative().value;
  EXPECT_CU(kInvalidValue, cu.GraphKernelNodeSetAttribute(
                               OnlyNode(fill), CuLaunchAttributeId::kCooperative, &value));
  EXPECT_CU(kInvalidValue,
            cu.GraphKernelNodeSetAttribute(nullptr, CuLaunchAttributeId::kCooperative, &value));
}

// Clusters: the documentation of the attribute, and the Programming Guide. Which of two results
// says that one cannot be, CUDA leaves open.

TEST_P(LaunchExConformanceTest, GridOfClustersRuns) {
  if (!HasClusters()) GTEST_SKIP() << "the device has no clusters";
  EXPECT_CU(kSuccess, Cube({4, 2, 2}, {Cluster(2, 1, 2)}));
  EXPECT_EQ(Stored(16), UpFrom(0, 16));
}

TEST_P(LaunchExConformanceTest, ClustersDivideTheGrid) {
  if (!HasClusters()) GTEST_SKIP() << "the device has no clusters";
  ExpectRefused(Cube({4, 1, 1}, {Cluster(3)}));
  ExpectRefused(Cube({4, 1, 1}, {Cluster(2, 2)}));
  ExpectRefused(Cube({4, 1, 1}, {Cluster(0)}));
}

TEST_P(LaunchExConformanceTest, ClustersBeyondEightBlocksNeedALeave) {
  if (!HasClusters()) GTEST_SKIP() << "the device has no clusters";
  EXPECT_CU(kSuccess, Cube({16, 1, 1}, {Cluster(8)}));
  ExpectRefused(Cube({16, 1, 1}, {Cluster(16)}));
  ExpectRefused(Cube({64, 1, 1}, {Cluster(64)}));
  EXPECT_EQ(Stored(16), UpFrom(0, 16));
}

TEST_P(LaunchExConformanceTest, ClustersStayInAGraph) {
  if (!HasClusters()) GTEST_SKIP() << "the device has no clusters";
  const CuGraph graph = Captured([&] { EXPECT_CU(kSuccess, Cube({4, 2, 1}, {Cluster(2, 2)})); });
  CuLaunchAttributeValue value;
  EXPECT_CU(kSuccess, cu.GraphKernelNodeGetAttribute(
                          OnlyNode(graph), CuLaunchAttributeId::kClusterDimension, &value));
  EXPECT_EQ(value.cluster.x, 2U);
  EXPECT_EQ(value.cluster.y, 2U);
  EXPECT_EQ(value.cluster.z, 1U);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Stored(8), UpFrom(0, 8));
}

// Programmatic dependent launches: the Programming Guide.

TEST_P(LaunchExConformanceTest, ProgrammaticLaunchRuns) {
  const DeviceAddress other = NewWords(1);
  EXPECT_CU(kSuccess, Store(a, other, 7));
  EXPECT_CU(kSuccess, Cube({4, 1, 1}, {Programmatic()}));
  EXPECT_EQ(Stored(4), UpFrom(0, 4));
  EXPECT_EQ(Word(other), 7);
}

TEST_P(LaunchExConformanceTest, ProgrammaticLaunchHasAProgrammaticEdgeInAGraph) {
  if (!HasClusters()) GTEST_SKIP() << "programmatic launches came with clusters";
  const DeviceAddress other = NewWords(1);
  const CuGraph graph = Captured([&] {
    EXPECT_CU(kSuccess, cu.MemsetD8Async(other, 0, 8, a));
    EXPECT_CU(kSuccess, Store(a, other, 7));
    EXPECT_CU(kSuccess, Cube({4, 1, 1}, {Programmatic()}));
    EXPECT_CU(kSuccess, Store(a, other, 8));
  });
  std::array<CuGraphNode, 3> from{};
  std::array<CuGraphNode, 3> to{};
  std::array<CuGraphEdgeData, 3> data{};
  size_t count = 3;
  EXPECT_CU(kLossyQuery, cu.GraphGetEdges(graph, from.data(), to.data(), nullptr, &count));
  count = 3;
  EXPECT_CU(kSuccess, cu.GraphGetEdges(graph, from.data(), to.data(), data.data(), &count));
  ASSERT_EQ(count, 3U);
  int programmatic = 0;
  for (const CuGraphEdgeData& edge : data) {
    if (edge.type == 0) continue;
    ++programmatic;
    EXPECT_EQ(edge.type, kProgrammaticEdge);
    EXPECT_EQ(edge.from_port, kProgrammaticPort);
    EXPECT_EQ(edge.to_port, 0);
  }
  EXPECT_EQ(programmatic, 1) << "between kernels, and before the launch that says so";
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Stored(4), UpFrom(0, 4));
  EXPECT_EQ(Word(other), 8);
}

// Kernels of a library: the documentation of cuLibraryEnumerateKernels.

TEST_P(LaunchExConformanceTest, LibraryListsItsKernels) {
  unsigned count = 0;
  const CuResult result = cu.LibraryGetKernelCount(&count, library);
  if (result == CuResult::kNotSupported) GTEST_SKIP() << "the driver is older than CUDA 12.4";
  EXPECT_CU(kSuccess, result);
  EXPECT_EQ(count, test_kernels_image.kernel_count);
  std::vector<CuKernel> kernels(count);
  EXPECT_CU(kSuccess, cu.LibraryEnumerateKernels(kernels.data(), count, library));
  std::set<std::string> names;
  for (const CuKernel kernel : kernels) {
    CuFunction function = nullptr;
    const char* name = nullptr;
    EXPECT_CU(kSuccess, cu.KernelGetFunction(&function, kernel));
    EXPECT_CU(kSuccess, cu.FuncGetName(&name, function));
    names.insert(name);
  }
  std::set<std::string> expected;
  for (uint32_t i = 0; i < test_kernels_image.kernel_count; ++i)
    expected.insert(test_kernels_image.kernels[i]->name);
  EXPECT_EQ(names, expected);
}

TEST_P(LaunchExConformanceTest, LibraryListsNoMoreKernelsThanThereIsRoomFor) {
  std::array<CuKernel, 3> kernels{};
  const CuResult result = cu.LibraryEnumerateKernels(kernels.data(), 2, library);
  if (result == CuResult::kNotSupported) GTEST_SKIP() << "the driver is older than CUDA 12.4";
  EXPECT_CU(kSuccess, result);
  EXPECT_NE(kernels[0], nullptr);
  EXPECT_NE(kernels[1], nullptr);
  EXPECT_EQ(kernels[2], nullptr);
  EXPECT_CU(kInvalidValue, cu.LibraryEnumerateKernels(nullptr, 2, library));
  EXPECT_CU(kInvalidValue, cu.LibraryGetKernelCount(nullptr, library));
}

}  // namespace
}  // namespace coppice
