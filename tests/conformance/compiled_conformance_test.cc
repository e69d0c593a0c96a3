// Goal: kernels that were compiled to PTX load, tell of themselves and run as CUDA documents.
// Method: one small test per rule, on every driver, with PTX that every device of 8.0 takes.

#include "tests/conformance/child_process.h"
#include "tests/conformance/graph_fixture.h"
#include "tests/support/compiled_kernels.h"

namespace coppice {
namespace {

class CompiledConformanceTest : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    if (context == nullptr) return;
    ASSERT_CU(kSuccess, LoadText(kCompiledKernels, &compiled_));
  }

  void TearDown() override {
    if (compiled_ != nullptr) {
      EXPECT_CU(kSuccess, cu.LibraryUnload(compiled_));
    }
    GraphTest::TearDown();
  }

  CuResult LoadText(const std::string& text, CuLibrary* loaded) {
    return cu.LibraryLoadData(loaded, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  }

  CuFunction Compiled(const char* name, CuLibrary from = nullptr) {
    CuKernel kernel = nullptr;
    CuFunction function = nullptr;
    EXPECT_CU(kSuccess, cu.LibraryGetKernel(&kernel, from != nullptr ? from : compiled_, name));
    EXPECT_CU(kSuccess, cu.KernelGetFunction(&function, kernel));
    return function;
  }

  template <typename... Arguments>
  CuResult Run(CuFunction function,
               std::array<unsigned, 3> block,
               unsigned shared_bytes,
               Arguments... arguments) {
    void* pointers[] = {&arguments..., nullptr};
    return cu.LaunchKernel(function, 1, 1, 1, block[0], block[1], block[2], shared_bytes, a,
                           pointers, nullptr);
  }

  std::vector<int64_t> Words(DeviceAddress address, int64_t count) {
    std::vector<int64_t> words;
    for (int64_t i = 0; i < count; ++i)
      words.push_back(Word(address + static_cast<DeviceAddress>(i) * sizeof(int64_t)));
    return words;
  }

  static std::vector<int64_t> Ascending(int64_t first, size_t count) {
    std::vector<int64_t> words(count);
    std::iota(words.begin(), words.end(), first);
    return words;
  }

  // A launch with `attribute` runs.
  void ExpectLaunch(CuLaunchAttribute attribute) {
    const DeviceAddress words = NewWords(4);
    const CuLaunchConfig config{.grid_x = 1,
                                .grid_y = 1,
                                .grid_z = 1,
                                .block_x = 4,
                                .block_y = 1,
                                .block_z = 1,
                                .stream = a,
                                .attributes = &attribute,
                                .attribute_count = 1};
    DeviceAddress target = words;
    int64_t first = 3;
    void* arguments[] = {&target, &first};
    EXPECT_CU(kSuccess, cu.LaunchKernelEx(&config, Compiled("WriteThreads"), arguments, nullptr));
    EXPECT_EQ(Words(words, 4), Ascending(3, 4));
  }

  int Capability() {
    int major = 0;
    EXPECT_CU(kSuccess,
              cu.DeviceGetAttribute(&major, CuDeviceAttribute::kComputeCapabilityMajor, 0));
    return major;
  }

  int Attribute(CuFunctionAttribute attribute, const char* name) {
    int value = -1;
    EXPECT_CU(kSuccess, cu.FuncGetAttribute(&value, attribute, Compiled(name)));
    return value;
  }

 private:
  CuLibrary compiled_ = nullptr;
};
COPPICE_CONFORMANCE_SUITE(CompiledConformanceTest);

// Loading.

TEST_P(CompiledConformanceTest, TextThatDoesNotCompileIsRefused) {
  CuLibrary loaded = nullptr;
  EXPECT_CU(kInvalidPtx, LoadText(".version 7.0\n.target sm_80\n.address_size 64\n"
                                  ".visible .entry Wrong() { ld.global.u64 ; }\n",
                                  &loaded));
}

TEST_P(CompiledConformanceTest, ErrorLogSaysWhichLineIsWrong) {
  std::array<char, 1024> log = {};
  CuJitOption options[] = {CuJitOption::kErrorLog, CuJitOption::kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  CuLibrary loaded = nullptr;
  EXPECT_CU(kInvalidPtx, cu.LibraryLoadData(&loaded,
                                            ".version 7.0\n.target sm_80\n.address_size 64\n"
                                            ".visible .entry Wrong() {\n  mov.u32 %r1;\n}\n",
                                            options, values, 2, nullptr, nullptr, 0));
  EXPECT_NE(std::string(log.data()).find("line 5"), std::string::npos) << log.data();
}

TEST_P(CompiledConformanceTest, KernelsOfAModuleAreFoundByName) {
  EXPECT_NE(Compiled("Add"), nullptr);
  CuKernel kernel = nullptr;
  CuLibrary loaded = nullptr;
  ASSERT_CU(kSuccess, LoadText(kCompiledKernels, &loaded));
  EXPECT_CU(kNotFound, cu.LibraryGetKernel(&kernel, loaded, "add"));
  EXPECT_CU(kSuccess, cu.LibraryUnload(loaded));
}

// What kernels tell.

TEST_P(CompiledConformanceTest, ParametersAreWhereTheTextPutsThem) {
  size_t offset = 77;
  size_t bytes = 0;
  ASSERT_CU(kSuccess, cu.FuncGetParamInfo(Compiled("Add"), 1, &offset, &bytes));
  EXPECT_EQ(offset, 8U);
  EXPECT_EQ(bytes, 8U);
  EXPECT_CU(kInvalidValue, cu.FuncGetParamInfo(Compiled("Add"), 2, &offset, &bytes));
  EXPECT_CU(kInvalidValue, cu.FuncGetParamInfo(Compiled("Trap"), 0, &offset, &bytes));
}

TEST_P(CompiledConformanceTest, StaticSharedMemoryIsThatOfTheText) {
  EXPECT_EQ(Attribute(CuFunctionAttribute::kStaticSharedBytes, "Reverse"), 1024);
  EXPECT_EQ(Attribute(CuFunctionAttribute::kStaticSharedBytes, "Add"), 0);
}

TEST_P(CompiledConformanceTest, BlocksMayHaveAsManyThreadsAsTheDevice) {
  EXPECT_EQ(Attribute(CuFunctionAttribute::kMaxThreadsPerBlock, "Add"), 1024);
}

TEST_P(CompiledConformanceTest, RegistersAreNotNegative) {
  EXPECT_GE(Attribute(CuFunctionAttribute::kRegisters, "Add"), 0);
}

// Launches.

TEST_P(CompiledConformanceTest, BlocksHaveAnySize) {
  const DeviceAddress words = NewWords(90);
  const CuFunction write = Compiled("WriteThreads");
  EXPECT_CU(kSuccess, Run(write, {5, 3, 6}, 0, words, int64_t{100}));
  EXPECT_EQ(Words(words, 90), Ascending(100, 90));
  EXPECT_CU(kSuccess, Run(write, {1, 1, 1}, 0, words, int64_t{7}));
  EXPECT_EQ(Words(words, 2), (std::vector<int64_t>{7, 101}));
  EXPECT_CU(kInvalidValue, Run(write, {1025, 1, 1}, 0, words, int64_t{0}));
  EXPECT_CU(kInvalidValue, Run(write, {64, 4, 8}, 0, words, int64_t{0}));
  EXPECT_CU(kInvalidValue, Run(write, {1, 1, 65}, 0, words, int64_t{0}));
}

TEST_P(CompiledConformanceTest, ThreadsMeetAndShareMemory) {
  const DeviceAddress words = NewWords(200);
  EXPECT_CU(kSuccess, Run(Compiled("WriteThreads"), {200, 1, 1}, 0, words, int64_t{0}));
  EXPECT_CU(kSuccess, Run(Compiled("Reverse"), {200, 1, 1}, 200 * 8, words));
  const std::vector<int64_t> reversed = Words(words, 200);
  EXPECT_EQ(std::vector<int64_t>(reversed.rbegin(), reversed.rend()), Ascending(0, 200));
}

TEST_P(CompiledConformanceTest, StaticAndDynamicSharedMemoryTogetherNeedALeaveBeyondTheDefault) {
  const DeviceAddress words = NewWords(1);
  const CuFunction reverse = Compiled("Reverse");
  EXPECT_CU(kSuccess, Run(reverse, {1, 1, 1}, 48 * 1024 - 1024, words));
  EXPECT_CU(kInvalidValue, Run(reverse, {1, 1, 1}, 48 * 1024 - 1023, words));
  EXPECT_CU(kSuccess,
            cu.FuncSetAttribute(reverse, CuFunctionAttribute::kMaxDynamicSharedBytes, 60 * 1024));
  EXPECT_CU(kSuccess, Run(reverse, {1, 1, 1}, 60 * 1024, words));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
}

TEST_P(CompiledConformanceTest, VariablesOfAModuleStartAsTheTextSaysAndStay) {
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Run(Compiled("CountCalls"), {1, 1, 1}, 0, word));
  EXPECT_EQ(Word(word), 40);
  EXPECT_CU(kSuccess, Run(Compiled("CountCalls"), {1, 1, 1}, 0, word));
  EXPECT_EQ(Word(word), 41);
}

TEST_P(CompiledConformanceTest, EachLoadingHasVariablesOfItsOwn) {
  const DeviceAddress word = NewWords(1);
  EXPECT_CU(kSuccess, Run(Compiled("CountCalls"), {1, 1, 1}, 0, word));
  CuLibrary second = nullptr;
  ASSERT_CU(kSuccess, LoadText(kCompiledKernels, &second));
  EXPECT_CU(kSuccess, Run(Compiled("CountCalls", second), {1, 1, 1}, 0, word));
  EXPECT_EQ(Word(word), 40);
  EXPECT_CU(kSuccess, cu.LibraryUnload(second));
}

TEST_P(CompiledConformanceTest, ACooperativeLaunchRuns) {
  CuLaunchAttribute cooperative{.id = CuLaunchAttributeId::kCooperative};
  cooperative.value.cooperative = 1;
  ExpectLaunch(cooperative);
}

TEST_P(CompiledConformanceTest, ALaunchMayFollowTheOneBeforeProgrammatically) {
  if (Capability() < 9) GTEST_SKIP() << "programmatic launches need a device of 9.0";
  CuLaunchAttribute programmatic{.id = CuLaunchAttributeId::kProgrammaticStreamSerialization};
  programmatic.value.programmatic = 1;
  ExpectLaunch(programmatic);
}

TEST_P(CompiledConformanceTest, AClusterMayBeOneBlock) {
  if (Capability() < 9) GTEST_SKIP() << "clusters need a device of 9.0";
  CuLaunchAttribute cluster{.id = CuLaunchAttributeId::kClusterDimension};
  cluster.value.cluster = {1, 1, 1};
  ExpectLaunch(cluster);
}

// Graphs.

TEST_P(CompiledConformanceTest, ACaptureKeepsTheLaunchAndItsArguments) {
  const DeviceAddress words = NewWords(6);
  // Loads what is loaded lazily.
  EXPECT_CU(kSuccess, Run(Compiled("WriteThreads"), {3, 2, 1}, 0, words, int64_t{1}));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kRelaxed));
  EXPECT_CU(kSuccess, Run(Compiled("WriteThreads"), {3, 2, 1}, 0, words, int64_t{50}));
  CuGraph graph = nullptr;
  ASSERT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
  Keep(graph);
  CuGraphNode node = nullptr;
  size_t count = 1;
  ASSERT_CU(kSuccess, cu.GraphGetNodes(graph, &node, &count));
  CuKernelNodeParams params;
  ASSERT_CU(kSuccess, cu.GraphKernelNodeGetParams(node, &params));
  EXPECT_EQ(params.block_x, 3U);
  EXPECT_EQ(params.block_y, 2U);
  EXPECT_EQ(params.block_z, 1U);
  EXPECT_EQ(*static_cast<int64_t*>(params.kernel_params[1]), 50);
  EXPECT_CU(kSuccess, cu.GraphLaunch(Instantiate(graph), a));
  EXPECT_EQ(Words(words, 6), Ascending(50, 6));
}

