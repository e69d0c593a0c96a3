// Goal: an image describes its kernels, and tells host code from code for a GPU.
// Method: the image of the test kernels, read byte by byte where a driver does so.

#include "coppice/runtime/kernel_image.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

TEST(KernelImageTest, HostImageStartsWithItsMagicInMemoryOrder) {
  const HostImage image;
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(&image), 8), "CoceImg1");
}

TEST(KernelImageTest, HostImageListsTheKernelsInOrder) {
  const HostImage& image = *test_kernels_image.host;
  ASSERT_EQ(image.kernel_count, 7U);
  EXPECT_EQ(std::string(image.kernels[0]->name), "Fill");
  EXPECT_EQ(std::string(image.kernels[6]->name), "Collectives");
}

TEST(KernelImageTest, HostKernelKnowsItsParametersAndBlockSize) {
  const HostKernel& fill = *test_kernels_image.host->kernels[0];
  EXPECT_EQ(fill.parameter_bytes, sizeof(FillParams));
  EXPECT_EQ(fill.block_threads, static_cast<uint32_t>(kTestThreads));
}

TEST(KernelImageTest, EmbeddedFatbinStartsWithCudasMagic) {
  if (test_kernels_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no fatbin";
  uint32_t magic = 0;
  std::memcpy(&magic, test_kernels_image.fatbin, sizeof(magic));
  EXPECT_EQ(magic, 0xBA55ED50U);
}

}  // namespace
}  // namespace coppice
