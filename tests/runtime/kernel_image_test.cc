// Goal: an image describes its kernels, and tells host code from code for a GPU.
// Method: the image of the test kernels, read byte by byte where a driver does so.

#include "coppice/runtime/kernel_image.h"

#include "tests/support/test.h"
#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

TEST(KernelImageTest, StartsWithItsMagicInMemoryOrder) {
  const KernelImage image;
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(&image), 8), "CoceImg1");
}

TEST(KernelImageTest, ListsTheKernelsInOrder) {
  const KernelImage& image = test_kernels_image;
  ASSERT_EQ(image.kernel_count, 10U);
  EXPECT_EQ(std::string(image.kernels[0]->name), "Fill");
  EXPECT_EQ(std::string(image.kernels[9]->name), "Cube");
}

TEST(KernelImageTest, HostKernelKnowsItsParametersAndBlockSize) {
  const HostKernel& fill = *test_kernels_image.kernels[0];
  EXPECT_EQ(fill.parameter_bytes, sizeof(FillParams));
  EXPECT_EQ(fill.block_threads, static_cast<uint32_t>(kTestThreads));
}

TEST(KernelImageTest, HostKernelHasOneParameterUnlessItSaysSeveral) {
  const HostKernel& fill = *test_kernels_image.kernels[0];
  ASSERT_EQ(fill.parameter_count(), 1U);
  EXPECT_EQ(fill.parameter(0), (KernelParameter{.offset = 0, .bytes = sizeof(FillParams)}));
  HostKernel other = fill;
  other.parameter_bytes = 0;
  EXPECT_EQ(other.parameter_count(), 0U);
  const KernelParameter several[] = {{0, 8}, {8, 4}};
  other.parameter_bytes = 12;
  other.several = several;
  ASSERT_EQ(other.parameter_count(), 2U);
  EXPECT_EQ(other.parameter(1), (KernelParameter{.offset = 8, .bytes = 4}));
}

TEST(KernelImageTest, AccessesKnowTheGrid) {
  const KernelAccesses accesses({2, 3, 4});
  EXPECT_EQ(accesses.grid_x(), 2);
  EXPECT_EQ(accesses.grid_y(), 3);
  EXPECT_EQ(accesses.grid_z(), 4);
}

TEST(KernelImageTest, EmbeddedFatbinStartsWithCudasMagic) {
  if (test_kernels_image.fatbin == nullptr) GTEST_SKIP() << "built without nvcc: no fatbin";
  uint32_t magic = 0;
  std::memcpy(&magic, test_kernels_image.fatbin, sizeof(magic));
  EXPECT_EQ(magic, 0xBA55ED50U);
}

}  // namespace
}  // namespace coppice
