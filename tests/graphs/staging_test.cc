// Goal: every sentence of staging.h, and a kernel that copies and pads like the obvious loop.
// Method: exhaustive and explicit patterns; on the emulator explicit small cases, then seeded
// random tensors of every rank, stride, dtype and fill against that loop, over whole memory areas.

#include "coppice/graphs/staging.h"

#include "tests/graphs/staging_scene.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

uint64_t ValueOf(double value, DType dtype) {
  return FillPattern(Fill::Value(value), dtype);
}

// A narrow float format as its definition reads.
struct Format {
  DType dtype;
  int mantissa_bits;
  int bias;
  uint64_t end;  // Behind the largest finite number: infinity, or NaN.

  double Decode(uint64_t pattern) const {
    const auto exponent = static_cast<int>(pattern >> mantissa_bits);
    const auto mantissa = static_cast<double>(pattern & ((uint64_t{1} << mantissa_bits) - 1));
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias)
                         : std::ldexp(1 + fraction, exponent - bias);
  }
};
constexpr Format kFormats[] = {
    {.dtype = DType::kFloat16, .mantissa_bits = 10, .bias = 15, .end = 0x7C00},
    {.dtype = DType::kBFloat16, .mantissa_bits = 7, .bias = 127, .end = 0x7F80},
    {.dtype = DType::kFloat8E5M2, .mantissa_bits = 2, .bias = 15, .end = 0x7C},
    {.dtype = DType::kFloat8E4M3, .mantissa_bits = 3, .bias = 7, .end = 0x7F}};

constexpr DType kIntegers[] = {DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                               DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};

TEST(FillPatternTest, RepresentsEveryNarrowFloatExactly) {
  for (const Format& format : kFormats) {
    for (uint64_t pattern = 0; pattern < format.end; ++pattern) {
      ASSERT_EQ(ValueOf(format.Decode(pattern), format.dtype), pattern);
      const uint64_t sign = uint64_t{1} << (8 * SizeOf(format.dtype) - 1);
      ASSERT_EQ(ValueOf(-format.Decode(pattern), format.dtype), pattern | sign);
    }
  }
}

TEST(FillPatternTest, RoundsNarrowFloatsToNearestTiesToEven) {
  for (const Format& format : kFormats) {
    for (uint64_t pattern = 0; pattern < format.end; ++pattern) {
      // Beyond the largest number the next one up would be what infinity's pattern decodes to.
      const double middle = (format.Decode(pattern) + format.Decode(pattern + 1)) / 2;
      const uint64_t even = pattern + pattern % 2;
      ASSERT_EQ(ValueOf(middle, format.dtype), even);
      ASSERT_EQ(ValueOf(std::nextafter(middle, 0.0), format.dtype), pattern);
      ASSERT_EQ(ValueOf(std::nextafter(middle, HUGE_VAL), format.dtype), pattern + 1);
    }
  }
}

TEST(FillPatternTest, RoundsDoublesToFloatsAsTheHardwareDoes) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const double fraction = 1 + std::ldexp(static_cast<double>(random() >> 12), -52);
    const int exponent = static_cast<int>(random() % 330) - 180;  // Subnormal to overflowing.
    const double value = std::ldexp(random() % 2 == 0 ? fraction : -fraction, exponent);
    ASSERT_EQ(ValueOf(value, DType::kFloat32), std::bit_cast<uint32_t>(static_cast<float>(value)))
        << value;
  }
}

