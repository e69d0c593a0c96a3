// Goal: what staging.h says of ragged sequences and of packing, for tensors of any rank, dtype and
// strides. Method: seeded draws on the emulator against loops over sequences.

#include "coppice/graphs/staging.h"

#include "tests/graphs/staging_scene.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

using Bytes = std::vector<uint8_t>;

// Some sequences, packed rows of them, and where these go.
struct Drawn {
  std::vector<int64_t> lengths;  // As they count.
  std::vector<int64_t> said;     // Lengths or offsets as they are given.
  int64_t slots = 0;
  int64_t rows = 0;
  int64_t length = 0;  // Of the rectangle; -1: packed.
  DType dtype = DType::kFloat32;
  DType said_dtype = DType::kInt32;
  RaggedBy by = RaggedBy::kLengths;
  std::vector<int64_t> inner;  // Sizes of the axes of a row.
  int64_t padded_rows = 0;     // Packed, in the target.

  int64_t row_elements() const {
    return std::accumulate(inner.begin(), inner.end(), int64_t{1}, std::multiplies<>());
  }
  int64_t total() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
};

class RaggedStagingTest : public testing::Test {
 protected:
  static constexpr int64_t kTotalWord = 1;

  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  Drawn Draw(bool rectangle) {
    Drawn drawn{.dtype = kDTypes[Below(std::ssize(kDTypes))],
                .said_dtype = Below(2) == 0 ? DType::kInt32 : DType::kInt64,
                .by = Below(2) == 0 ? RaggedBy::kLengths : RaggedBy::kOffsets};
    const int64_t count = Below(5) == 0 ? 250 + Below(300) : Below(9);
    const int64_t longest = count > 100 ? 3 : 12;
    for (int64_t i = 0; i < count; ++i)
      drawn.lengths.push_back(Below(4) == 0 ? 0 : Below(longest));
    drawn.slots = count + Below(4);
    drawn.rows = drawn.total() + Below(3);
    drawn.padded_rows = drawn.rows + Below(5);
    drawn.said = drawn.lengths;
    if (drawn.by == RaggedBy::kOffsets) {
      drawn.said.insert(drawn.said.begin(), 0);
      std::partial_sum(drawn.said.begin(), drawn.said.end(), drawn.said.begin());
    }
    const int64_t longest_drawn =
        drawn.lengths.empty() ? 0 : *std::max_element(drawn.lengths.begin(), drawn.lengths.end());
    drawn.length = rectangle ? std::max<int64_t>(longest_drawn + Below(3) - 1, 0) : -1;
    for (int64_t axes = Below(3); axes > 0; --axes)
      drawn.inner.push_back(Below(3) == 0 ? 16 : 1 + Below(6));
    return drawn;
  }

  Tensor Upload(const std::vector<int64_t>& values, DType dtype) {
    const auto size = static_cast<int64_t>(values.size());
    if (dtype == DType::kInt64)
      memory_.push_back(*device_.Upload(values));
    else
      memory_.push_back(*device_.Upload(std::vector<int32_t>(values.begin(), values.end())));
    return Tensor::Dense(memory_.back().address(), dtype, {&size, 1});
  }
  // A dense tensor of these sizes with bytes that are drawn, which `bytes` shows.
  Tensor Upload(std::vector<int64_t> sizes, DType dtype, Bytes& bytes) {
    Tensor tensor = Tensor::Dense(0, dtype, sizes);
    bytes.resize(static_cast<size_t>(tensor.element_count() * SizeOf(dtype)));
    std::generate(bytes.begin(), bytes.end(), [this] { return static_cast<uint8_t>(random_()); });
    memory_.push_back(*device_.Upload(bytes));
    tensor.data = memory_.back().address();
    return tensor;
  }
  static std::vector<int64_t> Joined(std::vector<int64_t> sizes,
                                     const std::vector<int64_t>& inner) {
    sizes.insert(sizes.end(), inner.begin(), inner.end());
    return sizes;
  }
  static Bytes Pattern(const Fill& fill, const Drawn& drawn) {
    const uint64_t pattern = FillPattern(fill, drawn.dtype);
    Bytes row;
    for (int64_t i = 0; i < drawn.row_elements(); ++i) {
      Bytes element(static_cast<size_t>(SizeOf(drawn.dtype)));
      std::memcpy(element.data(), &pattern, element.size());
      row.insert(row.end(), element.begin(), element.end());
    }
    return row;
  }

  // What the target holds: the rows of each sequence in its place, `fill` elsewhere.
  static Bytes ExpectedTarget(const Drawn& drawn, const Bytes& source, const Bytes& fill) {
    const auto row_bytes = static_cast<ptrdiff_t>(fill.size());
    Bytes target;
    const auto append = [&](int64_t row) {
      const auto begin = source.begin() + row * row_bytes;
      target.insert(target.end(), begin, begin + row_bytes);
    };
    const auto pad = [&](int64_t rows) {
      for (int64_t i = 0; i < rows; ++i)
        target.insert(target.end(), fill.begin(), fill.end());
    };
    if (drawn.length < 0) {
      for (int64_t row = 0; row < drawn.total(); ++row)
        append(row);
      pad(drawn.padded_rows - drawn.total());
      return target;
    }
    int64_t begin = 0;
    for (const int64_t length : drawn.lengths) {
      const int64_t kept = std::min(length, drawn.length);
      for (int64_t place = 0; place < kept; ++place)
        append(begin + place);
      pad(drawn.length - kept);
      begin += length;
    }
    pad((drawn.slots - static_cast<int64_t>(drawn.lengths.size())) * drawn.length);
    return target;
  }

