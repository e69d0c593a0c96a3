// Goal: a launch runs in the shape and with the arguments that it was given, and says what was
// wrong where it does not.
// Method: the test kernels and one of several parameters on an emulated device, and a table that
// records what it is given.

#include "coppice/runtime/launch.h"

#include "coppice/runtime/kernel_library.h"

#include "tests/support/succeeding_table.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

// "Affine": *target = value * factor. It has three parameters, which end after 24 bytes.
constexpr KernelParameter kAffineParameters[] = {{0, 8}, {8, 4}, {16, 8}};
const HostKernel kAffineKernel{.name = "Affine",
                               .run =
                                   [](const void* parameters, const HostBlock& /*block*/) {
                                     struct {
                                       int64_t* target;
                                       int32_t value;
                                       double factor;
                                     } given{};
                                     std::memcpy(&given, parameters, sizeof(given));
                                     *given.target =
                                         static_cast<int64_t>(given.value * given.factor);
                                   },
                               .parameter_bytes = 24,
                               .block_threads = 1,
                               .declare =
                                   [](const void* parameters, KernelAccesses& accesses) {
                                     int64_t* target = nullptr;
                                     std::memcpy(&target, parameters, sizeof(target));
                                     accesses.Writes(target, 1);
                                   },
                               .several = kAffineParameters};
const HostKernel* const kAffineKernels[] = {&kAffineKernel};
const KernelImage kAffineImage{.kernel_count = 1, .kernels = kAffineKernels};

class LaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    COPPICE_ASSERT_OK_AND_ASSIGN(KernelLibrary library,
                                 KernelLibrary::Load(driver_, test_kernels_image));
    library_.emplace(std::move(library));
    COPPICE_ASSERT_OK_AND_ASSIGN(KernelLibrary affine, KernelLibrary::Load(driver_, kAffineImage));
    affine_library_.emplace(std::move(affine));
    COPPICE_ASSERT_OK_AND_ASSIGN(cube_, library_->Get("Cube"));
    COPPICE_ASSERT_OK_AND_ASSIGN(affine_, affine_library_->Get("Affine"));
    COPPICE_ASSERT_OK_AND_ASSIGN(DeviceMemory words, device_.Upload(std::vector<int64_t>(64)));
    words_.emplace(std::move(words));
  }

  int64_t* target() const { return PointerAt<int64_t>(words_->address()); }

  absl::Status Cube(const LaunchShape& shape, int64_t shared_words = 0) {
    return Launch(driver_, cube_, device_.stream(),
                  CubeParams{.target = target(), .shared_words = shared_words}, shape);
  }

  std::vector<int64_t> Words(int64_t count) {
    return device_.Download<int64_t>(words_->address(), count);
  }

  static std::vector<int64_t> UpTo(int64_t count) {
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }

  TestDevice device_{DriverLedger::Options{}};
  const Driver& driver_ = device_.driver();
  std::optional<KernelLibrary> library_;
  std::optional<KernelLibrary> affine_library_;
  Kernel cube_;
  Kernel affine_;
  std::optional<DeviceMemory> words_;
};

TEST_F(LaunchTest, RunsTheWholeGridWithACopyOfTheParameters) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel scale, library_->Get("Scale"));
  std::vector<float> values(200);
  std::iota(values.begin(), values.end(), 0.0F);
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory x, device_.Upload(values));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory y, device_.Upload(values));
  ScaleParams params{.x = PointerAt<const float>(x.address()),
                     .y = PointerAt<float>(y.address()),
                     .count = 200,
                     .factor = 2};
  const int64_t calls = device_.ledger().calls();
  ASSERT_OK(Launch(driver_, scale, device_.stream(), params, GridFor(200)));
  EXPECT_EQ(device_.ledger().calls(), calls + 1);
  params = {};  // The driver has its copy.
  for (float& value : values)
    value *= 2;
  EXPECT_EQ(device_.Download<float>(y.address(), 200), values);
}

