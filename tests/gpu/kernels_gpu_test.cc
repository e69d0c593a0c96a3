// Goal: a kernel computes on a GPU what it computes as host code. Method: each kernel on the same
// seeded arrays, launched on a driver and run block by block on the host; then all arrays are
// compared bit by bit, what must not be written with them. Only a sum of floats, which depends on
// its order, has a bound.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "coppice/graphs/staging.h"

#include "tests/gpu/gpu_fixture.h"
#include "tests/graphs/staging_scene.h"
#include "tests/support/host_grid.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_kernels.h"
#include "tests/support/test_share.h"

namespace coppice {

extern const KernelImage staging_image;  // graphs/kernels/staging.cu.

namespace {

using Bytes = std::vector<std::byte>;

// The arrays of one launch, in device memory or, without a device, on the host.
class Arrays {
 public:
  explicit Arrays(const TestDevice* device) : device_(device) {}

  // Keeps a copy of `values` and returns where it lies.
  template <typename T>
  T* Add(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    host_.emplace_back(bytes.begin(), bytes.end());
    if (device_ == nullptr) return reinterpret_cast<T*>(host_.back().data());
    memory_.push_back(*device_->Upload(host_.back()));
    return PointerAt<T>(memory_.back().address());
  }

  // Every array, in the order of Add, after all work of the device's stream.
  std::vector<Bytes> Contents() const {
    std::vector<Bytes> contents = host_;
    for (size_t i = 0; i < memory_.size(); ++i)
      contents[i] = device_->Download<std::byte>(memory_[i].address(), std::ssize(host_[i]));
    return contents;
  }

 private:
  const TestDevice* device_;
  std::vector<Bytes> host_;  // With a device, as they were before the launch.
  std::vector<DeviceMemory> memory_;
};

// What a launch left in its arrays.
struct Results {
  std::vector<Bytes> device;
  std::vector<Bytes> host;

  // Removes array `index` from both, and returns it as values.
  template <typename T>
  std::pair<std::vector<T>, std::vector<T>> Take(size_t index) {
    return {TakeFrom<T>(device, index), TakeFrom<T>(host, index)};
  }

