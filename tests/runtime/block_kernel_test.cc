// Goal: host kernels compute what block_kernel.h promises for a block of threads.
// Method: run host kernels block by block and compare with obvious serial code.

#include "coppice/runtime/block_kernel.h"

#include "tests/support/host_grid.h"
#include "tests/support/test.h"
#include "tests/support/test_kernels.h"

namespace coppice {

// Writes what a block knows of its place, as seen by each thread.
struct PlaceParams {
  int* out = nullptr;  // Five numbers per thread.
};
COPPICE_KERNEL(Place, 8, PlaceParams) {
  block.ForEach([&](int thread) {
    int* const out = params.out + ptrdiff_t{5} * thread;
    out[0] = block.x();
    out[1] = block.y();
    out[2] = block.grid_x();
    out[3] = block.grid_y();
    out[4] = thread;
  });
}

COPPICE_ACCESSES(Place, PlaceParams) {
  accesses.Writes(params.out, accesses.grid_x() * accesses.grid_y() * 8 * 5);
}

// A register before and after its first use, and integer collectives.
struct RegistersParams {
  int* fresh = nullptr;    // One per thread.
  int* doubled = nullptr;  // One per thread.
  int64_t* sum = nullptr;
  int* maximum = nullptr;
};
COPPICE_KERNEL(Registers, 32, RegistersParams) {
  auto value = block.Register<int>();
  auto wide = block.Register<int64_t>();
  block.ForEach([&](int thread) {
    params.fresh[thread] = value[thread];
    value[thread] = -10 * thread - 1;
    wide[thread] = int64_t{thread} << 40;
  });
  *params.sum = block.Sum(wide);
  *params.maximum = block.Max(value);
  block.ForEach([&](int thread) { params.doubled[thread] = 2 * value[thread]; });
}

COPPICE_ACCESSES(Registers, RegistersParams) {
  accesses.Writes(params.fresh, 32);
  accesses.Writes(params.doubled, 32);
  accesses.Writes(params.sum, 1);
  accesses.Writes(params.maximum, 1);
}

COPPICE_KERNEL_IMAGE(block_kernel_test, &PlaceHostKernel, &RegistersHostKernel);

namespace {

constexpr size_t kThreads = kTestThreads;

const HostKernel& TestKernel(std::string_view name) {
  return HostKernelOf(test_kernels_image, name);
}

// What the kernel "Collectives" gives for the blocks of `keys`.
struct Collected {
  explicit Collected(const std::vector<float>& keys)
      : sum(keys.size() / kThreads),
        maximum(sum.size()),
        arg_max(sum.size()),
        positive_total(sum.size()),
        positive_rank(keys.size()),
        sorted_keys(keys.size()),
        sorted_threads(keys.size()),
        reversed(keys.size()) {
    const CollectivesParams params = {.keys = keys.data(),
                                      .sum = sum.data(),
                                      .maximum = maximum.data(),
                                      .arg_max = arg_max.data(),
                                      .positive_total = positive_total.data(),
                                      .positive_rank = positive_rank.data(),
                                      .sorted_keys = sorted_keys.data(),
                                      .sorted_threads = sorted_threads.data(),
                                      .reversed = reversed.data()};
    RunGrid(TestKernel("Collectives"), params, static_cast<unsigned>(sum.size()));
  }

  std::vector<float> sum, maximum;
  std::vector<int32_t> arg_max, positive_total, positive_rank;
  std::vector<float> sorted_keys;
  std::vector<int32_t> sorted_threads;
  std::vector<float> reversed;
};

// Small integers, so that sums are exact and ties are common.
std::vector<float> RandomKeys(int blocks) {
  std::mt19937 random(42);
  std::vector<float> keys(static_cast<size_t>(blocks) * kThreads);
  for (float& key : keys)
    key = static_cast<float>(static_cast<int>(random() % 41) - 20);
  return keys;
}

TEST(BlockKernelTest, BlockKnowsItsPlaceAndRunsEveryThreadOnce) {
  std::vector<int> out(5 * 8, -1);
  HostBlock place{.grid = {7, 3, 1}, .index = {4, 2, 0}};
  const PlaceParams params{.out = out.data()};
  PlaceHostKernel.run(&params, place);
  for (int thread = 0; thread < 8; ++thread) {
    const std::vector<int> seen(out.begin() + 5 * thread, out.begin() + 5 * thread + 5);
    EXPECT_THAT(seen, ElementsAre(4, 2, 7, 3, thread));
  }
}

TEST(BlockKernelTest, GridsHaveThreeDimensionsAndBlocksDynamicSharedMemory) {
  std::vector<int64_t> target(2 * 3 * 4);
  std::vector<int64_t> shared(10, -1);
  const CubeParams params{.target = target.data(), .shared_words = 10};
  const HostBlock place{
      .grid = {2, 3, 4}, .index = {1, 2, 3}, .shared = reinterpret_cast<std::byte*>(shared.data())};
  TestKernel("Cube").run(&params, place);
  EXPECT_EQ(target[(3 * 3 + 2) * 2 + 1], 23 + 45);
  EXPECT_EQ(shared[9], 9);
}

TEST(BlockKernelTest, RegistersAreZeroAtFirstAndKeepOneValuePerThread) {
  std::vector<int> fresh(32, -1);
  std::vector<int> doubled(32, -1);
  int64_t sum = 0;
  int maximum = 0;
  const RegistersParams params{
      .fresh = fresh.data(), .doubled = doubled.data(), .sum = &sum, .maximum = &maximum};
  RunGrid(RegistersHostKernel, params, 1);
  for (int thread = 0; thread < 32; ++thread) {
    EXPECT_EQ(fresh[static_cast<size_t>(thread)], 0);
    EXPECT_EQ(doubled[static_cast<size_t>(thread)], -20 * thread - 2);
  }
  EXPECT_EQ(sum, int64_t{31 * 32 / 2} << 40);
  EXPECT_EQ(maximum, -1) << "the maximum of negative values";
}

TEST(BlockKernelTest, ImageOfAFileWithoutDeviceCodeHasNoFatbin) {
  EXPECT_EQ(block_kernel_test_image.fatbin, nullptr);
  ASSERT_EQ(block_kernel_test_image.kernel_count, 2U);
  EXPECT_EQ(block_kernel_test_image.kernels[1], &RegistersHostKernel);
}

TEST(BlockKernelTest, ElementKernelsTouchExactlyTheirElements) {
  constexpr size_t kCount = 150;  // Not a multiple of the block.
  std::vector<float> x(kCount);
  std::iota(x.begin(), x.end(), 1.0F);
  std::vector<float> y(kCount + 50, -1.0F);
  RunGrid(TestKernel("Scale"),
          ScaleParams{.x = x.data(), .y = y.data(), .count = kCount, .factor = 3}, GridFor(kCount));
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], i < kCount ? 3.0F * x[i] : -1.0F) << i;
  }
}