TEST_F(LaunchTest, IsOneDriverCallOverAGridOfThreeDimensions) {
  const int64_t calls = device_.ledger().calls();
  ASSERT_OK(Cube({.grid = {2, 3, 4}}));
  EXPECT_EQ(device_.ledger().calls(), calls + 1);
  EXPECT_EQ(Words(24), UpTo(24));
}

TEST_F(LaunchTest, DimensionsThatAreNotNamedAreOne) {
  ASSERT_OK(Cube({.grid = {5}}));
  EXPECT_EQ(Words(6), (std::vector<int64_t>{0, 1, 2, 3, 4, 0}));
}

TEST_F(LaunchTest, BlockIsTheKernelsOwnUnlessItIsNamed) {
  ASSERT_OK(Cube({.grid = {2}, .block = {kTestThreads}}));
  for (const Dim3& other : {Dim3{kTestThreads, 2}, Dim3{0, 2}, Dim3{kTestThreads / 2}})
    EXPECT_THAT(Cube({.grid = {2}, .block = other}), StatusIs(kWrongArgument));
  cube_.block_threads = 0;
  EXPECT_THAT(Cube({.grid = {2}}), StatusIs(kWrongArgument, HasSubstr("give a block size")));
  EXPECT_OK(Cube({.grid = {2}, .block = {kTestThreads}}));
}

TEST_F(LaunchTest, DynamicSharedMemoryIsTheBlocksOwn) {
  ASSERT_OK(Cube({.grid = {2}, .shared_bytes = 80}, 10));
  EXPECT_EQ(Words(2), (std::vector<int64_t>{45, 46}));
}

TEST_F(LaunchTest, SharedMemoryBeyondTheDefaultIsAskedForWithTheKernel) {
  constexpr unsigned kBytes = 100 * 1024;
  EXPECT_THAT(Cube({.shared_bytes = kBytes}), StatusIs(kWrongArgument));
  COPPICE_ASSERT_OK_AND_ASSIGN(cube_, library_->Get("Cube", {.shared_bytes = kBytes}));
  EXPECT_OK(Cube({.shared_bytes = kBytes}, kBytes / 8));
  EXPECT_EQ(Words(1)[0], int64_t{kBytes / 8} * (kBytes / 8 - 1) / 2);
}

TEST_F(LaunchTest, AttributesAreOneDriverCallAsWell) {
  const int64_t calls = device_.ledger().calls();
  ASSERT_OK(Cube({.grid = {4, 2, 2}, .cooperative = true}));
  ASSERT_OK(Cube({.grid = {4, 2, 2}, .programmatic = true, .cluster = {2, 1, 2}}));
  EXPECT_EQ(device_.ledger().calls(), calls + 2);
  EXPECT_EQ(device_.ledger().calls(&DriverTable::LaunchKernelEx), 2);
  EXPECT_EQ(Words(16), UpTo(16));
}

TEST_F(LaunchTest, ArgumentsAreOnePerParameterByValue) {
  const int64_t calls = device_.ledger().calls();
  ASSERT_OK(Launch(driver_, affine_, device_.stream(), Arguments(target(), int32_t{7}, 1.5), {}));
  EXPECT_EQ(device_.ledger().calls(), calls + 1);
  EXPECT_EQ(Words(1)[0], 10);
  Arguments kept(target(), int32_t{9}, 2.0);
  ASSERT_OK(Launch(driver_, affine_, device_.stream(), kept, {}));
  EXPECT_EQ(Words(1)[0], 18);
}

TEST_F(LaunchTest, ArgumentsThatAreNotTheKernelsAreRefusedBeforeTheDriver) {
  const int64_t calls = device_.ledger().calls();
  EXPECT_THAT(Launch(driver_, affine_, device_.stream(), Arguments(target(), int32_t{7}), {}),
              StatusIs(kWrongArgument));
  EXPECT_THAT(Launch(driver_, affine_, device_.stream(), Arguments(target(), 7, 1.5F), {}),
              StatusIs(kWrongArgument));
  void* const too_few[] = {nullptr};
  EXPECT_THAT(Launch(driver_, affine_, device_.stream(), too_few, {}), StatusIs(kWrongArgument));
  EXPECT_EQ(device_.ledger().calls(), calls);
}