  void ExpectStaged(const Drawn& drawn) {
    memory_.clear();
    const bool rectangle = drawn.length >= 0;
    const Fill fill = Fill::Value(3);
    Bytes source_bytes;
    Bytes target_bytes;
    const Tensor lengths = Upload(drawn.said, drawn.said_dtype);
    const Tensor source = Upload(Joined({drawn.rows}, drawn.inner), drawn.dtype, source_bytes);
    const std::vector<int64_t> target_sizes = rectangle
                                                  ? std::vector<int64_t>{drawn.slots, drawn.length}
                                                  : std::vector<int64_t>{drawn.padded_rows};
    const Tensor target = Upload(Joined(target_sizes, drawn.inner), drawn.dtype, target_bytes);
    const Tensor offsets =
        Upload(std::vector<int64_t>(static_cast<size_t>(drawn.slots) + 1, -1), drawn.said_dtype);
    memory_.push_back(*device_.Upload(std::vector<int64_t>{-1, -1, -1}));
    const DeviceAddress words = memory_.back().address();

    StagingArguments arguments(target.rank);
    arguments.header().parameter_block = words;
    arguments.header().word_count = 3;
    arguments.header().words[0] = 70;
    arguments.header().words[kTotalWord] = drawn.rows;
    arguments.header().words[2] = 72;
    arguments.AddRows(target, fill, 0, rectangle);
    arguments.SetSequences(0, offsets, drawn.by, kTotalWord);
    const auto count = static_cast<int64_t>(drawn.lengths.size());
    arguments.SetLengths(0, lengths, count, drawn.rows);
    if (rectangle)
      arguments.SetPackedSource(0, source, count, drawn.length);
    else
      arguments.SetSource(0, source);
    ASSERT_OK(kernels_->Launch(device_.stream(), arguments));

    EXPECT_EQ(device_.Download<int64_t>(words, 3), (std::vector<int64_t>{70, drawn.total(), 72}));
    std::vector<int64_t> starts = drawn.lengths;
    starts.insert(starts.begin(), 0);
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    starts.resize(static_cast<size_t>(drawn.slots) + 1, drawn.total());
    EXPECT_EQ(Integers(offsets), starts);
    const Bytes expected = ExpectedTarget(drawn, source_bytes, Pattern(fill, drawn));
    EXPECT_EQ(device_.Download<uint8_t>(target.data, std::ssize(target_bytes)), expected);
    if (rectangle) ExpectPacked(drawn, target, offsets, source_bytes);
  }

  // Packs the rectangle that was staged: what is in none of it becomes zeros.
  void ExpectPacked(const Drawn& drawn,
                    const Tensor& rectangle,
                    const Tensor& offsets,
                    const Bytes& source) {
    Bytes before;
    const Tensor packed = Upload(Joined({drawn.padded_rows}, drawn.inner), drawn.dtype, before);
    const int64_t limit = std::max<int64_t>(drawn.length - Below(2), 0);
    memory_.push_back(*device_.Upload(std::vector<int64_t>{limit}));
    ASSERT_OK(
        kernels_->Pack(device_.stream(), rectangle, offsets, memory_.back().address(), packed));
    const int64_t row_bytes = drawn.row_elements() * SizeOf(drawn.dtype);
    Bytes expected;
    for (const int64_t length : drawn.lengths) {
      const auto begin = source.begin() + static_cast<ptrdiff_t>(expected.size());
      expected.insert(expected.end(), begin, begin + std::min(length, limit) * row_bytes);
      const int64_t left_out = std::max<int64_t>(length - limit, 0) * row_bytes;
      expected.resize(expected.size() + static_cast<size_t>(left_out));
    }
    expected.resize(before.size());
    EXPECT_EQ(device_.Download<uint8_t>(packed.data, std::ssize(before)), expected);
  }

  std::vector<int64_t> Integers(const Tensor& tensor) const {
    if (tensor.dtype == DType::kInt64)
      return device_.Download<int64_t>(tensor.data, tensor.sizes[0]);
    const std::vector<int32_t> narrow = device_.Download<int32_t>(tensor.data, tensor.sizes[0]);
    return {narrow.begin(), narrow.end()};
  }

  std::mt19937_64 random_{TestSeed()};
  TestDevice device_{DriverLedger::Options()};
  absl::StatusOr<StagingKernels> kernels_ = StagingKernels::Load(device_.driver());
  std::vector<DeviceMemory> memory_;
};

TEST_F(RaggedStagingTest, StagesAndPacksAsALoopOverSequencesDoes) {
  for (int64_t i = 0; i < std::max<int64_t>(300 / TestShare(), 20); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    ExpectStaged(Draw(/*rectangle=*/i % 2 == 0));
    if (HasFailure()) break;
  }
}

