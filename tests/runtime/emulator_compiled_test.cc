// Goal: the emulator runs compiled kernels, says why it does not, and finds what is wrong with
// them. Method: raw driver calls with PTX written for the purpose; each check on and off, in order
// and not, under several seeds, since what is found may not depend on what runs first.

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/runtime/kernel_image.h"

#include "tests/runtime/emulator_machine.h"
#include "tests/support/compiled_kernels.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kSeeds = 12;

Emulator::Options Drawn(uint64_t seed) {
  Emulator::Options options = OptionsToLook();
  options.seed = seed;
  options.eager_permille = seed % 3 == 0 ? 500 : 0;
  return options;
}

// A machine with the kernels of `text`.
class CompiledMachine : public Machine {
 public:
  explicit CompiledMachine(Emulator::Options options = OptionsToLook(),
                           const char* text = kCompiledKernels)
      : Machine(std::move(options)) {
    EXPECT_CU(kSuccess, Load(text, &compiled));
  }

  CuResult Load(const void* image, CuLibrary* loaded, std::string* said = nullptr) const {
    std::array<char, 512> log = {};
    CuJitOption jit_options[] = {CuJitOption::kErrorLogBytes, CuJitOption::kErrorLog};
    void* values[] = {reinterpret_cast<void*>(log.size()), log.data()};
    const CuResult result =
        cu.LibraryLoadData(loaded, image, jit_options, values, 2, nullptr, nullptr, 0);
    if (said != nullptr) *said = log.data();
    return result;
  }

  CuFunction Compiled(const char* name) const {
    CuKernel kernel = nullptr;
    EXPECT_CU(kSuccess, cu.LibraryGetKernel(&kernel, compiled, name));
    return reinterpret_cast<CuFunction>(kernel);
  }

  template <typename... Arguments>
  CuResult Run(CuStream on, const char* name, unsigned threads, Arguments... arguments) const {
    void* pointers[] = {&arguments..., nullptr};
    return cu.LaunchKernel(Compiled(name), 1, 1, 1, threads, 1, 1, 0, on, pointers, nullptr);
  }

  std::vector<std::string> Reports() const {
    EXPECT_CU(kSuccess, cu.CtxSynchronize());
    return emulator->reports();
  }

  CuEvent NewEvent() const {
    CuEvent event = nullptr;
    EXPECT_CU(kSuccess, cu.EventCreate(&event, kEventDisableTiming));
    return event;
  }

  CuLibrary compiled = nullptr;
};

// Images.

TEST(CompiledImageTest, FatbinOfNvccRunsLikeTheHostCode) {
  if (test_kernels_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no fatbin";
  CompiledMachine machine;
  ASSERT_CU(kSuccess, machine.Load(test_kernels_image.fatbin, &machine.compiled));
  const DeviceAddress word = machine.Allocate(8);
  const StoreParams params{.target = PointerAt<int64_t>(word), .value = 12};
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "Store", kTestThreads, params));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(*PointerAt<int64_t>(word), 12);
}

TEST(CompiledImageTest, KernelsOfTheBuildRunAsPtxIfAskedFor) {
  if (test_kernels_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no fatbin";
  for (const bool compiled : {false, true}) {
    Emulator::Options options = OptionsToLook();
    options.compiled_kernels = compiled;
    const Machine machine(options);
    const DeviceAddress word = machine.Allocate(8);
    // A host kernel takes one block size only; what is compiled takes as many threads as it may.
    const StoreParams params{.target = PointerAt<int64_t>(word), .value = 3};
    void* arguments[] = {const_cast<StoreParams*>(&params)};
    EXPECT_EQ(machine.cu.LaunchKernel(machine.Function("Store"), 1, 1, 1, kTestThreads / 2, 1, 1, 0,
                                      machine.stream, arguments, nullptr),
              compiled ? CuResult::kSuccess : CuResult::kInvalidValue);
    EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 5));
    EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
    EXPECT_EQ(*PointerAt<int64_t>(word), 5);
    EXPECT_THAT(machine.emulator->reports(), IsEmpty());
  }
}