TEST(FillPatternTest, FloatsBeyondTheRangeAreInfinite) {
  for (const double value : {HUGE_VAL, 1e300}) {
    EXPECT_EQ(ValueOf(value, DType::kFloat32), 0x7F80'0000U);
    EXPECT_EQ(ValueOf(-value, DType::kFloat32), 0xFF80'0000U);
    EXPECT_EQ(ValueOf(value, DType::kFloat16), 0x7C00U);
    EXPECT_EQ(ValueOf(-value, DType::kFloat16), 0xFC00U);
    EXPECT_EQ(ValueOf(value, DType::kBFloat16), 0x7F80U);
    EXPECT_EQ(ValueOf(-value, DType::kBFloat16), 0xFF80U);
    EXPECT_EQ(ValueOf(-value, DType::kFloat8E5M2), 0xFCU);
    EXPECT_EQ(ValueOf(value, DType::kComplex64), 0x7F80'0000U);
  }
  EXPECT_EQ(ValueOf(HUGE_VAL, DType::kFloat64), 0x7FF0'0000'0000'0000U);
}

TEST(FillPatternTest, E4M3BeyondTheRangeIsNaN) {
  for (const double value : {HUGE_VAL, 1e300, 480.0, 465.0}) {
    EXPECT_EQ(ValueOf(value, DType::kFloat8E4M3), 0x7FU);
    EXPECT_EQ(ValueOf(-value, DType::kFloat8E4M3), 0xFFU);
  }
  EXPECT_EQ(ValueOf(448, DType::kFloat8E4M3), 0x7EU);
}

TEST(FillPatternTest, DoublesStayAsTheyAre) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isnan(value)) {
      ASSERT_EQ(ValueOf(value, DType::kFloat64), std::bit_cast<uint64_t>(value)) << value;
    }
  }
}

TEST(FillPatternTest, BoolIsOneForAllButZero) {
  EXPECT_EQ(ValueOf(0, DType::kBool), 0U);
  for (const double value : {1.0, -0.25, 1e30, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(ValueOf(value, DType::kBool), 1U) << value;
}

TEST(FillPatternTest, NanStaysAQuietNanInFloatsAndIsZeroInIntegers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ValueOf(nan, DType::kFloat32), 0x7FC0'0000U);
  EXPECT_EQ(ValueOf(nan, DType::kFloat16), 0x7E00U);
  EXPECT_EQ(ValueOf(nan, DType::kBFloat16), 0x7FC0U);
  EXPECT_EQ(ValueOf(nan, DType::kFloat64), 0x7FF8'0000'0000'0000U);
  EXPECT_EQ(ValueOf(nan, DType::kFloat8E5M2), 0x7EU);
  EXPECT_EQ(ValueOf(nan, DType::kFloat8E4M3), 0x7FU);
  for (const DType dtype : kIntegers)
    EXPECT_EQ(ValueOf(nan, dtype), 0U);
}

TEST(FillPatternTest, IntegersRoundToNearestTiesToEven) {
  for (const DType dtype : kIntegers) {
    EXPECT_EQ(ValueOf(7, dtype), 7U);
    EXPECT_EQ(ValueOf(2.5, dtype), 2U);
    EXPECT_EQ(ValueOf(3.5, dtype), 4U);
    EXPECT_EQ(ValueOf(-0.5, dtype), 0U);
  }
  EXPECT_EQ(ValueOf(-1, DType::kInt32), 0xFFFF'FFFFU);
  EXPECT_EQ(ValueOf(-2, DType::kInt64), ~uint64_t{0} - 1);
}

TEST(FillPatternTest, IntegersHoldTheNearestOfTheirRange) {
  EXPECT_EQ(ValueOf(255, DType::kUInt8), 255U);
  EXPECT_EQ(ValueOf(256, DType::kUInt8), 255U);
  EXPECT_EQ(ValueOf(-1, DType::kUInt8), 0U);
  EXPECT_EQ(ValueOf(2147483647.0, DType::kInt32), 0x7FFF'FFFFU);
  EXPECT_EQ(ValueOf(2147483648.0, DType::kInt32), 0x7FFF'FFFFU);
  EXPECT_EQ(ValueOf(-2147483649.0, DType::kInt32), 0x8000'0000U);
  EXPECT_EQ(ValueOf(0x1p63, DType::kInt64), uint64_t{INT64_MAX});
  EXPECT_EQ(ValueOf(-0x1p63, DType::kInt64), uint64_t{1} << 63);
  EXPECT_EQ(ValueOf(128, DType::kInt8), 127U);
  EXPECT_EQ(ValueOf(-129, DType::kInt8), 0x80U);
  EXPECT_EQ(ValueOf(32768, DType::kInt16), 32767U);
  EXPECT_EQ(ValueOf(65536, DType::kUInt16), 65535U);
  EXPECT_EQ(ValueOf(0x1p32, DType::kUInt32), 0xFFFF'FFFFU);
  EXPECT_EQ(ValueOf(0x1p64, DType::kUInt64), ~uint64_t{0});
  EXPECT_EQ(ValueOf(-1, DType::kUInt64), 0U);
  for (const DType dtype : kIntegers) {
    EXPECT_EQ(ValueOf(HUGE_VAL, dtype), ValueOf(1e30, dtype));
    EXPECT_EQ(ValueOf(-HUGE_VAL, dtype), ValueOf(-1e30, dtype));
  }
}

TEST(FillPatternTest, SentinelSetsAllBitsOfAnElement) {
  EXPECT_EQ(FillPattern(Fill::Sentinel(), DType::kBool), 1U) << "the only bit a bool may have";
  for (const DType dtype : kDTypes) {
    if (dtype == DType::kBool) continue;
    const uint64_t pattern = FillPattern(Fill::Sentinel(), dtype);
    EXPECT_EQ(std::popcount(pattern), 8 * SizeOf(dtype));
    EXPECT_EQ(std::countr_one(pattern), 8 * SizeOf(dtype));
  }
}

TEST(FillPatternTest, ZeroRepeatLastAndUndefinedGiveZero) {
  for (const DType dtype : kDTypes) {
    EXPECT_EQ(FillPattern(Fill::Zero(), dtype), 0U);
    EXPECT_EQ(FillPattern(Fill::RepeatLast(), dtype), 0U);
    EXPECT_EQ(FillPattern(Fill::Undefined(), dtype), 0U);
  }
}

// A copy of some arguments of rank 2, as a kernel sees it.
struct SeenCopy {
  StagedCopy copy;
  StagedAxis axes[2];
};

SeenCopy CopyOf(const StagingArguments& arguments, int index) {
  SeenCopy seen;
  std::memcpy(&seen,
              reinterpret_cast<const char*>(arguments.words()) + sizeof(StagingHeader) +
                  static_cast<size_t>(index) * sizeof(seen),
              sizeof(seen));
  return seen;
}

TEST(StagingArgumentsTest, SourceIsSetDroppedAndFilled) {
  const Tensor place = Tensor::Dense(0x2000, DType::kInt32, std::vector<int64_t>{4, 8});
  StagingArguments arguments(2);
  for (int i = 0; i < 3; ++i)
    arguments.Add(place, place, Fill::RepeatLast());
  Tensor source = Tensor::Dense(0x3000, DType::kInt32, std::vector<int64_t>{2, 3});
  source.strides = {1, 2};
  EXPECT_EQ(arguments.SetSource(1, source), 6);
  const SeenCopy set = CopyOf(arguments, 1);
  EXPECT_EQ(set.copy.source, 0x3000U);
  EXPECT_EQ(set.copy.rank, 2);
  EXPECT_EQ(set.axes[0].size, 2);
  EXPECT_EQ(set.axes[1].size, 3);
  EXPECT_EQ(set.axes[0].stride, 1);
  EXPECT_EQ(set.axes[1].stride, 2);
  EXPECT_EQ(set.axes[0].padded, 4);
  EXPECT_EQ(set.axes[1].padded, 8);
  EXPECT_EQ(set.axes[0].target_stride, 8);
  EXPECT_EQ(set.axes[1].target_stride, 1);
  EXPECT_EQ(set.copy.padding, StagedPadding::kRepeatLast);
  arguments.SetFill(1, 77);
  arguments.DropSource(1);
  const SeenCopy dropped = CopyOf(arguments, 1);
  EXPECT_EQ(dropped.copy.source, 0U);
  EXPECT_EQ(dropped.copy.fill, 77U);
  EXPECT_EQ(dropped.copy.padding, StagedPadding::kFill);
  EXPECT_EQ(CopyOf(arguments, 0).copy.source, 0x2000U);
  EXPECT_EQ(CopyOf(arguments, 2).copy.source, 0x2000U);
  EXPECT_EQ(
      arguments.SetSource(0, Tensor::Dense(0x4000, DType::kInt32, std::vector<int64_t>{0, 8})), 0);
}

TEST(StagingArgumentsTest, TilesOfCopiesLieEndToEnd) {
  StagingArguments arguments(2);
  int64_t end = 0;
  for (const int64_t rows : {100, 0, 1, 1000}) {
    const Tensor place = Tensor::Dense(0x2000, DType::kInt16, std::vector<int64_t>{rows, 8});
    arguments.Add(place, place, Fill::Zero());
    end += TilesFor(rows * 8, 2);
    EXPECT_EQ(CopyOf(arguments, arguments.copy_count() - 1).copy.end_tile, end);
  }
  EXPECT_EQ(arguments.blocks(), end);
}

TEST(StagingArgumentsTest, ClearedArgumentsHaveNoCopiesAndNoWords) {
  StagingArguments arguments;
  arguments.header().word_count = 3;
  arguments.Add(Tensor(), Tensor(), Fill());
  arguments.Clear();
  EXPECT_EQ(arguments.copy_count(), 0);
  EXPECT_EQ(arguments.blocks(), 0);
  EXPECT_EQ(arguments.bytes(), int64_t{sizeof(StagingHeader)});
  EXPECT_EQ(arguments.header().copy_count, 0);
  EXPECT_EQ(arguments.header().word_count, 0);
}

TEST(StagingArgumentsDeathTest, ChecksThatTheTensorsMatch) {
  const Tensor three = Tensor::Dense(0x1000, DType::kInt32, std::vector<int64_t>{3});
  const Tensor two = Tensor::Dense(0x2000, DType::kInt32, std::vector<int64_t>{2});
  const Tensor floats = Tensor::Dense(0x2000, DType::kFloat32, std::vector<int64_t>{3});
  const Tensor scalar = Tensor::Dense(0x2000, DType::kInt32, {});
  const Tensor square = Tensor::Dense(0x2000, DType::kInt32, std::vector<int64_t>{2, 2});
  const auto add = [](const Tensor& source, const Tensor& target) {
    StagingArguments(1).Add(source, target, Fill());
  };
  EXPECT_DEATH(add(three, two), "the source is larger than its target");
  EXPECT_DEATH(add(three, floats), "staging cannot convert a dtype");
  EXPECT_DEATH(add(three, scalar), "staging cannot change the rank");
  EXPECT_DEATH(add(square, square), "the copy has more axes than its arguments");
  EXPECT_DEATH(StagingArguments(kRankMax + 1), "staging does not support this rank");
}

// Calls `visit` with the index of every element of `tensor`, in row-major order.
template <typename Visit>
void ForEachIndex(const Tensor& tensor, Visit visit) {
  std::array<int64_t, kRankMax> index{};
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    visit(index);
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      if (++index[axis] < tensor.sizes[axis]) break;
      index[axis] = 0;
    }
  }
}

// Stages one piece by the obvious loop.
void StageNaively(const Piece& piece, const std::vector<uint8_t>& sources, uint8_t* targets) {
  const int64_t bytes = SizeOf(piece.source.dtype);
  const bool empty = piece.source.element_count() == 0;
  const uint64_t fill = FillPattern(piece.fill, piece.source.dtype);
  ForEachIndex(piece.target, [&](const std::array<int64_t, kRankMax>& index) {
    bool real = true;
    int64_t offset = 0;
    int64_t place = 0;
    for (int axis = 0; axis < piece.source.rank; ++axis) {
      const int64_t last = piece.source.sizes[axis] - 1;
      real = real && index[axis] <= last;
      offset += std::min(index[axis], last) * piece.source.strides[axis];
      place += index[axis] * piece.target.strides[axis];
    }
    uint8_t* target = targets + piece.target.data + place * bytes;
    if (real || (piece.fill.kind == FillKind::kRepeatLast && !empty)) {
      std::memcpy(target, sources.data() + piece.source.data + offset * bytes,
                  static_cast<size_t>(bytes));
    } else if (piece.fill.kind != FillKind::kUndefined) {
      std::memcpy(target, &fill, static_cast<size_t>(bytes));
    }
  });
}

std::vector<uint8_t> Expected(const Scene& scene) {
  std::vector<uint8_t> targets = scene.targets;
  for (const Piece& piece : scene.pieces)
    StageNaively(piece, scene.sources, targets.data());
  if (!scene.words.empty()) {
    std::memcpy(targets.data() + scene.word_offset, scene.words.data(),
                scene.words.size() * sizeof(int64_t));
  }
  return targets;
}

class StagingTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<StagingKernels> kernels = StagingKernels::Load(device_.driver());
    ASSERT_OK(kernels);
    kernels_.emplace(*std::move(kernels));
  }

  // Launches a scene once and expects the naive loop's bytes in the whole target area.
  void ExpectStaged(const Scene& scene) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory sources, device_.Upload(scene.sources));
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory targets, device_.Upload(scene.targets));
    const StagingArguments arguments = ArgumentsOf(scene, sources.address(), targets.address());
    ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
    const std::vector<uint8_t> expected = Expected(scene);
    const std::vector<uint8_t> actual =
        device_.Download<uint8_t>(targets.address(), std::ssize(expected));
    const auto difference = std::mismatch(expected.begin(), expected.end(), actual.begin());
    EXPECT_EQ(difference.first - expected.begin(), std::ssize(expected))
        << "is the offset of the first byte that differs";
  }

  // Stages noise into all of five rows and expects what the host draws for each element.
  void ExpectNoise(DType dtype, PaddingContents contents, int64_t columns) {
    constexpr uint64_t kSeed = 77;
    const int64_t width = SizeOf(dtype);
    const std::vector<int64_t> sizes = {5, columns};
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const DeviceMemory target,
        device_.Upload(std::vector<uint8_t>(static_cast<size_t>(5 * columns * width))));
    StagingArguments arguments(2);
    arguments.Add({.dtype = dtype, .rank = 2}, Tensor::Dense(target.address(), dtype, sizes),
                  Fill::Undefined());
    arguments.SetNoise(0, dtype, contents, kSeed);
    ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
    const std::vector<uint8_t> bytes =
        device_.Download<uint8_t>(target.address(), 5 * columns * width);
    for (int64_t i = 0; i < 5 * columns; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * width, static_cast<size_t>(width));
      ASSERT_EQ(bits, PoisonElement(Poison::kNoise, dtype, contents, kSeed, i))
          << NameOf(dtype) << " element " << i << " of rows of " << columns;
    }
  }

  // Stages int32 values of `sizes`, at an address even if empty, into `padded`, whose memory holds
  // -9 before; returns it.
  std::vector<int32_t> Stage(const std::vector<int32_t>& values,
                             const std::vector<int64_t>& sizes,
                             const std::vector<int64_t>& padded,
                             const Fill& fill) {
    const absl::StatusOr<DeviceMemory> source = device_.Upload(values);
    Tensor target = Tensor::Dense(0, DType::kInt32, padded);
    const std::vector<int32_t> before(static_cast<size_t>(target.element_count()), -9);
    const absl::StatusOr<DeviceMemory> memory = device_.Upload(before);
    EXPECT_OK(source);
    EXPECT_OK(memory);
    target.data = memory->address();
    StagingArguments arguments(target.rank);
    arguments.Add(Tensor::Dense(source->address(), DType::kInt32, sizes), target, fill);
    EXPECT_OK(kernels_->Launch(device_.stream(), arguments));
    return device_.Download<int32_t>(memory->address(), target.element_count());
  }

  TestDevice device_{DriverLedger::Options()};
  std::optional<StagingKernels> kernels_;
};