TEST_F(LaunchTest, PointersServeWhoPacksByATable) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<KernelParameter> parameters,
                               ParametersOf(driver_, affine_.function));
  EXPECT_THAT(parameters,
              ElementsAre(KernelParameter{0, 8}, KernelParameter{8, 4}, KernelParameter{16, 8}));
  std::array<std::byte, 24> packed{};
  int64_t* const to = target();
  const int32_t value = 3;
  const double factor = 4;
  std::memcpy(packed.data() + parameters[0].offset, &to, parameters[0].bytes);
  std::memcpy(packed.data() + parameters[1].offset, &value, parameters[1].bytes);
  std::memcpy(packed.data() + parameters[2].offset, &factor, parameters[2].bytes);
  std::vector<void*> pointers;
  for (const KernelParameter& parameter : parameters)
    pointers.push_back(packed.data() + parameter.offset);
  ASSERT_OK(Launch(driver_, affine_, device_.stream(), pointers, {}));
  packed = {};  // The driver has its copy.
  EXPECT_EQ(Words(1)[0], 12);
  pointers[1] = nullptr;
  const int64_t calls = device_.ledger().calls();
  EXPECT_THAT(Launch(driver_, affine_, device_.stream(), pointers, {}),
              StatusIs(kWrongArgument, HasSubstr("argument 1 of kernel 'Affine' is null")));
  EXPECT_EQ(device_.ledger().calls(), calls);
}

TEST_F(LaunchTest, FailureNamesTheKernelAndWhatWasAskedOfIt) {
  const absl::Status large = Cube({.grid = {1000, 2}, .cooperative = true});
  EXPECT_THAT(large, StatusIs(kWrongArgument));
  EXPECT_EQ(CuResultOf(large), CuResult::kCooperativeLaunchTooLarge);
  EXPECT_EQ(DriverFailureOf(large)->entry, "cuLaunchKernelEx");
  EXPECT_THAT(std::string(large.message()),
              AllOf(HasSubstr("'Cube'"), HasSubstr("1000 x 2 x 1 blocks"),
                    HasSubstr("64 x 1 x 1 threads"), HasSubstr("cooperative")));
  const absl::Status empty = Launch(driver_, cube_, device_.stream(), CubeParams(), 0);
  EXPECT_THAT(empty, StatusIs(kWrongArgument));
  EXPECT_EQ(DriverFailureOf(empty)->entry, "cuLaunchKernel");
  EXPECT_EQ(DriverFailureOf(Cube({.grid = {0}}))->entry, "cuLaunchKernel");
  EXPECT_EQ(Words(1)[0], 0);
}

TEST_F(LaunchTest, WhatTheEmulatorDoesNotExecuteIsUnimplemented) {
  COPPICE_ASSERT_OK_AND_ASSIGN(cube_, library_->Get("Cube", {.large_clusters = true}));
  EXPECT_THAT(Cube({.grid = {16}, .cluster = {16}}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("emulator.h")));
  EXPECT_THAT(Cube({.grid = {4}, .cooperative = true, .cluster = {2}}),
              StatusIs(absl::StatusCode::kUnimplemented));
}

// What a driver was given.
struct Given {
  CuLaunchConfig config = {};
  std::vector<CuLaunchAttribute> attributes = {};
  std::vector<std::byte> bytes = {};  // Of the first argument, as many as `wanted`.
  size_t wanted = 0;
};
Given* given = nullptr;

Driver RecordingDriver(Given* to) {
  given = to;
  DriverTable table = SucceedingTable();
  table.LaunchKernelEx = [](const CuLaunchConfig* config, CuFunction, void** arguments, void**) {
    given->config = *config;
    given->attributes.assign(config->attributes, config->attributes + config->attribute_count);
    const auto* const first = static_cast<const std::byte*>(arguments[0]);
    given->bytes.assign(first, first + given->wanted);
    return CuResult::kSuccess;
  };
  table.LaunchKernel = [](CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, CuStream, void** arguments, void**) {
    const auto* const first = static_cast<const std::byte*>(arguments[0]);
    given->bytes.assign(first, first + given->wanted);
    return CuResult::kSuccess;
  };
  return Driver(table, DriverKind::kCuda);
}