TEST_P(CompiledConformanceTest, ANodeOfAnExecTakesOtherArguments) {
  const DeviceAddress words = NewWords(6);
  DeviceAddress target = words;
  int64_t first = 10;
  void* arguments[] = {&target, &first};
  CuKernelNodeParams params{.function = Compiled("WriteThreads"),
                            .grid_x = 1,
                            .grid_y = 1,
                            .grid_z = 1,
                            .block_x = 2,
                            .block_y = 1,
                            .block_z = 1,
                            .kernel_params = arguments};
  const CuGraph graph = NewGraph();
  CuGraphNode node = nullptr;
  ASSERT_CU(kSuccess, cu.GraphAddKernelNode(&node, graph, nullptr, 0, &params));
  const CuGraphExec exec = Instantiate(graph);
  first = 20;
  params.block_x = 4;
  EXPECT_CU(kSuccess, cu.GraphExecKernelNodeSetParams(exec, node, &params));
  EXPECT_CU(kSuccess, cu.GraphLaunch(exec, a));
  EXPECT_EQ(Words(words, 5), (std::vector<int64_t>{20, 21, 22, 23, 0}));
}

// Faults. A device says of a trap that the launch failed, or that an instruction was illegal.

TEST_P(CompiledConformanceTest, MisalignedAccessEndsTheContext) {
  EXPECT_IN_CHILD({
    const DeviceAddress word = NewWords(1);
    Run(Compiled("Misaligned"), {1, 1, 1}, 0, word);
    EXPECT_CU(kMisalignedAddress, cu.StreamSynchronize(a));
    EXPECT_CU(kMisalignedAddress, cu.StreamSynchronize(a));
  });
}

TEST_P(CompiledConformanceTest, TrapEndsTheContext) {
  EXPECT_IN_CHILD({
    Run(Compiled("Trap"), {1, 1, 1}, 0);
    const CuResult result = cu.StreamSynchronize(a);
    EXPECT_TRUE(result == CuResult::kLaunchFailed || result == CuResult::kIllegalInstruction)
        << NameOf(result);
    EXPECT_EQ(cu.StreamSynchronize(a), result);
  });
}

TEST_P(CompiledConformanceTest, AnAccessBehindAllThatIsMappedEndsTheContext) {
  EXPECT_IN_CHILD({
    const DeviceAddress word = Reserve(1);
    Run(Compiled("Add"), {1, 1, 1}, 0, word, word);
    EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
  });
}

}  // namespace
}  // namespace coppice
