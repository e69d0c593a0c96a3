// One suite for every driver: each test runs on the emulator in three schedules, and on CUDA where
// there is a GPU. A test calls the raw table and states what CUDA documents or is known to do.
// main.cc says which drivers take part, and whether the emulator is a wrong one on purpose.
//
// What a test makes through the fixture is given back after it, so that a test holds only what it
// is about. On the emulator the fixture then checks that nothing is left, and that the emulator has
// nothing to report.
//
// Units: bytes unless a name says otherwise. Threads: the test's own, unless it attaches others.

#pragma once

#include "coppice/runtime/driver.h"
#include "coppice/runtime/emulator.h"

#include "tests/conformance/mutants.h"
#include "tests/support/cu_result.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {

// What the command line says. It is set before GoogleTest registers the tests.
struct SuiteOptions {
  std::optional<DriverKind> driver;  // The only driver to test; none: every one.
  bool strict = true;                // Whether the emulator refuses what a GPU may tolerate.
  const Mutant* mutant = nullptr;    // What is wrong with the emulator; null: nothing.
};
inline SuiteOptions suite_options;

struct DriverCase {
  const char* name = "";
  DriverKind kind = DriverKind::kEmulator;
  int eager_permille = 0;
  bool sequential = false;
  bool compiled = false;  // The emulator runs the test kernels' PTX.
};

inline void PrintTo(const DriverCase& driver_case, std::ostream* out) {
  *out << driver_case.name;
}

// The instances that the command line asks for.
inline std::vector<DriverCase> DriverCases() {
  std::vector<DriverCase> cases = {{.name = "Emulator"},
                                   {.name = "EagerEmulator", .eager_permille = 700},
                                   {.name = "SequentialEmulator", .sequential = true},
                                   {.name = "CompiledEmulator", .compiled = true},
                                   {.name = "Cuda", .kind = DriverKind::kCuda}};
  const bool has_compiled = test_kernels_image.fatbin != nullptr;
  std::erase_if(cases, [&](const DriverCase& driver_case) {
    return driver_case.kind != suite_options.driver.value_or(driver_case.kind) ||
           (driver_case.compiled && !has_compiled);
  });
  return cases;
}

// How the emulator of a case is made.
inline Emulator::Options EmulatorOptionsOf(const DriverCase& driver_case) {
  Emulator::Options options = TestEmulatorOptions();
  options.memory_bytes = 64 * kMiB;
  options.eager_permille = driver_case.eager_permille;
  options.sequential = driver_case.sequential;
  options.compiled_kernels = driver_case.compiled;
  options.strictness = Emulator::Strictness::All(suite_options.strict);
  options.strictness.captured_loading = false;  // One case is about the first use of a kernel.
  return options;
}

// Edges of a graph as pairs of positions among its nodes, sorted.
using Edges = std::vector<std::pair<int, int>>;

class ConformanceTest : public testing::TestWithParam<DriverCase> {
 protected:
  static constexpr size_t kGranule = 2 * static_cast<size_t>(kMiB);