TEST_F(StagingTest, RepeatsZeroWhereThereIsNoElement) {
  EXPECT_THAT(Stage({}, {0}, {3}, Fill::RepeatLast()), ElementsAre(0, 0, 0));
  EXPECT_THAT(Stage({}, {2, 0}, {2, 1}, Fill::RepeatLast()), ElementsAre(0, 0));
}

TEST_F(StagingTest, StagesAroundTheEdgesOfTiles) {
  constexpr int64_t kTile = TileElements(sizeof(int32_t));
  for (const int64_t count : {kTile - 1, kTile, kTile + 1, 2 * kTile, 5 * kTile - 3}) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    std::vector<int32_t> expected = values;
    expected.resize(static_cast<size_t>(count) + 3, 8);
    EXPECT_EQ(Stage(values, {count}, {count + 3}, Fill::Value(8)), expected);
  }
}

TEST_F(StagingTest, AScalarThatWasDroppedIsStagedAgain) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory source, device_.Upload<int32_t>({5}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory target, device_.Upload<int32_t>({0}));
  const Tensor from = Tensor::Dense(source.address(), DType::kInt32, {});
  StagingArguments arguments;
  arguments.Add(from, Tensor::Dense(target.address(), DType::kInt32, {}), Fill::Value(8));
  arguments.DropSource(0);
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_THAT(device_.Download<int32_t>(target.address(), 1), ElementsAre(8));
  arguments.SetSource(0, from);
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_THAT(device_.Download<int32_t>(target.address(), 1), ElementsAre(5));
}