TEST_F(RaggedStagingTest, SequencesAreEmptyWithoutLengths) {
  const int64_t slots = 3;
  Bytes before;
  const Tensor target = Upload({slots, 2}, DType::kInt32, before);
  const Tensor offsets = Upload({7, 7, 7, 7}, DType::kInt64);
  const Tensor source = Upload({6}, DType::kInt32, before);
  memory_.push_back(*device_.Upload(std::vector<int64_t>{9}));
  StagingArguments arguments(2);
  arguments.header().parameter_block = memory_.back().address();
  arguments.header().word_count = 1;
  arguments.AddRows(target, Fill::Value(4), 0, /*rectangle=*/true);
  arguments.SetSequences(0, offsets, RaggedBy::kLengths, 0);
  const int64_t size = 3;
  arguments.SetLengths(0, Tensor::Dense(0, DType::kInt64, {&size, 1}), 3, 6);
  arguments.SetPackedSource(0, source, 3, 2);
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_EQ(device_.Download<int32_t>(target.data, 6), std::vector<int32_t>(6, 4));
  EXPECT_EQ(Integers(offsets), std::vector<int64_t>(4, 0));
  EXPECT_EQ(device_.Download<int64_t>(memory_.back().address(), 1), std::vector<int64_t>{0});
}

TEST_F(RaggedStagingTest, LengthsOf32BitsHoldRowsToWhatTheyCanSay) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const Tensor lengths = Upload({kMost, kMost, 5}, DType::kInt32);
  const Tensor offsets = Upload({7, 7, 7, 7}, DType::kInt32);
  memory_.push_back(*device_.Upload(std::vector<int64_t>{9}));
  StagingArguments arguments(1);
  arguments.header().parameter_block = memory_.back().address();
  arguments.header().word_count = 1;
  arguments.SetSequences(0, offsets, RaggedBy::kLengths, 0);
  arguments.SetLengths(0, lengths, 3, int64_t{1} << 40);
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  EXPECT_EQ(Integers(offsets), (std::vector<int64_t>{0, kMost, kMost, kMost}));
}

TEST_F(RaggedStagingTest, SumsOfHugeLengthsDoNotOverflow) {
  std::vector<int64_t> huge(300, std::numeric_limits<int64_t>::max());
  const Tensor lengths = Upload(huge, DType::kInt64);
  const Tensor offsets = Upload(std::vector<int64_t>(301, 7), DType::kInt64);
  memory_.push_back(*device_.Upload(std::vector<int64_t>{9}));
  StagingArguments arguments(1);
  arguments.header().parameter_block = memory_.back().address();
  arguments.header().word_count = 1;
  arguments.SetSequences(0, offsets, RaggedBy::kLengths, 0);
  arguments.SetLengths(0, lengths, 300, std::numeric_limits<int64_t>::max());
  ASSERT_OK(kernels_->Launch(device_.stream(), arguments));
  const std::vector<int64_t> starts = Integers(offsets);
  EXPECT_EQ(starts[0], 0);
  for (size_t i = 1; i < starts.size(); ++i)
    EXPECT_EQ(starts[i], int64_t{1} << 50);
}

TEST_F(RaggedStagingTest, PackMakesOneCallAndNoneForNothing) {
  Bytes bytes;
  const Tensor rectangle = Upload({2, 3, 4}, DType::kFloat32, bytes);
  const Tensor offsets = Upload({0, 1, 3}, DType::kInt32);
  const Tensor packed = Upload({3, 4}, DType::kFloat32, bytes);
  memory_.push_back(*device_.Upload(std::vector<int64_t>{3}));
  const DeviceAddress limit = memory_.back().address();
  const int64_t calls = device_.ledger().calls();
  ASSERT_OK(kernels_->Pack(device_.stream(), rectangle, offsets, limit, packed));
  EXPECT_EQ(device_.ledger().calls() - calls, 1);
  const std::vector<int64_t> none = {0, 4};
  ASSERT_OK(kernels_->Pack(device_.stream(), rectangle, offsets, limit,
                           Tensor::Dense(0, DType::kFloat32, none)));
  EXPECT_EQ(device_.ledger().calls() - calls, 1);
}

TEST(RaggedStagingDeathTest, ChecksWhatItIsGiven) {
  const std::vector<int64_t> sizes = {2, 3};
  const Tensor tensor = Tensor::Dense(1 << 20, DType::kFloat32, sizes);
  StagingArguments arguments(2);
  EXPECT_DEATH(arguments.SetSequences(2, tensor, RaggedBy::kLengths, 0), "no such sequences");
  EXPECT_DEATH(arguments.SetSequences(0, tensor, RaggedBy::kLengths, 0), "one axis");
  EXPECT_DEATH(arguments.AddRows(tensor, Fill::RepeatLast(), 0, /*rectangle=*/true),
               "must not repeat a row");
  EXPECT_DEATH(arguments.AddRows(Tensor(), Fill(), 0, /*rectangle=*/false), "no axis for its rows");
}

}  // namespace
}  // namespace coppice