TEST(LaunchAttributesTest, DriverIsToldWhatTheShapeSays) {
  Given seen;
  const Driver driver = RecordingDriver(&seen);
  const Kernel kernel{.block_threads = 96};
  void* const arguments[] = {&seen};
  const ArgumentPointers pointers(arguments);
  ASSERT_OK(Launch(driver, kernel, nullptr, pointers,
                   {.grid = {6, 4, 2},
                    .block = {32, 2, 1},
                    .shared_bytes = 512,
                    .cooperative = true,
                    .programmatic = true,
                    .cluster = {3, 2, 1}}));
  EXPECT_EQ(seen.config.grid_x, 6U);
  EXPECT_EQ(seen.config.grid_y, 4U);
  EXPECT_EQ(seen.config.grid_z, 2U);
  EXPECT_EQ(seen.config.block_x, 32U);
  EXPECT_EQ(seen.config.block_y, 2U);
  EXPECT_EQ(seen.config.shared_bytes, 512U);
  ASSERT_EQ(seen.attributes.size(), 3U);
  EXPECT_EQ(seen.attributes[0].id, CuLaunchAttributeId::kCooperative);
  EXPECT_EQ(seen.attributes[0].value.cooperative, 1);
  EXPECT_EQ(seen.attributes[1].id, CuLaunchAttributeId::kProgrammaticStreamSerialization);
  EXPECT_EQ(seen.attributes[1].value.programmatic, 1);
  EXPECT_EQ(seen.attributes[2].id, CuLaunchAttributeId::kClusterDimension);
  EXPECT_EQ(seen.attributes[2].value.cluster.x, 3U);
  EXPECT_EQ(seen.attributes[2].value.cluster.y, 2U);
  EXPECT_EQ(seen.attributes[2].value.cluster.z, 1U);
}

struct Padded {
  int8_t small = 1;
  int64_t large = 2;
};

// A Padded whose padding holds 0xFF.
Padded Dirty() {
  Padded dirty;
  std::memset(static_cast<void*>(&dirty), 0xFF, sizeof(dirty));
  dirty.small = 1;
  dirty.large = 2;
  return dirty;
}

TEST(LaunchAttributesTest, PaddingIsPassedAsZeros) {
#if !__has_builtin(__builtin_clear_padding)
  GTEST_SKIP() << "the compiler cannot tell what is padding";
#endif
  std::vector<std::byte> clear(sizeof(Padded));
  clear[0] = std::byte{1};
  clear[offsetof(Padded, large)] = std::byte{2};
  Given seen{.wanted = sizeof(Padded)};
  const Driver driver = RecordingDriver(&seen);
  const Padded dirty = Dirty();
  ASSERT_OK(Launch(driver, Kernel{}, nullptr, dirty, 1));
  EXPECT_EQ(seen.bytes, clear);
  ASSERT_OK(Launch(driver, Kernel{}, nullptr, dirty, {.cooperative = true}));
  EXPECT_EQ(seen.bytes, clear);
  ASSERT_OK(Launch(driver, Kernel{}, nullptr, Arguments(dirty, 1), {}));
  EXPECT_EQ(seen.bytes, clear);
}

TEST(LaunchAttributesTest, UnknownParametersAreNotChecked) {
  Given seen;
  const Driver driver = RecordingDriver(&seen);
  EXPECT_OK(Launch(driver, Kernel{}, nullptr, Arguments(1, 2.0), {}));
}

TEST(ArgumentsTest, LieAsTheMembersOfAStructWould) {
  struct Members {
    int8_t a;
    int32_t b;
    int16_t c;
    double d;
    int8_t e;
  };
  EXPECT_EQ((Arguments<int8_t, int32_t, int16_t, double, int8_t>::bytes()),
            offsetof(Members, e) + 1);
  EXPECT_EQ(Arguments<>::bytes(), 0);
}

}  // namespace
}  // namespace coppice