TEST_F(StagingTest, StagesRandomTensorsLikeTheNaiveLoop) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "scene seed " << seed);
    SceneSource source(seed);
    const auto copies = static_cast<int>(source.Below(7));
    const auto words = static_cast<int>(source.Below(kParameterWordsMax + 1));
    ExpectStaged(source.Draw(copies, words));
  }
}

// The most copies of each rank that the kernels take, as staging_params.h has their bytes.
constexpr int kMost[][4] = {{1, 9, 52, 256}, {2, 6, 36, 256}, {4, 4, 22, 192}, {8, 2, 13, 109}};

TEST_F(StagingTest, StagesAsManyCopiesAsEachKernelTakes) {
  uint64_t seed = 1000;
  for (const auto& [rank, small, medium, wide] : kMost) {
    for (const int copies : {small, small + 1, medium, medium + 1, wide}) {
      SCOPED_TRACE(testing::Message() << "scene seed " << ++seed);
      ExpectStaged(SceneSource(seed).Draw(copies, 2, rank));
    }
  }
}

TEST_F(StagingTest, StagesMoreCopiesThanAKernelTakesInSeveralLaunches) {
  uint64_t seed = 2000;
  for (const auto& [rank, small, medium, wide] : kMost) {
    for (const int copies : {wide + 1, 2 * wide, 2 * wide + 3}) {
      SCOPED_TRACE(testing::Message() << "scene seed " << ++seed);
      ExpectStaged(SceneSource(seed).Draw(copies, kParameterWordsMax, rank));
    }
  }
}