 private:
  template <typename T>
  static std::vector<T> TakeFrom(std::vector<Bytes>& arrays, size_t index) {
    const Bytes bytes = arrays[index];
    arrays.erase(arrays.begin() + static_cast<std::ptrdiff_t>(index));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
    return values;
  }
};

constexpr uint64_t kSeeds = 20;
constexpr int64_t kCounts[] = {0, 1, 63, 64, 65, 1000, 100'000};
constexpr size_t kBeyond = 70;  // Elements behind the last one; more than a block has threads.

// Finite floats of every magnitude, subnormal ones and both zeros among them.
std::vector<float> RandomFloats(std::mt19937_64& random, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    const auto bits = static_cast<uint32_t>(random());
    value = std::bit_cast<float>(bits % 16 == 0 ? bits & 0x8000'000F : bits);
    if (!std::isfinite(value)) value = 1;
  }
  return values;
}

class KernelsGpuTest : public GpuFixture {
 protected:
  // Runs a test kernel on the device and as host code. `prepare` adds its arrays, which start
  // equal, and returns its parameters.
  template <typename Prepare>
  Results Run(const char* name, unsigned grid_x, unsigned grid_y, Prepare prepare) {
    Arrays device(&device_);
    Arrays host(nullptr);
    absl::StatusOr<KernelLibrary> library =
        KernelLibrary::Load(device_.driver(), test_kernels_image);
    EXPECT_OK(library);
    EXPECT_OK(Launch(device_.driver(), *library->Get(name), device_.stream(), prepare(device),
                     {.grid = {grid_x, grid_y}}));
    RunGrid(HostKernelOf(test_kernels_image, name), prepare(host), grid_x, grid_y);
    return {device.Contents(), host.Contents()};
  }

  TestDevice device_{Kind(), TestEmulatorOptions(), std::nullopt};
};
COPPICE_GPU_SUITE(KernelsGpuTest);

// "Affine": *target = value * factor, as a front end would write it.
constexpr std::string_view kAffinePtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry Affine(.param .u64 target, .param .u32 value, .param .f64 factor)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  .reg .f64 %fd<4>;
  ld.param.u64 %rd1, [target];
  ld.param.u32 %r1, [value];
  ld.param.f64 %fd1, [factor];
  cvt.rn.f64.s32 %fd2, %r1;
  mul.f64 %fd3, %fd2, %fd1;
  cvt.rzi.s64.f64 %rd2, %fd3;
  st.global.u64 [%rd1], %rd2;
  ret;
}
)";

TEST_P(KernelsGpuTest, KernelOfOnesOwnPtxTakesOneArgumentPerParameter) {
  const absl::StatusOr<KernelLibrary> library =
      KernelLibrary::Load(device_.driver(), std::as_bytes(std::span(kAffinePtx)));
  ASSERT_OK(library);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel affine, library->Get("Affine"));
  EXPECT_THAT(library->Get("affine"), StatusIs(absl::StatusCode::kNotFound));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory word, device_.Upload(std::vector<int64_t>{0}));
  int64_t* const target = PointerAt<int64_t>(word.address());
  ASSERT_OK(Launch(device_.driver(), affine, device_.stream(), Arguments(target, int32_t{7}, 1.5),
                   {.block = {1}}));
  EXPECT_EQ(device_.Download<int64_t>(word.address(), 1)[0], 10);
  EXPECT_THAT(Launch(device_.driver(), affine, device_.stream(), Arguments(target), {.block = {1}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(KernelsGpuTest, CooperativeCubeOfBlocksHasEqualWordsFromSharedMemory) {
  constexpr unsigned kBytes = 64 * 1024;
  COPPICE_ASSERT_OK_AND_ASSIGN(const KernelLibrary library,
                               KernelLibrary::Load(device_.driver(), test_kernels_image));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Kernel cube, library.Get("Cube", {.shared_bytes = kBytes}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory words, device_.Upload(std::vector<int64_t>(24)));
  ASSERT_OK(
      Launch(device_.driver(), cube, device_.stream(),
             CubeParams{.target = PointerAt<int64_t>(words.address()), .shared_words = kBytes / 8},
             {.grid = {2, 3, 4}, .shared_bytes = kBytes, .cooperative = true}));
  std::vector<int64_t> expected;
  for (int64_t block = 0; block < 24; ++block)
    expected.push_back(block + int64_t{kBytes / 8} * (kBytes / 8 - 1) / 2);
  EXPECT_EQ(device_.Download<int64_t>(words.address(), 24), expected);
}

TEST_P(KernelsGpuTest, FillHasEqualBits) {
  for (const int64_t count : kCounts) {
    const std::vector<float> before(static_cast<size_t>(count) + kBeyond, -1);
    const Results results = Run("Fill", GridFor(count), 1, [&](Arrays& arrays) {
      return FillParams{.target = arrays.Add(before), .count = count, .value = 0.1F};
    });
    EXPECT_EQ(results.device, results.host) << count << " elements";
  }
}

TEST_P(KernelsGpuTest, ScaleHasEqualBits) {
  for (const int64_t count : kCounts) {
    std::mt19937_64 random(static_cast<uint64_t>(count));
    const std::vector<float> x = RandomFloats(random, static_cast<size_t>(count) + kBeyond);
    const std::vector<float> y(x.size(), -1);
    const Results results = Run("Scale", GridFor(count), 1, [&](Arrays& arrays) {
      return ScaleParams{
          .x = arrays.Add(x), .y = arrays.Add(y), .count = count, .factor = 1.0F / 3};
    });
    EXPECT_EQ(results.device, results.host) << count << " elements";
  }
}

TEST_P(KernelsGpuTest, AddHasEqualBits) {
  for (const int64_t count : kCounts) {
    std::mt19937_64 random(static_cast<uint64_t>(count));
    const std::vector<float> x = RandomFloats(random, static_cast<size_t>(count) + kBeyond);
    const std::vector<float> y = RandomFloats(random, x.size());
    const std::vector<float> z(x.size(), -1);
    const Results results = Run("Add", GridFor(count), 1, [&](Arrays& arrays) {
      return AddParams{.x = arrays.Add(x), .y = arrays.Add(y), .z = arrays.Add(z), .count = count};
    });
    EXPECT_EQ(results.device, results.host) << count << " elements";
  }
}

TEST_P(KernelsGpuTest, MaskedScaleHasEqualBitsAndStopsAtItsWord) {
  constexpr int64_t kPadded = 1024;
  std::mt19937_64 random(7);
  const std::vector<float> x = RandomFloats(random, kPadded);
  const std::vector<float> y(kPadded, -1);
  for (const int64_t count : {0, 1, 64, 65, 1023, 1024}) {
    const Results results = Run("MaskedScale", GridFor(kPadded), 1, [&](Arrays& arrays) {
      return MaskedScaleParams{.x = arrays.Add(x),
                               .y = arrays.Add(y),
                               .words = arrays.Add(std::vector<int64_t>{999, count}),
                               .word = 1,
                               .factor = 0.7F};
    });
    EXPECT_EQ(results.device, results.host) << count << " live elements";
  }
}

TEST_P(KernelsGpuTest, StoreHasEqualBits) {
  constexpr int64_t kValue = -0x0123'4567'89AB'CDEF;
  const Results results = Run("Store", 3, 1, [](Arrays& arrays) {
    return StoreParams{.target = arrays.Add(std::vector<int64_t>{1, 2}) + 1, .value = kValue};
  });
  EXPECT_EQ(results.device, results.host);
}

// Places in CollectivesResults of what depends on an order, or is unspecified for a NaN.
enum CollectivesArray : size_t { kKeys, kSum, kMaximum, kArgMax };

constexpr unsigned kGridX = 7;
constexpr unsigned kGridY = 3;
constexpr size_t kCollectiveBlocks = size_t{kGridX} * kGridY;
constexpr size_t kCollectiveKeys = kCollectiveBlocks * kTestThreads;

class CollectivesGpuTest : public KernelsGpuTest {
 protected:
  Results Collect(const std::vector<float>& keys) {
    return Run("Collectives", kGridX, kGridY, [&](Arrays& arrays) {
      const std::vector<float> block_floats(kCollectiveBlocks, -7);
      const std::vector<int32_t> block_integers(kCollectiveBlocks, -7);
      const std::vector<float> floats(keys.size(), -7);
      const std::vector<int32_t> integers(keys.size(), -7);
      CollectivesParams params;  // Field by field: the order of Add is that of CollectivesArray.
      params.keys = arrays.Add(keys);
      params.sum = arrays.Add(block_floats);
      params.maximum = arrays.Add(block_floats);
      params.arg_max = arrays.Add(block_integers);
      params.positive_total = arrays.Add(block_integers);
      params.positive_rank = arrays.Add(integers);
      params.sorted_keys = arrays.Add(floats);
      params.sorted_threads = arrays.Add(integers);
      params.reversed = arrays.Add(floats);
      return params;
    });
  }
};
COPPICE_GPU_SUITE(CollectivesGpuTest);

// Multiples of a half, whose sums are exact in every order. Five values among 64 threads: a block
// has ties, also for its maximum.
TEST_P(CollectivesGpuTest, TiesHaveEqualBitsInSumsMaximaScansAndTheStableSort) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<float> keys(kCollectiveKeys);
    for (float& key : keys)
      key = static_cast<float>(random() % 5) - 2.5F;
    const Results results = Collect(keys);
    EXPECT_EQ(results.device, results.host) << "seed " << seed;
  }
}

TEST_P(CollectivesGpuTest, RealSumsAreWithinTheBoundOfAnyOrderAndAllElseHasEqualBits) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> keys(kCollectiveKeys);
    for (float& key : keys)
      key = normal(random);
    Results results = Collect(keys);
    const auto [device, host] = results.Take<float>(kSum);
    for (size_t b = 0; b < kCollectiveBlocks; ++b) {
      double magnitude = 0;
      for (size_t thread = 0; thread < kTestThreads; ++thread)
        magnitude += std::fabs(keys[b * kTestThreads + thread]);
      // Each sum of n terms is off by at most (n - 1) roundings, of half an epsilon, of magnitude.
      const double bound =
          (kTestThreads - 1) * magnitude * double{std::numeric_limits<float>::epsilon()};
      EXPECT_NEAR(device[b], host[b], bound) << "block " << b << ", seed " << seed;
    }
    EXPECT_EQ(results.device, results.host) << "seed " << seed;
  }
}

