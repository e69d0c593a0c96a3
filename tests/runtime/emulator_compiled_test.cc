// Goal: the emulator runs compiled kernels, says why it does not, and finds what is wrong with
// them. Method: raw driver calls with PTX written for the purpose; each check on and off, in order
// and not, under several seeds, since what is found may not depend on what runs first.

#include "coppice/runtime/kernel_image.h"

#include "tests/runtime/compiled_machine.h"

namespace coppice {
namespace {

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
      {head + ".visible .entry K() {\n  tcgen05.wait::ld.sync.aligned;\n  ret;\n}\n",
       CuResult::kNotSupported,
       {"kernel K", "line 5", "tcgen05.wait", "sm_80, sm_89 or sm_90"}},
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
  EXPECT_CU(kSuccess, machine.cu.StreamBeginCapture(machine.stream, CuCaptureMode::kRelaxed));
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "WriteThreads", 8, words, int64_t{1}));
  EXPECT_CU(kSuccess, machine.cu.StreamEndCapture(machine.stream, &graph));
  CuGraphExec exec = machine.Instantiate(graph);
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
       {Case{80, 163 * 1024, CuResult::kNotSupported}, Case{86, 99 * 1024, CuResult::kNotSupported},
        Case{89, 99 * 1024, CuResult::kNotSupported}, Case{90, 227 * 1024, CuResult::kSuccess}}) {
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
  EXPECT_THAT(Emulator::Create(options), StatusIs(kWrongArgument));
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

// A kernel of a body that ends the context, and how.
struct Ending {
  const char* body;
  CuResult result;
  const char* said;
};

TEST(CompiledFaultTest, EachKindOfFaultHasItsResult) {
  const Ending endings[] = {
      {"trap;", CuResult::kLaunchFailed, "trap"},
      {"bar.sync 0, 7;", CuResult::kIllegalInstruction, "a thread count of 7"},
      {"bar.sync 0, 64;", CuResult::kLaunchTimeout, "barrier 0"},
      {".reg .b64 %rd<2>; mov.u64 %rd1, 0; st.global.u32 [%rd1+2], 1;",
       CuResult::kMisalignedAddress, "misaligned"},
      {".reg .b64 %rd<2>; mov.u64 %rd1, 0; st.global.u32 [%rd1+4], 1;", CuResult::kIllegalAddress,
       "illegal address"},
      {"{ .param .b64 text; .param .b64 file; .param .b32 line; .param .b64 function; "
       ".param .b64 size; .reg .b64 %rd<2>; mov.u64 %rd1, words; cvta.global.u64 %rd1, %rd1; "
       "st.param.b64 [text], %rd1; st.param.b64 [file], %rd1; st.param.b32 [line], 12; "
       "st.param.b64 [function], %rd1; st.param.b64 [size], 1; "
       "call.uni __assertfail, (text, file, line, function, size); }",
       CuResult::kAssert, "hi"}};
  for (const Ending& ending : endings) {
    const std::string text = std::string(
                                 ".version 7.0\n.target sm_80\n.address_size 64\n"
                                 ".extern .func __assertfail(.param .b64 text, .param .b64 file, "
                                 ".param .b32 line, .param .b64 function, .param .b64 size);\n"
                                 ".global .align 1 .b8 words[3] = {104, 105, 0};\n"
                                 ".visible .entry Ends()\n{\n") +
                             ending.body + "\nret;\n}\n";
    const CompiledMachine machine(OptionsToLook(), text.c_str());
    EXPECT_CU(kSuccess, machine.Run(machine.stream, "Ends", 32));
    EXPECT_EQ(machine.cu.CtxSynchronize(), ending.result) << ending.body;
    EXPECT_EQ(machine.cu.StreamSynchronize(machine.stream), ending.result) << ending.body;
    EXPECT_THAT(machine.emulator->fault(), HasSubstr("kernel Ends"));
    EXPECT_THAT(machine.emulator->fault(), HasSubstr(ending.said));
  }
}

TEST(CompiledPrintTest, GoesToStandardOutputWhenTheKernelRuns) {
  const CompiledMachine machine(OptionsToLook(), R"(.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b32 count) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 words[4] = {104, 105, 10, 0};
.visible .entry Prints()
{
  .reg .b64 %rd<2>;
  .param .b64 format;
  .param .b64 arguments;
  .param .b32 count;
  mov.u64 %rd1, words;
  cvta.global.u64 %rd1, %rd1;
  st.param.b64 [format], %rd1;
  st.param.b64 [arguments], %rd1;
  call.uni (count), vprintf, (format, arguments);
  ret;
}
)");
  testing::internal::CaptureStdout();
  EXPECT_CU(kSuccess, machine.Run(machine.stream, "Prints", 1));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "hi\n");
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
      EXPECT_THAT(reports[0], HasSubstr("global memory, but these bytes were never written"));
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
    std::vector<std::string> reports;
    for (int launch = 0; launch < 2; ++launch) {
      const int64_t before = machine.emulator->finding_count();
      EXPECT_CU(kSuccess,
                machine.cu.LaunchKernel(reinterpret_cast<CuFunction>(store), 1, 1, 1, kTestThreads,
                                        1, 1, 0, machine.stream, arguments, nullptr));
      reports = machine.Reports();
      ASSERT_EQ(reports.size(), on ? 1U : 0U);
      EXPECT_EQ(machine.emulator->FindingsSince(before), reports) << "each launch is reported";
    }
    if (on) {
      EXPECT_THAT(reports[0],
                  HasSubstr("Store accesses memory that it does not declare: it writes"));
    }
  }
}

}  // namespace
}  // namespace coppice