TEST_F(StagingTest, MovesRowsInTheLargestUnitsThatFit) {
  for (const DType dtype : {DType::kUInt8, DType::kBFloat16, DType::kInt32, DType::kInt64}) {
    for (const int64_t width : {1, 2, 3, 4, 8, 16, 24, 32}) {
      for (const int64_t shift : {0, 1, 2, 4, 8}) {
        Scene scene;
        Piece piece{.source = Tensor::Dense(0, dtype, std::vector<int64_t>{3, width}),
                    .target = Tensor::Dense(0, dtype, std::vector<int64_t>{4, 2 * width}),
                    .fill = shift == 4 ? Fill::RepeatLast() : Fill::Sentinel()};
        piece.source.data = static_cast<DeviceAddress>(shift * SizeOf(dtype));
        scene.pieces = {piece};
        scene.sources.resize(static_cast<size_t>((3 * width + shift) * SizeOf(dtype)));
        std::iota(scene.sources.begin(), scene.sources.end(), uint8_t{1});
        scene.targets.resize(static_cast<size_t>(8 * width * SizeOf(dtype)));
        ExpectStaged(scene);
      }
    }
  }
}

TEST_F(StagingTest, WritesWordsWithoutAnyCopy) {
  for (const int words : {1, kParameterWordsMax})
    ExpectStaged(SceneSource(3).Draw(0, words));
}