// A sum or maximum of these is unspecified, the sort is not.
TEST_P(CollectivesGpuTest, SortOfNansInfinitiesAndBothZerosHasEqualBits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kSpecial[] = {kNan, -kNan, kInfinity, -kInfinity, 0.0F, -0.0F, 1.0F, -1.0F};
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<float> keys(kCollectiveKeys);
    for (float& key : keys)
      key = kSpecial[random() % std::size(kSpecial)];
    Results results = Collect(keys);
    for (const size_t array : {kArgMax, kMaximum, kSum})  // From the last, so that no place moves.
      results.Take<float>(array);
    EXPECT_EQ(results.device, results.host) << "seed " << seed;
  }
}

class StagingGpuTest : public KernelsGpuTest {
 protected:
  static constexpr int kStagedMost = 109;  // Copies of rank 8 in one launch.

  // Stages on the device by the public launch, whatever kernel that chooses, and by a host kernel.
  Results Stage(const Scene& scene) {
    Arrays device(&device_);
    Arrays host(nullptr);
    EXPECT_OK(kernels_->Launch(device_.stream(), ArgumentsIn(device, scene)));
    const StagingArguments arguments = ArgumentsIn(host, scene);
    const auto blocks = static_cast<unsigned>(std::max<int64_t>(arguments.blocks(), 1));
    StagingParamsOf<kWideStagingBytes> parameters{};
    std::memcpy(static_cast<void*>(&parameters), arguments.words(),
                static_cast<size_t>(arguments.bytes()));
    RunGrid(HostKernelOf(staging_image, "StageWide"), parameters, blocks);
    return {device.Contents(), host.Contents()};
  }