TEST(CompiledImageTest, WithoutCompiledKernelsIsRefusedIfTheyAreAskedFor) {
  Emulator::Options options = OptionsToLook();
  options.compiled_kernels = true;
  absl::StatusOr<std::unique_ptr<Emulator>> created = Emulator::Create(options);
  ASSERT_OK(created);
  const DriverTable& cu = (*created)->driver().table();
  CuContext context = nullptr;
  EXPECT_CU(kSuccess, cu.Init(0));
  EXPECT_CU(kSuccess, cu.DevicePrimaryCtxRetain(&context, 0));
  EXPECT_CU(kSuccess, cu.CtxSetCurrent(context));
  KernelImage image = test_kernels_image;
  image.fatbin = nullptr;
  CuLibrary library = nullptr;
  EXPECT_CU(kNoBinaryForGpu,
            cu.LibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0));
}

TEST(CompiledImageTest, PtxForANewerDeviceIsRefused) {
  Emulator::Options options = OptionsToLook();
  options.compute_capability = 80;
  const CompiledMachine machine(options);
  std::string text = kCompiledKernels;
  text.replace(text.find("sm_80"), 5, "sm_89");
  CuLibrary loaded = nullptr;
  std::string said;
  EXPECT_CU(kInvalidPtx, machine.Load(text.c_str(), &loaded, &said));
  EXPECT_THAT(said, HasSubstr("sm_89"));
  EXPECT_THAT(said, HasSubstr("8.0"));
}

TEST(CompiledImageTest, RefusalSaysWhy) {
  const CompiledMachine machine;
  struct Case {
    std::string image;
    CuResult result;
    std::vector<std::string> said;
  };
  const std::string head = ".version 8.0\n.target sm_90a\n.address_size 64\n";
  const Case cases[] = {
      {"not a program", CuResult::kInvalidPtx, {"line 1"}},
      {"", CuResult::kInvalidPtx, {"line 1"}},
      {".version 8.0\n", CuResult::kInvalidPtx, {".target"}},
      {head + ".visible .entry K() {\n  mov.u32 %r1;\n}\n", CuResult::kInvalidPtx, {"line 5"}},
      {head + ".visible .entry K() {\n  wgmma.fence.sync.aligned;\n  ret;\n}\n",
       CuResult::kNotSupported,
       {"kernel K", "line 5", "wgmma.fence", "sm_80 or sm_89"}},
      {"\x7f\x45LF", CuResult::kNoBinaryForGpu, {"cubin", "PTX"}}};
  for (const Case& one : cases) {
    CuLibrary loaded = nullptr;
    std::string said;
    EXPECT_EQ(machine.Load(one.image.c_str(), &loaded, &said), one.result) << one.image;
    for (const std::string& part : one.said)
      EXPECT_THAT(said, HasSubstr(part));
  }
}

TEST(CompiledImageTest, LogIsCutToItsBufferAndTellsItsLength) {
  const CompiledMachine machine;
  std::array<char, 8> log = {};
  log.back() = '!';
  CuJitOption options[] = {CuJitOption::kErrorLog, CuJitOption::kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CuLibrary loaded = nullptr;
  EXPECT_CU(kInvalidPtx, machine.cu.LibraryLoadData(&loaded, "not a program", options, values, 2,
                                                    nullptr, nullptr, 0));
  EXPECT_EQ(std::strlen(log.data()), 6U);
  EXPECT_EQ(log.back(), '!');
  EXPECT_EQ(reinterpret_cast<uintptr_t>(values[1]), 7U);
}

TEST(CompiledImageTest, OtherLoaderOptionsAreRefused) {
  const CompiledMachine machine;
  CuJitOption options[] = {static_cast<CuJitOption>(0)};
  void* values[] = {nullptr};
  CuLibrary loaded = nullptr;
  EXPECT_CU(kInvalidValue, machine.cu.LibraryLoadData(&loaded, kCompiledKernels, options, values, 1,
                                                      nullptr, nullptr, 0));
}

TEST(CompiledImageTest, VariablesAreDeviceMemoryUntilTheLibraryGoes) {
  const CompiledMachine machine;
  const Emulator::Live with = machine.emulator->live();
  EXPECT_EQ(with.allocations, 1);
  EXPECT_CU(kSuccess, machine.cu.LibraryUnload(machine.compiled));
  EXPECT_EQ(machine.emulator->live().allocations, 0);
}

TEST(CompiledImageTest, UnloadingWaitsForWorkThatIsQueued) {
  const CompiledMachine machine;
  const DeviceAddress words = machine.Allocate(64);
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "WriteThreads", 8, words, int64_t{1}));
  EXPECT_CU(kSuccess, machine.cu.LibraryUnload(machine.compiled));
  EXPECT_EQ(PointerAt<int64_t>(words)[7], 8);
}

