// Goal: kernels are found by name in the half of an image that a driver understands, and run.
// Method: the test kernels on an emulated device, and a table that records what it is given.

#include "coppice/runtime/kernel_library.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/runtime/stream.h"

#include "tests/support/status_matchers.h"
#include "tests/support/succeeding_table.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

const void* loaded_image = nullptr;

// A driver that remembers the image it was asked to load.
Driver RecordingDriver(DriverKind kind) {
  DriverTable table = SucceedingTable();
  table.LibraryLoadData = [](CuLibrary*, const void* image, int*, void**, unsigned, int*, void**,
                             unsigned) {
    loaded_image = image;
    return CuResult::kSuccess;
  };
  return Driver(table, kind);
}

TEST(KernelLibraryTest, EachKindOfDriverGetsItsHalfOfTheImage) {
  const char fatbin[] = "a fatbin";
  const KernelImage image{.host = test_kernels_image.host, .fatbin = fatbin};
  const Driver emulator = RecordingDriver(DriverKind::kEmulator);
  EXPECT_OK(KernelLibrary::Load(emulator, image));
  EXPECT_EQ(loaded_image, image.host);
  const Driver cuda = RecordingDriver(DriverKind::kCuda);
  EXPECT_OK(KernelLibrary::Load(cuda, image));
  EXPECT_EQ(loaded_image, fatbin);
}

TEST(KernelLibraryTest, ImageWithoutDeviceCodeIsUnavailableOnCuda) {
  const Driver cuda = RecordingDriver(DriverKind::kCuda);
  EXPECT_THAT(KernelLibrary::Load(cuda, KernelImage{.host = test_kernels_image.host}),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(KernelLibraryTest, IsUnloadedOnceHoweverOftenItMoves) {
  TestDevice device;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(KernelLibrary first,
                                 KernelLibrary::Load(device.driver(), test_kernels_image));
    const KernelLibrary second = std::move(first);
    EXPECT_OK(second.Get("Fill"));
    EXPECT_EQ(device.emulator().live().libraries, 1);
  }
  EXPECT_EQ(device.emulator().live().libraries, 0);
}

TEST(KernelLibraryTest, FindsEveryKernelWithItsBlockSize) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  for (const char* name : {"Fill", "Scale", "Add", "MaskedScale", "Store", "Collectives"}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel kernel, library.Get(name));
    EXPECT_NE(kernel.function, nullptr) << name;
    EXPECT_EQ(kernel.block_threads, static_cast<unsigned>(kTestThreads)) << name;
  }
}

TEST(KernelLibraryTest, AbsentKernelIsNotFound) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  EXPECT_THAT(library.Get("Fil"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(library.Get("fill"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(KernelLibraryTest, DoesNotBreakACaptureOfTheApplication) {
  TestDevice device;
  const Driver& driver = device.driver();
  ASSERT_OK(driver.Call<&DriverTable::StreamBeginCapture>(device.stream(), CuCaptureMode::kGlobal));
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                                 KernelLibrary::Load(driver, test_kernels_image));
    EXPECT_OK(library.Get("Fill"));
  }
  CuGraph graph = nullptr;
  EXPECT_OK(driver.Call<&DriverTable::StreamEndCapture>(device.stream(), &graph));
  EXPECT_OK(driver.Call<&DriverTable::GraphDestroy>(graph));
}

TEST(LaunchTest, RunsTheWholeGridWithACopyOfTheParameters) {
  TestDevice device;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel scale, library.Get("Scale"));
  std::vector<float> values(200);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory x, device.Upload(values));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory y, device.Upload(values));
  ScaleParams params{.x = PointerAt<const float>(x.address()),
                     .y = PointerAt<float>(y.address()),
                     .count = 200,
                     .factor = 2};
  ASSERT_OK(Launch(device.driver(), scale, device.stream(), params, GridFor(200)));
  params = {};  // The driver has its copy.
  for (float& value : values)
    value *= 2;
  EXPECT_EQ(device.Download<float>(y.address(), 200), values);
}

TEST(LaunchTest, IsOneDriverCallOverATwoDimensionalGrid) {
  TestDevice device{DriverLedger::Options{}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device.driver(), test_kernels_image));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel collectives, library.Get("Collectives"));
  constexpr int64_t kBlocks = 6;
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const DeviceMemory keys,
      device.Upload(std::vector<float>(static_cast<size_t>(kBlocks) * kTestThreads, 1.0F)));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const DeviceMemory floats,
      DeviceMemory::Create(device.driver(), kBlocks * (2 + 2 * kTestThreads) * 4));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const DeviceMemory integers,
      DeviceMemory::Create(device.driver(), kBlocks * (2 + 2 * kTestThreads) * 4));
  float* const f = PointerAt<float>(floats.address());
  int32_t* const i = PointerAt<int32_t>(integers.address());
  const CollectivesParams params{.keys = PointerAt<const float>(keys.address()),
                                 .sum = f,
                                 .maximum = f + kBlocks,
                                 .arg_max = i,
                                 .positive_total = i + kBlocks,
                                 .positive_rank = i + 2 * kBlocks,
                                 .sorted_keys = f + 2 * kBlocks,
                                 .sorted_threads = i + (2 + kTestThreads) * kBlocks,
                                 .reversed = f + (2 + kTestThreads) * kBlocks};
  const int64_t calls = device.ledger().calls();
  ASSERT_OK(Launch(device.driver(), collectives, device.stream(), params, 3, 2));
  EXPECT_EQ(device.ledger().calls(), calls + 1);
  EXPECT_EQ(device.Download<float>(floats.address(), kBlocks),
            std::vector<float>(kBlocks, static_cast<float>(kTestThreads)));
}

}  // namespace
}  // namespace coppice