TEST_F(StagingTest, StagesThePoisonOfASession) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory source, device_.Upload<int32_t>({1, 2}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory target, device_.Upload<int32_t>({0, 0, 0}));
  const Tensor from = Tensor::Dense(source.address(), DType::kInt32, std::vector<int64_t>{2});
  const Tensor to = Tensor::Dense(target.address(), DType::kInt32, std::vector<int64_t>{3});
  StagingArguments arguments;
  arguments.Add(from, to, Fill::Undefined());
  arguments.SetFill(0, PoisonPattern(Poison::kPattern, DType::kInt32));
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_THAT(device_.Download<int32_t>(target.address(), 3), ElementsAre(1, 2, 0x5A5A'5A5A));
}

TEST_F(StagingTest, NoiseIsTheSameInWhateverUnitsItIsWritten) {
  for (const DType dtype : kDTypes) {
    for (const PaddingContents contents : {PaddingContents::kAny, PaddingContents::kFinite}) {
      if (!MayPoison(contents, dtype)) continue;
      for (const int64_t columns : {3, 4, 16})
        ExpectNoise(dtype, contents, columns);
    }
  }
}

TEST_F(StagingTest, TakesItsArgumentsByValue) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory block, device_.Upload<int64_t>({0, 0}));
  StagingArguments arguments;
  arguments.header().parameter_block = block.address();
  arguments.header().word_count = 2;
  arguments.header().words[0] = 11;
  arguments.header().words[1] = 12;
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  arguments.header().words[0] = 0;
  arguments.Clear();
  EXPECT_THAT(device_.Download<int64_t>(block.address(), 2), ElementsAre(11, 12));
}