TEST(CompiledImageTest, LibrariesComeAndGoWhileAnotherThreadRunsKernels) {
  const CompiledMachine machine;
  const DeviceAddress words = machine.Allocate(64);
  std::thread loads([&machine] {
    EXPECT_CU(kSuccess, machine.cu.CtxSetCurrent(machine.context));
    for (int i = 0; i < 20; ++i) {
      CuLibrary library = nullptr;
      EXPECT_CU(kSuccess, machine.Load(kCompiledKernels, &library));
      EXPECT_CU(kSuccess, machine.cu.LibraryUnload(library));
    }
  });
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_CU(kSuccess, machine.Run(machine.stream, "WriteThreads", 8, words, i));
    EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(machine.stream));
  }
  loads.join();
  EXPECT_EQ(PointerAt<int64_t>(words)[7], 99 + 7);
}

TEST(CompiledImageTest, WhatIsLeftOfAnUnloadedLibraryIsNoLongerUsed) {
  const CompiledMachine machine;
  const DeviceAddress words = machine.Allocate(64);
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  EXPECT_CU(kSuccess, machine.cu.StreamBeginCapture(machine.stream, CuCaptureMode::kRelaxed));
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "WriteThreads", 8, words, int64_t{1}));
  EXPECT_CU(kSuccess, machine.cu.StreamEndCapture(machine.stream, &graph));
  EXPECT_CU(kSuccess, machine.cu.GraphInstantiateWithFlags(&exec, graph, 0));
  CuGraphNode node = nullptr;
  size_t count = 1;
  EXPECT_CU(kSuccess, machine.cu.GraphGetNodes(graph, &node, &count));
  EXPECT_CU(kSuccess, machine.cu.LibraryUnload(machine.compiled));
  CuKernelNodeParams params;
  EXPECT_CU(kInvalidHandle, machine.cu.GraphKernelNodeGetParams(node, &params));
  EXPECT_CU(kInvalidHandle, machine.cu.GraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_CU(kInvalidHandle, machine.cu.GraphLaunch(exec, machine.stream));
}

// The device.

TEST(ComputeCapabilityTest, IsReportedAndLimitsWhatThereIs) {
  struct Case {
    int capability;
    int shared_bytes;
    CuResult cluster;
  };
  for (const Case& one :
       {Case{80, 163 * 1024, CuResult::kNotSupported}, Case{89, 99 * 1024, CuResult::kNotSupported},
        Case{90, 227 * 1024, CuResult::kSuccess}}) {
    Emulator::Options options = OptionsToLook();
    options.compute_capability = one.capability;
    const Machine machine(options);
    const auto attribute = [&machine](CuDeviceAttribute which) {
      int value = 0;
      EXPECT_CU(kSuccess, machine.cu.DeviceGetAttribute(&value, which, 0));
      return value;
    };
    EXPECT_EQ(attribute(CuDeviceAttribute::kComputeCapabilityMajor), one.capability / 10);
    EXPECT_EQ(attribute(CuDeviceAttribute::kComputeCapabilityMinor), one.capability % 10);
    EXPECT_EQ(attribute(CuDeviceAttribute::kMaxSharedMemoryPerBlockOptin), one.shared_bytes);
    const auto allow = [&machine](int bytes) {
      return machine.cu.FuncSetAttribute(machine.Function("Store"),
                                         CuFunctionAttribute::kMaxDynamicSharedBytes, bytes);
    };
    EXPECT_CU(kSuccess, allow(one.shared_bytes));
    EXPECT_CU(kInvalidValue, allow(one.shared_bytes + 1));
    CuLaunchAttribute cluster{.id = CuLaunchAttributeId::kClusterDimension};
    cluster.value.cluster = {2, 1, 1};
    StoreParams params{.target = PointerAt<int64_t>(machine.Allocate(8)), .value = 1};
    void* arguments[] = {&params};
    const CuLaunchConfig config{.grid_x = 2,
                                .grid_y = 1,
                                .grid_z = 1,
                                .block_x = kTestThreads,
                                .block_y = 1,
                                .block_z = 1,
                                .stream = machine.stream,
                                .attributes = &cluster,
                                .attribute_count = 1};
    EXPECT_EQ(machine.cu.LaunchKernelEx(&config, machine.Function("Store"), arguments, nullptr),
              one.cluster);
  }
}

