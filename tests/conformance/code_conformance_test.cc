// Goal: libraries, kernels and launches behave as CUDA documents.
// Method: one small test per documented rule, on every driver.

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

class LaunchConformanceTest : public ConformanceTest {
 protected:
  // A launch of "Store" that is right but for what a test changes.
  struct Arguments {
    unsigned grid_x = 1, grid_y = 1, grid_z = 1;
    unsigned block_x = kTestThreads, block_y = 1, block_z = 1;
    unsigned shared_bytes = 0;
    bool with_extra = false;
  };

  CuResult Launch(const Arguments& arguments) {
    StoreParams params{.target = PointerAt<int64_t>(word_), .value = 1};
    void* kernel_params[] = {&params};
    void* extra[] = {nullptr};
    return cu.LaunchKernel(Function("Store"), arguments.grid_x, arguments.grid_y, arguments.grid_z,
                           arguments.block_x, arguments.block_y, arguments.block_z,
                           arguments.shared_bytes, a, kernel_params,
                           arguments.with_extra ? extra : nullptr);
  }

  void SetUp() override {
    ConformanceTest::SetUp();
    if (context != nullptr) word_ = NewWords(1);
  }

  DeviceAddress word_ = 0;
};
COPPICE_CONFORMANCE_SUITE(LaunchConformanceTest);

// Limits: cuLaunchKernel's documentation and the Programming Guide's table of compute capabilities.

TEST_P(LaunchConformanceTest, GridsHaveNoEmptyDimension) {
  EXPECT_CU(kInvalidValue, Launch({.grid_x = 0}));
  EXPECT_CU(kInvalidValue, Launch({.grid_y = 0}));
  EXPECT_CU(kInvalidValue, Launch({.grid_z = 0}));
}

TEST_P(LaunchConformanceTest, BlocksHaveNoEmptyDimension) {
  EXPECT_CU(kInvalidValue, Launch({.block_x = 0}));
  EXPECT_CU(kInvalidValue, Launch({.block_y = 0}));
  EXPECT_CU(kInvalidValue, Launch({.block_z = 0}));
}

TEST_P(LaunchConformanceTest, GridsAreLowAndShallow) {
  EXPECT_CU(kInvalidValue, Launch({.grid_y = 65536}));
  EXPECT_CU(kInvalidValue, Launch({.grid_z = 65536}));
  EXPECT_CU(kSuccess, Launch({.grid_y = 300, .grid_z = 2}));
}

TEST_P(LaunchConformanceTest, GridsAreWide) {
  EXPECT_CU(kInvalidValue, Launch({.grid_x = 0x80000000}));
  EXPECT_CU(kSuccess, Launch({.grid_x = 65536}));
}

TEST_P(LaunchConformanceTest, BlocksAreAsLargeAsTheFunctionAllows) {
  EXPECT_CU(kInvalidValue, Launch({.block_x = 2048}));
  EXPECT_CU(kInvalidValue, Launch({.block_x = kTestThreads, .block_y = 1024}));
  EXPECT_CU(kInvalidValue, Launch({.block_x = 1, .block_z = 65}));
}

TEST_P(LaunchConformanceTest, SharedMemoryBeyondTheDefaultNeedsALeave) {
  EXPECT_CU(kInvalidValue, Launch({.shared_bytes = 49152 + 1}));
}

TEST_P(LaunchConformanceTest, RefusedLaunchesRunNothingAndHarmNothing) {
  EXPECT_CU(kInvalidValue, Launch({.grid_x = 0}));
  EXPECT_CU(kInvalidValue, Launch({.block_x = 2048}));
  EXPECT_EQ(Word(word_), 0);
  EXPECT_CU(kSuccess, Launch({}));
  EXPECT_EQ(Word(word_), 1);
}

// Parameters.

TEST_P(LaunchConformanceTest, ParametersComeInOneWay) {
  EXPECT_CU(kInvalidValue, Launch({.with_extra = true}));
}

TEST_P(LaunchConformanceTest, ParametersAreCopiedAtTheCall) {
  auto params = std::make_unique<StoreParams>();
  *params = {.target = PointerAt<int64_t>(word_), .value = 1};
  void* arguments[] = {params.get()};
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  params->value = 2;
  params.reset();
  EXPECT_EQ(Word(word_), 1);
}

TEST_P(LaunchConformanceTest, KernelHandleServesAsFunction) {
  CuKernel kernel = nullptr;
  ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, library, "Store"));
  StoreParams params{.target = PointerAt<int64_t>(word_), .value = 4};
  void* arguments[] = {&params};
  EXPECT_CU(kSuccess, cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel), 1, 1, 1, kTestThreads,
                                      1, 1, 0, a, arguments, nullptr));
  EXPECT_EQ(Word(word_), 4);
}

TEST_P(LaunchConformanceTest, EveryBlockOfAThreeDimensionalGridRuns) {
  const DeviceAddress target = NewWords(2);
  FillParams params{.target = PointerAt<float>(target), .count = 4, .value = 1};
  void* arguments[] = {&params};
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Fill"), 3, 2, 2, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  EXPECT_EQ(Word(target), 0x3f8000003f800000);
}