  void SetUp() override {
    OpenDriver();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_CU(kSuccess, cu.Init(0));
    ASSERT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&context, 0));
    ASSERT_CU(kSuccess, cu.CtxSetCurrent(context));
    ASSERT_CU(kSuccess,
              cu.LibraryLoadData(&library, image_, nullptr, nullptr, 0, nullptr, nullptr, 0));
    // Before any capture, since looking a kernel up may load it.
    for (const char* const name :
         {"Fill", "Scale", "Add", "MaskedScale", "Store", "Collectives", "Cube"}) {
      CuKernel kernel = nullptr;
      ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, library, name));
      ASSERT_CU(kSuccess, cu.KernelGetFunction(&functions_[name], kernel));
    }
    a = NewStream();
    b = NewStream();
    LaunchEachKernel();
  }

  // Fills `cu` and touches nothing more of the driver, or skips the test.
  void OpenDriver() {
    if (GetParam().kind == DriverKind::kCuda) {
      if (const std::string reason = WhyNoCuda(); !reason.empty()) GTEST_SKIP() << reason;
      COPPICE_ASSERT_OK_AND_ASSIGN(const Driver cuda, Driver::LoadCuda());
      cu = cuda.table();
      KeepCudaContext(cu);
      image_ = test_kernels_image.fatbin;
      return;
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(emulator_, Emulator::Create(EmulatorOptionsOf(GetParam())));
    cu = emulator_->driver().table();
    if (suite_options.mutant != nullptr) cu = Mutated(cu, *suite_options.mutant);
    image_ = &test_kernels_image;
  }

  void TearDown() override {
    if (context == nullptr) return;
    for (const CuStream stream : streams_)
      EXPECT_CU(kSuccess, cu.StreamDestroy(stream));
    for (const CuEvent event : events_)
      EXPECT_CU(kSuccess, cu.EventDestroy(event));
    for (const CuGraphExec exec : execs_)
      EXPECT_CU(kSuccess, cu.GraphExecDestroy(exec));
    for (const CuGraph graph : graphs_)
      EXPECT_CU(kSuccess, cu.GraphDestroy(graph));
    for (const DeviceAddress address : allocations_)
      EXPECT_CU(kSuccess, cu.MemFree(address));
    EXPECT_CU(kSuccess, cu.LibraryUnload(library));
    EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRelease(0));
    if (emulator_ == nullptr) return;
    Emulator::Live left = emulator_->live();
    left.nodes_executed = 0;
    EXPECT_EQ(left, Emulator::Live()) << "the test left something behind";
    EXPECT_EQ(emulator_->reports(), std::vector<std::string>());
  }

  CuStream NewStream() {
    CuStream stream = nullptr;
    EXPECT_CU(kSuccess, cu.StreamCreate(&stream, kStreamNonBlocking));
    streams_.push_back(stream);
    return stream;
  }

  CuEvent NewEvent(unsigned flags = kEventDisableTiming) {
    CuEvent event = nullptr;
    EXPECT_CU(kSuccess, cu.EventCreate(&event, flags));
    events_.push_back(event);
    return event;
  }

  CuGraph NewGraph() {
    CuGraph graph = nullptr;
    EXPECT_CU(kSuccess, cu.GraphCreate(&graph, 0));
    return Keep(graph);
  }

  // Has `graph` destroyed after the test.
  CuGraph Keep(CuGraph graph) {
    graphs_.push_back(graph);
    return graph;
  }

  CuGraphExec Instantiate(CuGraph graph) {
    CuGraphExec exec = nullptr;
    EXPECT_CU(kSuccess, cu.GraphInstantiateWithFlags(&exec, graph, 0));
    execs_.push_back(exec);
    return exec;
  }

  // Memory for `count` words, each zero.
  DeviceAddress NewWords(int64_t count) {
    DeviceAddress address = 0;
    const size_t bytes = static_cast<size_t>(count) * sizeof(int64_t);
    EXPECT_CU(kSuccess, cu.MemAlloc(&address, bytes));
    EXPECT_CU(kSuccess, cu.MemsetD8Async(address, 0, bytes, a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    allocations_.push_back(address);
    return address;
  }

  // The word at `address`, once `a` and `b` have drained.
  int64_t Word(DeviceAddress address) {
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(b));
    int64_t word = 0;
    EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(&word, address, sizeof(word), a));
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    return word;
  }

  // A kernel of test_kernels.h.
  CuFunction Function(const std::string& name) const { return functions_.at(name); }

  // Stores `value` at `address` by a kernel.
  CuResult Store(CuStream stream, DeviceAddress address, int64_t value) const {
    StoreParams params{.target = PointerAt<int64_t>(address), .value = value};
    void* arguments[] = {&params};
    return cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, stream, arguments,
                           nullptr);
  }

  // Copies the word at `source` to `target`.
  CuResult Move(CuStream stream, DeviceAddress target, DeviceAddress source) const {
    return cu.MemcpyDtoDAsync(target, source, sizeof(int64_t), stream);
  }

  // Queries until the answer is another than kNotReady.
  CuResult Poll(CuStream stream) const {
    CuResult result = cu.StreamQuery(stream);
    while (result == CuResult::kNotReady)
      result = cu.StreamQuery(stream);
    return result;
  }
  CuResult Poll(CuEvent event) const {
    CuResult result = cu.EventQuery(event);
    while (result == CuResult::kNotReady)
      result = cu.EventQuery(event);
    return result;
  }

  // A host function that counts its calls. Functions of two streams may run at once.
  static void Count(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

  // Makes later work of `later` wait for the present work of `earlier`; captured like any other.
  void Order(CuStream earlier, CuStream later) {
    const CuEvent event = NewEvent();
    EXPECT_CU(kSuccess, cu.EventRecord(event, earlier));
    EXPECT_CU(kSuccess, cu.StreamWaitEvent(later, event, 0));
  }

  // Runs `body` on another thread, on which the context is current, and waits.
  template <typename Body>
  void OnThread(Body body) {
    std::thread([&] {
      EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
      body();
    }).join();
  }

  size_t NodeCount(CuGraph graph) const {
    size_t count = 0;
    EXPECT_CU(kSuccess, cu.GraphGetNodes(graph, nullptr, &count));
    return count;
  }

  std::vector<CuGraphNode> NodesOf(CuGraph graph) const {
    size_t count = NodeCount(graph);
    std::vector<CuGraphNode> nodes(count);
    EXPECT_CU(kSuccess, cu.GraphGetNodes(graph, nodes.data(), &count));
    return nodes;
  }

  // By positions in NodesOf(graph).
  Edges EdgesOf(CuGraph graph) const {
    size_t count = 0;
    EXPECT_CU(kSuccess, cu.GraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    std::vector<CuGraphNode> from(count);
    std::vector<CuGraphNode> to(count);
    EXPECT_CU(kSuccess, cu.GraphGetEdges(graph, from.data(), to.data(), nullptr, &count));
    const std::vector<CuGraphNode> nodes = NodesOf(graph);
    const auto position = [&](CuGraphNode node) {
      return static_cast<int>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
    };
    Edges edges;
    for (size_t i = 0; i < count; ++i)
      edges.emplace_back(position(from[i]), position(to[i]));
    std::sort(edges.begin(), edges.end());
    return edges;
  }

  // The half of the test kernels that the driver loads.
  const void* image() const { return image_; }

  DriverTable cu;
  CuContext context = nullptr;
  CuLibrary library = nullptr;
  CuStream a = nullptr;
  CuStream b = nullptr;

 private:
  // Launches the kernels that tests capture, with next to nothing to do. A driver may load a kernel
  // at its first launch, which a capture may forbid.
  void LaunchEachKernel() {
    DeviceAddress word = 0;
    ASSERT_CU(kSuccess, cu.MemAlloc(&word, sizeof(int64_t)));
    EXPECT_CU(kSuccess, Store(a, word, 0));
    const auto launch = [&](const char* name, auto params) {
      void* arguments[] = {&params};
      EXPECT_CU(kSuccess, cu.LaunchKernel(Function(name), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                                          arguments, nullptr));
    };
    launch("Fill", FillParams());
    launch("Scale", ScaleParams());
    launch("Add", AddParams());
    launch("MaskedScale", MaskedScaleParams{.words = PointerAt<int64_t>(word)});
    launch("Cube", CubeParams{.target = PointerAt<int64_t>(word)});
    EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
    EXPECT_CU(kSuccess, cu.MemFree(word));
  }

  std::unique_ptr<Emulator> emulator_;
  const void* image_ = nullptr;
  std::map<std::string, CuFunction> functions_;
  std::vector<CuStream> streams_;
  std::vector<CuEvent> events_;
  std::vector<CuGraph> graphs_;
  std::vector<CuGraphExec> execs_;
  std::vector<DeviceAddress> allocations_;
};

// Instantiates a suite that derives from ConformanceTest for every driver.
#define COPPICE_CONFORMANCE_SUITE(suite)                                            \
  INSTANTIATE_TEST_SUITE_P(Drivers, suite, testing::ValuesIn(DriverCases()),        \
                           [](const testing::TestParamInfo<DriverCase>& instance) { \
                             return std::string(instance.param.name);               \
                           })

}  // namespace coppice