TEST(ComputeCapabilityTest, MustBeOneThatIsKnown) {
  Emulator::Options options;
  options.compute_capability = 91;
  EXPECT_THAT(Emulator::Create(options), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Faults.

TEST(CompiledFaultTest, SaysKernelBlockThreadAndLine) {
  const CompiledMachine machine;
  const DeviceAddress word = machine.Allocate(8);
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "Misaligned", 1, word));
  EXPECT_CU(kMisalignedAddress, machine.cu.CtxSynchronize());
  EXPECT_THAT(machine.emulator->fault(), HasSubstr("Misaligned"));
  EXPECT_THAT(machine.emulator->fault(), HasSubstr("block (0, 0, 0)"));
  EXPECT_THAT(machine.emulator->fault(), HasSubstr("thread (0, 0, 0)"));
  EXPECT_THAT(machine.emulator->fault(), HasSubstr("line "));
}

TEST(CompiledFaultTest, AccessBehindAnAllocationFaultsAlthoughItsPageIsThere) {
  const CompiledMachine machine;
  const DeviceAddress words = machine.Allocate(8 * 10);
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "WriteThreads", 11, words, int64_t{0}));
  EXPECT_CU(kIllegalAddress, machine.cu.CtxSynchronize());
  EXPECT_THAT(machine.emulator->fault(), HasSubstr("WriteThreads"));
}

TEST(CompiledFaultTest, HostMemoryIsNotTheDevices) {
  const CompiledMachine machine;
  int64_t word = 0;
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "Add", 1, &word, &word));
  EXPECT_CU(kIllegalAddress, machine.cu.CtxSynchronize());
}

TEST(CompiledFaultTest, MappingWithoutRightToWriteFaults) {
  const CompiledMachine machine;
  const DeviceAddress target =
      machine.MapGranule(machine.CreateGranules(), CuMemAccessFlags::kRead);
  const DeviceAddress word = machine.Allocate(8);
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "Add", 1, word, target));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "Add", 1, target, word));
  EXPECT_CU(kIllegalAddress, machine.cu.CtxSynchronize());
}

// Races inside a kernel.

constexpr char kRacing[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry Racing(.param .u64 target)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [target];
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

TEST(KernelRaceTest, IsReportedWithItsLineOnlyIfAskedFor) {
  for (const bool on : {true, false}) {
    Emulator::Options options = OptionsToLook();
    options.strictness.kernel_race = on;
    const CompiledMachine machine(options, kRacing);
    EXPECT_CU(kSuccess, machine.Run(machine.stream, "Racing", 64, machine.Allocate(8)));
    const std::vector<std::string> reports = machine.Reports();
    ASSERT_EQ(reports.size(), on ? 1U : 0U);
    if (on) {
      EXPECT_THAT(reports[0], HasSubstr("line 10"));
    }
  }
}

// Reads of what nobody wrote.

class UninitializedReadTest : public testing::Test {
 protected:
  static Emulator::Options Asking(bool on) {
    Emulator::Options options = OptionsToLook();
    options.strictness.uninitialized_read = on;
    return options;
  }
  void Add(DeviceAddress source) const {
    EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "Add", 1, target_, source));
  }

  CompiledMachine machine_{Asking(true)};
  DeviceAddress target_ = machine_.Allocate(8);
  DeviceAddress source_ = machine_.Allocate(16);
};

TEST(UninitializedReadOptionTest, IsReportedOnlyIfAskedFor) {
  for (const bool on : {true, false}) {
    Emulator::Options options = OptionsToLook();
    options.strictness.uninitialized_read = on;
    const CompiledMachine machine(options);
    EXPECT_CU(kSuccess,
              machine.Run(machine.stream, "Add", 1, machine.Allocate(8), machine.Allocate(8)));
    const std::vector<std::string> reports = machine.Reports();
    ASSERT_EQ(reports.size(), on ? 1U : 0U);
    if (on) {
      EXPECT_THAT(reports[0], HasSubstr("Add"));
      EXPECT_THAT(reports[0], HasSubstr("global memory, which nobody has written"));
    }
  }
}

TEST_F(UninitializedReadTest, FillsAndCopiesWrite) {
  EXPECT_CU(kSuccess, machine_.cu.MemsetD8Async(source_, 1, 8, machine_.stream));
  EXPECT_CU(kSuccess, machine_.cu.MemcpyDtoDAsync(source_ + 8, source_, 8, machine_.stream));
  Add(source_);
  Add(source_ + 8);
  EXPECT_THAT(machine_.Reports(), IsEmpty());
}

TEST_F(UninitializedReadTest, HalfAWordIsNotAWord) {
  EXPECT_CU(kSuccess, machine_.cu.MemsetD8Async(source_, 1, 4, machine_.stream));
  EXPECT_CU(kSuccess, machine_.cu.MemsetD8Async(source_ + 12, 1, 4, machine_.stream));
  Add(source_);
  EXPECT_EQ(machine_.Reports().size(), 1U);
}