TEST_P(LaunchConformanceTest, ArrayOfParametersIsReadAtTheCall) {
  StoreParams params{.target = PointerAt<int64_t>(word_), .value = 3};
  auto arguments = std::make_unique<void*[]>(1);
  arguments[0] = &params;
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                                      arguments.get(), nullptr));
  arguments[0] = nullptr;
  arguments.reset();
  EXPECT_EQ(Word(word_), 3);
}

TEST_P(LaunchConformanceTest, EachLaunchHasItsOwnParameters) {
  const DeviceAddress words = NewWords(4);
  StoreParams params;
  void* arguments[] = {&params};
  for (int i = 0; i < 4; ++i) {
    params = {.target = PointerAt<int64_t>(words + 8 * i), .value = 10 + i};
    EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Store"), 1, 1, 1, kTestThreads, 1, 1, 0, a,
                                        arguments, nullptr));
  }
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(Word(words + 8 * i), 10 + i);
}

TEST_P(LaunchConformanceTest, NoFunctionIsRefused) {
  StoreParams params{.target = PointerAt<int64_t>(word_), .value = 1};
  void* arguments[] = {&params};
  const CuResult result =
      cu.LaunchKernel(nullptr, 1, 1, 1, kTestThreads, 1, 1, 0, a, arguments, nullptr);
  EXPECT_TRUE(result == CuResult::kInvalidHandle || result == CuResult::kInvalidValue)
      << NameOf(result);
}

// Blocks: the Programming Guide's thread hierarchy.