 private:
  static StagingArguments ArgumentsIn(Arrays& arrays, const Scene& scene) {
    const auto sources = reinterpret_cast<DeviceAddress>(arrays.Add(scene.sources));
    return ArgumentsOf(scene, sources, reinterpret_cast<DeviceAddress>(arrays.Add(scene.targets)));
  }

  const absl::StatusOr<StagingKernels> kernels_ = StagingKernels::Load(device_.driver());
};
COPPICE_GPU_SUITE(StagingGpuTest);

TEST_P(StagingGpuTest, RandomTensorsHaveEqualBytes) {
  // Where PTX is executed by an emulator, most of a second each.
  const auto scenes = 3 * kSeeds / static_cast<uint64_t>(TestShare());
  for (uint64_t seed = 0; seed < scenes; ++seed) {
    SceneSource source(seed);
    const auto copies = static_cast<int>(source.Below(kStagedMost + 1));
    const auto words = static_cast<int>(1 + source.Below(kParameterWordsMax));
    const Results results = Stage(source.Draw(copies, words));
    EXPECT_EQ(results.device, results.host) << "scene seed " << seed;
  }
}

TEST_P(StagingGpuTest, EachKernelHasEqualBytesAtItsMostCopies) {
  for (const int copies : {0, 2, 3, 13, 14, kStagedMost}) {
    const Results results = Stage(SceneSource(5).Draw(copies, kParameterWordsMax));
    EXPECT_EQ(results.device, results.host) << copies << " copies";
  }
}

}  // namespace
}  // namespace coppice