TEST_F(UninitializedReadTest, CompiledKernelsAndHostCodeWrite) {
  EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "WriteThreads", 1, source_, int64_t{3}));
  EXPECT_CU(kSuccess, machine_.Store(machine_.stream, source_ + 8, 3));
  Add(source_);
  Add(source_ + 8);
  EXPECT_THAT(machine_.Reports(), IsEmpty());
}

TEST_F(UninitializedReadTest, VariablesOfAModuleAreWritten) {
  EXPECT_CU(kSuccess, machine_.Run(machine_.stream, "CountCalls", 1, target_));
  EXPECT_THAT(machine_.Reports(), IsEmpty());
}

TEST_F(UninitializedReadTest, FreshMemoryAtTheSameAddressIsNot) {
  const DeviceAddress granule =
      machine_.MapGranule(machine_.CreateGranules(), CuMemAccessFlags::kReadWrite);
  EXPECT_CU(kSuccess, machine_.cu.MemsetD8Async(granule, 1, 8, machine_.stream));
  Add(granule);
  EXPECT_THAT(machine_.Reports(), IsEmpty());
  EXPECT_CU(kSuccess, machine_.cu.MemUnmap(granule, kGranule));
  EXPECT_CU(kSuccess, machine_.cu.MemMap(granule, kGranule, 0, machine_.CreateGranules(), 0));
  machine_.SetAccess(granule, CuMemAccessFlags::kReadWrite);
  Add(granule);
  EXPECT_EQ(machine_.Reports().size(), 1U);
}

// What is declared.

TEST(UndeclaredAccessTest, IsReportedOnlyIfAskedFor) {
  if (test_kernels_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no fatbin";
  for (const bool on : {true, false}) {
    Emulator::Options options = OptionsToLook();
    options.compiled_kernels = true;
    options.strictness.undeclared_access = on;
    const CompiledMachine machine(options);
    // The image again, with a kernel that declares to touch one word of what it stores.
    static HostKernel forgetful;
    for (uint32_t i = 0; i < test_kernels_image.kernel_count; ++i)
      if (std::string_view(test_kernels_image.kernels[i]->name) == "Store")
        forgetful = *test_kernels_image.kernels[i];
    forgetful.declare = [](const void*, KernelAccesses&) {};
    static const HostKernel* const kernels[] = {&forgetful};
    const KernelImage image{
        .kernel_count = 1, .kernels = kernels, .fatbin = test_kernels_image.fatbin};
    CuLibrary library = nullptr;
    ASSERT_CU(kSuccess, machine.Load(&image, &library));
    CuKernel store = nullptr;
    ASSERT_CU(kSuccess, machine.cu.LibraryGetKernel(&store, library, "Store"));
    StoreParams params{.target = PointerAt<int64_t>(machine.Allocate(8)), .value = 1};
    void* arguments[] = {&params};
    EXPECT_CU(kSuccess,
              machine.cu.LaunchKernel(reinterpret_cast<CuFunction>(store), 1, 1, 1, kTestThreads, 1,
                                      1, 0, machine.stream, arguments, nullptr));
    const std::vector<std::string> reports = machine.Reports();
    ASSERT_EQ(reports.size(), on ? 1U : 0U);
    if (on) {
      EXPECT_THAT(reports[0], HasSubstr("Store declares less than it touches: it writes"));
    }
  }
}

// Order between operations, of kernels that declare nothing.

// Runs `submit` under several seeds, each time in a fresh machine with two streams and words, and
// returns what all of them reported, which has to be the same.
std::vector<std::string> ReportsOfEverySeed(
    const std::function<void(const CompiledMachine&, CuStream, CuStream, DeviceAddress)>& submit) {
  std::vector<std::vector<std::string>> all;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const CompiledMachine machine(Drawn(seed));
    const CuStream other = machine.NewStream();
    const DeviceAddress words = machine.Allocate(64);
    EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 0, 64, machine.stream));
    EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
    submit(machine, machine.stream, other, words);
    std::vector<std::string> reports = machine.Reports();
    for (std::string& report : reports)
      report = report.substr(0, report.find(" on streams"));
    all.push_back(reports);
  }
  for (const std::vector<std::string>& reports : all)
    EXPECT_EQ(reports, all[0]);
  return all[0];
}