TEST_P(LaunchConformanceTest, EveryElementOfAWideGridIsReached) {
  constexpr int64_t kCount = 1000;
  const DeviceAddress target = NewWords(kCount / 2 + 1);
  FillParams params{.target = PointerAt<float>(target), .count = kCount, .value = 1};
  void* arguments[] = {&params};
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Fill"), GridFor(kCount), 1, 1, kTestThreads, 1, 1,
                                      0, a, arguments, nullptr));
  std::vector<float> filled(kCount + 2);
  EXPECT_CU(kSuccess, cu.MemcpyDtoHAsync(filled.data(), target, filled.size() * sizeof(float), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  std::vector<float> expected(kCount, 1.0F);
  expected.resize(kCount + 2, 0.0F);
  EXPECT_EQ(filled, expected);
}

TEST_P(LaunchConformanceTest, BlocksKnowTheirPlaceInTheGrid) {
  constexpr int kBlocks = 6;
  constexpr int64_t kKeys = kBlocks * kTestThreads;
  std::vector<float> keys(kKeys);
  for (int64_t i = 0; i < kKeys; ++i)
    keys[i] = static_cast<float>(i / kTestThreads);
  const DeviceAddress source = NewWords(kKeys);
  const DeviceAddress per_thread = NewWords(4 * kKeys);
  const DeviceAddress per_block = NewWords(4 * kBlocks);
  EXPECT_CU(kSuccess, cu.MemcpyHtoDAsync(source, keys.data(), kKeys * sizeof(float), a));
  CollectivesParams params{.keys = PointerAt<float>(source),
                           .sum = PointerAt<float>(per_block),
                           .maximum = PointerAt<float>(per_block + 8 * kBlocks),
                           .arg_max = PointerAt<int32_t>(per_block + 16 * kBlocks),
                           .positive_total = PointerAt<int32_t>(per_block + 24 * kBlocks),
                           .positive_rank = PointerAt<int32_t>(per_thread),
                           .sorted_keys = PointerAt<float>(per_thread + 8 * kKeys),
                           .sorted_threads = PointerAt<int32_t>(per_thread + 16 * kKeys),
                           .reversed = PointerAt<float>(per_thread + 24 * kKeys)};
  void* arguments[] = {&params};
  EXPECT_CU(kSuccess, cu.LaunchKernel(Function("Collectives"), 3, 2, 1, kTestThreads, 1, 1, 0, a,
                                      arguments, nullptr));
  std::vector<float> maxima(kBlocks);
  EXPECT_CU(kSuccess,
            cu.MemcpyDtoHAsync(maxima.data(), per_block + 8 * kBlocks, kBlocks * sizeof(float), a));
  EXPECT_CU(kSuccess, cu.StreamSynchronize(a));
  EXPECT_EQ(maxima, (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

// Libraries: the documentation of the cuLibrary calls.

class LibraryConformanceTest : public ConformanceTest {
 protected:
  CuResult Load(const void* image, CuLibrary* loaded) const {
    return cu.LibraryLoadData(loaded, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }

  // What is neither a cubin nor a fatbin counts as text, which may be refused as PTX.
  void ExpectRefused(const void* image) const {
    constexpr auto kInvalidPtx = static_cast<CuResult>(218);
    CuLibrary loaded = nullptr;
    const CuResult result = Load(image, &loaded);
    EXPECT_TRUE(result == CuResult::kNoBinaryForGpu || result == CuResult::kInvalidImage ||
                result == kInvalidPtx)
        << NameOf(result);
  }
};
COPPICE_CONFORMANCE_SUITE(LibraryConformanceTest);

TEST_P(LibraryConformanceTest, UnknownKernelIsNotFound) {
  CuKernel kernel = nullptr;
  EXPECT_CU(kNotFound, cu.LibraryGetKernel(&kernel, library, "NoSuchKernel"));
}

TEST_P(LibraryConformanceTest, ImageMustBeOneTheDriverCanRun) {
  CuLibrary loaded = nullptr;
  EXPECT_CU(kInvalidValue,
            cu.LibraryLoadData(&loaded, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
  const void* const foreign = GetParam().kind == DriverKind::kCuda
                                  ? static_cast<const void*>(&test_kernels_image)
                                  : "\x7f"
                                    "ELF of a cubin";
  ExpectRefused(foreign);
}

TEST_P(LibraryConformanceTest, TextThatIsNoProgramIsRefused) {
  ExpectRefused("this is not a program");
}

TEST_P(LibraryConformanceTest, EveryAnswerNeedsAPlaceToGo) {
  CuKernel kernel = nullptr;
  ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, library, "Store"));
  EXPECT_CU(kInvalidValue, Load(image(), nullptr));
  EXPECT_CU(kInvalidValue, cu.LibraryGetKernel(nullptr, library, "Store"));
  EXPECT_CU(kInvalidValue, cu.LibraryGetKernel(&kernel, library, nullptr));
  EXPECT_CU(kInvalidValue, cu.KernelGetFunction(nullptr, kernel));
}

TEST_P(LibraryConformanceTest, NamesAreComparedWhole) {
  CuKernel kernel = nullptr;
  EXPECT_CU(kNotFound, cu.LibraryGetKernel(&kernel, library, "Stor"));
  EXPECT_CU(kNotFound, cu.LibraryGetKernel(&kernel, library, "Store2"));
  EXPECT_CU(kNotFound, cu.LibraryGetKernel(&kernel, library, "store"));
}

TEST_P(LibraryConformanceTest, LibrariesOfOneImageLiveAndDieAlone) {
  const DeviceAddress word = NewWords(1);
  CuLibrary second = nullptr;
  ASSERT_CU(kSuccess, Load(image(), &second));
  EXPECT_NE(second, library);
  CuKernel kernel = nullptr;
  ASSERT_CU(kSuccess, cu.LibraryGetKernel(&kernel, second, "Store"));
  StoreParams params{.target = PointerAt<int64_t>(word), .value = 1};
  void* arguments[] = {&params};
  EXPECT_CU(kSuccess, cu.LaunchKernel(reinterpret_cast<CuFunction>(kernel), 1, 1, 1, kTestThreads,
                                      1, 1, 0, a, arguments, nullptr));
  EXPECT_EQ(Word(word), 1);
  EXPECT_CU(kSuccess, cu.LibraryUnload(second));
  EXPECT_CU(kSuccess, Store(a, word, 2));
  EXPECT_EQ(Word(word), 2);
}

TEST_P(LibraryConformanceTest, LibraryServesEveryThread) {
  const DeviceAddress word = NewWords(1);
  OnThread([&] { EXPECT_CU(kSuccess, Store(b, word, 3)); });
  EXPECT_EQ(Word(word), 3);
}

// Functions: the documentation of cuFuncGetName and cuFuncGetParamInfo.

class FunctionConformanceTest : public ConformanceTest {};
COPPICE_CONFORMANCE_SUITE(FunctionConformanceTest);

TEST_P(FunctionConformanceTest, TellsItsName) {
  for (const char* const expected : {"Fill", "Store", "Collectives"}) {
    const char* name = nullptr;
    EXPECT_CU(kSuccess, cu.FuncGetName(&name, Function(expected)));
    EXPECT_STREQ(name, expected);
  }
}

TEST_P(FunctionConformanceTest, NameNeedsAFunctionAndAPlaceToGo) {
  const char* name = nullptr;
  EXPECT_CU(kInvalidValue, cu.FuncGetName(nullptr, Function("Store")));
  EXPECT_CU(kInvalidValue, cu.FuncGetName(&name, nullptr));
}

TEST_P(FunctionConformanceTest, TellsTheSizeOfEachOfItsParameters) {
  const std::pair<const char*, size_t> expected[] = {
      {"Fill", sizeof(FillParams)}, {"Scale", sizeof(ScaleParams)}, {"Store", sizeof(StoreParams)}};
  for (const auto& [name, size] : expected) {
    size_t offset = 1;
    size_t bytes = 0;
    const CuResult result = cu.FuncGetParamInfo(Function(name), 0, &offset, &bytes);
    if (result == CuResult::kNotSupported) GTEST_SKIP() << "the driver is older than CUDA 12.4";
    EXPECT_CU(kSuccess, result);
    EXPECT_EQ(offset, 0U);
    EXPECT_EQ(bytes, size) << name;
    EXPECT_CU(kSuccess, cu.FuncGetParamInfo(Function(name), 0, &offset, nullptr));
    EXPECT_CU(kInvalidValue, cu.FuncGetParamInfo(Function(name), 1, &offset, &bytes))
        << "it has one parameter";
  }
}

}  // namespace
}  // namespace coppice