TEST(BlockKernelTest, MaskedKernelStopsAtTheWordItReads) {
  const std::vector<int64_t> words = {999, 70};
  const std::vector<float> x(128, 2.0F);
  std::vector<float> y(128, -1.0F);
  RunGrid(TestKernel("MaskedScale"),
          MaskedScaleParams{
              .x = x.data(), .y = y.data(), .words = words.data(), .word = 1, .factor = 3},
          GridFor(128));
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], i < 70 ? 6.0F : -1.0F) << i;
  }
}

TEST(BlockKernelTest, SumAndMaxCoverEveryThread) {
  const std::vector<float> keys = RandomKeys(5);
  const Collected result(keys);
  for (size_t b = 0; b < 5; ++b) {
    const auto begin = keys.begin() + static_cast<ptrdiff_t>(b * kThreads);
    EXPECT_EQ(result.sum[b], std::accumulate(begin, begin + kThreads, 0.0F));
    EXPECT_EQ(result.maximum[b], *std::max_element(begin, begin + kThreads));
  }
}

TEST(BlockKernelTest, ArgMaxTakesTheLowestIndexAmongTies) {
  const std::vector<float> keys = RandomKeys(5);
  const Collected result(keys);
  for (size_t b = 0; b < 5; ++b) {
    const auto begin = keys.begin() + static_cast<ptrdiff_t>(b * kThreads);
    EXPECT_EQ(result.arg_max[b], std::max_element(begin, begin + kThreads) - begin);
  }
  EXPECT_EQ(Collected(std::vector<float>(kThreads, 1.0F)).arg_max[0], 0);
}

TEST(BlockKernelTest, ExclusiveScanSumsTheThreadsBefore) {
  const std::vector<float> keys = RandomKeys(3);
  const Collected result(keys);
  for (size_t b = 0; b < 3; ++b) {
    int32_t before = 0;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      EXPECT_EQ(result.positive_rank[b * kThreads + thread], before);
      if (keys[b * kThreads + thread] > 0) ++before;
    }
    EXPECT_EQ(result.positive_total[b], before);
  }
}

TEST(BlockKernelTest, SortIsDescendingAndStable) {
  const std::vector<float> keys = RandomKeys(1);
  const Collected result(keys);
  std::vector<int32_t> expected(kThreads);
  std::iota(expected.begin(), expected.end(), 0);
  std::ranges::stable_sort(expected, [&keys](int32_t a, int32_t b) {
    return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)];
  });
  EXPECT_EQ(result.sorted_threads, expected);
  for (size_t thread = 0; thread < kThreads; ++thread) {
    EXPECT_EQ(result.sorted_keys[thread], keys[static_cast<size_t>(expected[thread])]);
  }
}

TEST(BlockKernelTest, SortPutsNanBeyondTheInfinityOfItsSignAndZerosTogether) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> keys(kThreads, -1.0F);
  keys[3] = -0.0F;
  keys[5] = 0.0F;
  keys[7] = kInfinity;
  keys[9] = -kInfinity;
  keys[11] = kNan;
  keys[13] = -kNan;
  const Collected result(keys);
  const std::vector<int32_t> first(result.sorted_threads.begin(),
                                   result.sorted_threads.begin() + 4);
  EXPECT_THAT(first, ElementsAre(11, 7, 3, 5)) << "NaN, infinity, then zeros in order";
  EXPECT_EQ(result.sorted_threads[kThreads - 2], 9);
  EXPECT_EQ(result.sorted_threads[kThreads - 1], 13);
  EXPECT_TRUE(std::isnan(result.sorted_keys[0]));
}

TEST(BlockKernelTest, SharedArraysAreSeenByTheWholeBlock) {
  const std::vector<float> keys = RandomKeys(2);
  const Collected result(keys);
  for (size_t b = 0; b < 2; ++b) {
    for (size_t thread = 0; thread < kThreads; ++thread) {
      EXPECT_EQ(result.reversed[b * kThreads + thread], keys[(b + 1) * kThreads - 1 - thread]);
    }
  }
}

}  // namespace
}  // namespace coppice