TEST(ObservedOrderTest, TwoStreamsThatTouchTheSameWordAreFoundWhicheverRunsFirst) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words));
      }),
      ElementsAre("unordered accesses"));
}

TEST(ObservedOrderTest, WordsThatOnlyReadersShareAreNoMatter) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words + 8));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, DeclaredWorkThatIsSubmittedLaterIsFoundToo) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
      }),
      ElementsAre("unordered accesses"));
}

TEST(ObservedOrderTest, WorkBehindAnEventIsInOrder) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        const CuEvent event = machine.NewEvent();
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(event, a));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(b, event, 0));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words, words + 8));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, OnlyWhatIsBehindTheWaitIsInOrder) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        const CuEvent event = machine.NewEvent();
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(event, a));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(b, event, 0));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words + 16, 1, 8, b));
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words + 24, words + 16));
      }),
      ElementsAre("unordered accesses", "unordered accesses"));
}

TEST(ObservedOrderTest, AnEventOrdersThroughAThirdStream) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        const CuStream between = machine.NewStream();
        const CuEvent event = machine.NewEvent();
        const CuEvent other = machine.NewEvent();
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(event, a));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(between, event, 0));
        EXPECT_CU(kSuccess, machine.cu.EventRecord(other, between));
        EXPECT_CU(kSuccess, machine.cu.StreamWaitEvent(b, other, 0));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, WorkOfOneStreamIsInOrder) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, a));
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words));
      }),
      IsEmpty());
}

TEST(ObservedOrderTest, AWaitAfterTheSubmissionOrdersNothing) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words));
        EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(a));
      }),
      ElementsAre("unordered accesses"));
}

TEST(ObservedOrderTest, AWaitBeforeTheSubmissionOrders) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.Run(a, "Add", 1, words, words + 8));
        EXPECT_CU(kSuccess, machine.cu.StreamSynchronize(a));
        EXPECT_CU(kSuccess, machine.Run(b, "Add", 1, words + 16, words));
      }),
      IsEmpty());
}

// A graph of two nodes that do "Add" on the same word, the second behind the first if `ordered`.
CuGraphExec GraphOfTwo(const CompiledMachine& machine, DeviceAddress words, bool ordered) {
  CuGraph graph = nullptr;
  EXPECT_CU(kSuccess, machine.cu.GraphCreate(&graph, 0));
  std::vector<CuGraphNode> nodes;
  for (const int i : {0, 1}) {
    DeviceAddress target = words;
    DeviceAddress source = words + 8 + static_cast<DeviceAddress>(i) * 8;
    void* arguments[] = {&target, &source};
    const CuKernelNodeParams params{.function = machine.Compiled("Add"),
                                    .grid_x = 1,
                                    .grid_y = 1,
                                    .grid_z = 1,
                                    .block_x = 1,
                                    .block_y = 1,
                                    .block_z = 1,
                                    .kernel_params = arguments};
    CuGraphNode node = nullptr;
    EXPECT_CU(kSuccess, machine.cu.GraphAddKernelNode(&node, graph, nodes.data(),
                                                      ordered ? nodes.size() : 0, &params));
    nodes.push_back(node);
  }
  CuGraphExec exec = nullptr;
  EXPECT_CU(kSuccess, machine.cu.GraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

TEST(ObservedOrderTest, NodesOfAGraphMeetUnlessAnEdgeOrdersThem) {
  for (const bool ordered : {false, true}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const CompiledMachine machine(Drawn(seed));
      const CuGraphExec exec = GraphOfTwo(machine, machine.Allocate(64), ordered);
      EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
      EXPECT_CU(kSuccess, machine.cu.GraphLaunch(exec, machine.stream));
      const std::vector<std::string> reports = machine.Reports();
      ASSERT_EQ(reports.size(), ordered ? 0U : 1U);
      if (!ordered) {
        EXPECT_THAT(reports[0], HasSubstr("of one graph"));
      }
    }
  }
}

TEST(ObservedOrderTest, LaunchesOfTwoGraphsOnTwoStreamsMeet) {
  EXPECT_THAT(
      ReportsOfEverySeed([](const auto& machine, CuStream a, CuStream b, DeviceAddress words) {
        EXPECT_CU(kSuccess, machine.cu.GraphLaunch(GraphOfTwo(machine, words, true), a));
        EXPECT_CU(kSuccess, machine.cu.MemsetD8Async(words, 1, 8, b));
      }),
      ElementsAre("unordered accesses"));
}

}  // namespace
}  // namespace coppice