TEST_F(StagingTest, DeviceDecidesWordsAndTheSizesThatGoByThem) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory wide, device_.Upload<int64_t>({2, 99, -1}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory narrow, device_.Upload<int32_t>({1, -7}));
  const auto at = [](const DeviceMemory& memory, DeviceAddress index, DType dtype) {
    return Tensor{.data = memory.address() + index * static_cast<DeviceAddress>(SizeOf(dtype)),
                  .dtype = dtype};
  };
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory block, device_.Upload(std::vector<int64_t>(6)));
  StagingArguments arguments;
  arguments.header().parameter_block = block.address();
  arguments.header().word_count = 6;
  std::fill_n(arguments.header().words, 6, 5);
  for (int word = 0; word < 3; ++word)
    arguments.SetCount(word, at(wide, static_cast<DeviceAddress>(word), DType::kInt64));
  arguments.SetCount(3, at(narrow, 0, DType::kInt32));
  arguments.SetCount(4, at(narrow, 1, DType::kInt32));
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_THAT(device_.Download<int64_t>(block.address(), 6), ElementsAre(2, 5, 0, 1, 0, 5));
  arguments.SetCount(3, at(wide, 0, DType::kInt64));
  arguments.SetCount(4, {});
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_THAT(device_.Download<int64_t>(block.address(), 6), ElementsAre(2, 5, 0, 2, 5, 5));
  arguments.Clear();
  arguments.header().parameter_block = block.address();
  arguments.header().word_count = 1;
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_THAT(device_.Download<int64_t>(block.address(), 1), ElementsAre(0)) << "no count is left";
}

TEST_F(StagingTest, SizesGoByCountsInEveryPartOfAWideLaunch) {
  constexpr int kCopies = 600;
  const Dims dims = {Dim::Fixed(2), Dim::Symbol(1)};
  const int64_t sizes[] = {2, 4};
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory count, device_.Upload<int32_t>({3}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory source,
                               device_.Upload<int32_t>({1, 2, 3, 4, 5, 6, 7, 8}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory targets,
                               device_.Upload(std::vector<int32_t>(8 * kCopies, -1)));
  StagingArguments arguments(4);
  const Tensor from = Tensor::Dense(source.address(), DType::kInt32, sizes);
  for (DeviceAddress i = 0; i < kCopies; ++i)
    arguments.Add(from, Tensor::Dense(targets.address() + 32 * i, DType::kInt32, sizes), Fill());
  const auto expect = [&](const std::vector<int32_t>& tensor) {
    ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
    std::vector<int32_t> all;
    for (int i = 0; i < kCopies; ++i)
      all.insert(all.end(), tensor.begin(), tensor.end());
    EXPECT_EQ(device_.Download<int32_t>(targets.address(), 8 * kCopies), all);
  };
  arguments.header().words[1] = 4;
  arguments.SetCount(1, {.data = count.address(), .dtype = DType::kInt32});
  for (int i = 0; i < kCopies; ++i)
    arguments.CountSizes(i, dims, 1);
  expect({1, 2, 3, 0, 5, 6, 7, 0});
  for (int i = 0; i < kCopies; ++i)
    arguments.SetSource(i, from);
  expect({1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_F(StagingTest, MakesOneDriverCallForAsManyCopiesAsAKernelTakes) {
  for (const int copies : {0, 1, 2, 3, 109}) {
    const Scene scene = SceneSource(4).Draw(copies, 1);
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory sources, device_.Upload(scene.sources));
    COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory targets, device_.Upload(scene.targets));
    const int64_t calls = device_.ledger().calls();
    const int64_t launches = device_.ledger().calls(&DriverTable::LaunchKernel);
    const StagingArguments arguments = ArgumentsOf(scene, sources.address(), targets.address());
    ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
    EXPECT_EQ(device_.ledger().calls() - calls, 1);
    EXPECT_EQ(device_.ledger().calls(&DriverTable::LaunchKernel) - launches, 1);
    ASSERT_OK(device_.Synchronize());
  }
}

TEST_F(StagingTest, MakesNoCallForNothing) {
  StagingArguments arguments;
  const int64_t calls = device_.ledger().calls();
  EXPECT_OK(kernels_->Launch(device_.stream(), arguments));
  const Tensor empty = Tensor::Dense(0, DType::kInt32, std::vector<int64_t>{0});
  for (int i = 0; i < 300; ++i)
    arguments.Add(empty, empty, Fill());
  EXPECT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_EQ(device_.ledger().calls(), calls);
}

TEST_F(StagingTest, ReportsWhatTheDriverSays) {
  StagingArguments arguments;
  arguments.header().word_count = 1;
  CuStream handle = nullptr;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(device_.driver()));
    handle = stream.handle();
  }
  EXPECT_FALSE(kernels_->Launch(handle, arguments).ok());
}

TEST(StagingKernelsTest, LoadLaunchesEachKernelOnce) {
  TestDevice device{DriverLedger::Options()};
  COPPICE_ASSERT_OK_AND_ASSIGN(const StagingKernels kernels, StagingKernels::Load(device.driver()));
  EXPECT_EQ(device.ledger().calls(&DriverTable::LaunchKernel), 7);
}

TEST(StagingDeathTest, ChecksItsCounts) {
  EXPECT_DEATH(
      {
        TestDevice device;
        StagingArguments arguments;
        arguments.header().word_count = kParameterWordsMax + 1;
        (void)StagingKernels::Load(device.driver())->Launch(device.stream(), arguments);
      },
      "too many words for one parameter block");
}

}  // namespace
}  // namespace coppice
