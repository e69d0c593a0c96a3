// Goal: the planner's plans are right and low, and stop where the header says.
// Method: small cases by hand, random ones against all orders, and decode steps of 67 buckets.

#include "coppice/allocator/planner.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "coppice/allocator/plan.h"
#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

Buffer MakeBuffer(const std::vector<Interval>& lifetime, int64_t bytes, int64_t alignment = 1) {
  Buffer buffer;
  buffer.lifetime.assign(lifetime.begin(), lifetime.end());
  buffer.bytes = bytes;
  buffer.alignment = alignment;
  return buffer;
}

Buffer MakeFixed(Interval lifetime, int64_t bytes, int64_t offset) {
  Buffer buffer = MakeBuffer({lifetime}, bytes);
  buffer.fixed_offset = offset;
  return buffer;
}

// Size misses the bound of 14 here (15), contention reaches it.
std::vector<Buffer> MakeContended() {
  return {MakeBuffer({{0, 3}}, 4), MakeBuffer({{1, 3}}, 5), MakeBuffer({{4, 5}}, 6),
          MakeBuffer({{0, 5}}, 5)};
}

// No order places this below 11, first-fit or best-fit; the bound is 8.
std::vector<Buffer> MakeUnreachable() {
  return {MakeBuffer({{4, 5}}, 4), MakeBuffer({{0, 2}}, 3), MakeBuffer({{0, 1}}, 5),
          MakeBuffer({{1, 5}}, 4)};
}

TEST(PlannerTest, PlansNothingForNoBuffers) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers({}));
  EXPECT_STREQ(result.method, "empty");
  EXPECT_EQ(result.bound, 0);
  EXPECT_EQ(result.plan.height, 0);
  EXPECT_TRUE(result.plan.offsets.empty());
}

TEST(PlannerTest, RejectsMalformedBuffers) {
  const std::vector<Buffer> buffers = {MakeBuffer({{0, 1}}, 0)};
  EXPECT_THAT(PlanBuffers(buffers), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PlannerTest, StacksWhatLivesTogetherAndSharesWhatDoesNot) {
  const std::vector<Buffer> buffers = {MakeBuffer({{0, 2}}, 10), MakeBuffer({{0, 4}}, 3),
                                       MakeBuffer({{2, 4}}, 7)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.offsets, (std::vector<int64_t>{0, 10, 0}));
  EXPECT_EQ(result.plan.height, 13);
  EXPECT_EQ(result.bound, 13);
  EXPECT_STREQ(result.method, "size");
}

TEST(PlannerTest, PlacesABufferInTheGapOfAnother) {
  const std::vector<Buffer> buffers = {MakeBuffer({{0, 2}, {4, 6}}, 8), MakeBuffer({{2, 4}}, 8)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.height, 8);
}

TEST(PlannerTest, KeepsFixedBuffersAndPlacesAroundThem) {
  const std::vector<Buffer> buffers = {MakeBuffer({{0, 3}}, 6), MakeFixed({1, 2}, 4, 5),
                                       MakeBuffer({{0, 1}}, 4)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.offsets, (std::vector<int64_t>{9, 5, 0}));
}

TEST(PlannerTest, RejectsFixedBuffersThatOverlap) {
  const std::vector<Buffer> buffers = {MakeFixed({0, 2}, 4, 0), MakeFixed({1, 3}, 4, 3)};
  EXPECT_THAT(PlanBuffers(buffers), StatusIs(absl::StatusCode::kInvalidArgument));
  const std::vector<Buffer> apart = {MakeFixed({0, 2}, 4, 0), MakeFixed({2, 3}, 4, 3)};
  EXPECT_OK(PlanBuffers(apart));
}

// One case for each ordering, small enough to check on paper: those before it miss the bound.
TEST(PlannerTest, TriesTheOrderingsInTurn) {
  struct Rectangle {
    int64_t lower, upper, bytes;
  };
  const std::vector<std::pair<std::string, std::vector<Rectangle>>> cases = {
      {"size", {{2, 3, 1}, {4, 5, 3}, {0, 4, 5}}},
      {"contention", {{0, 3, 4}, {1, 3, 5}, {4, 5, 6}, {0, 5, 5}}},
      {"area", {{1, 2, 3}, {1, 4, 1}, {4, 5, 3}, {3, 6, 2}}},
      {"breadth", {{0, 5, 5}, {5, 6, 6}, {2, 5, 2}, {3, 7, 6}}},
      {"size, best fit",
       {{0, 4, 5}, {1, 4, 4}, {5, 6, 3}, {2, 6, 4}, {5, 7, 4}, {4, 6, 2}, {0, 6, 5}}},
      {"contention, best fit", {{1, 6, 1}, {1, 4, 3}, {0, 3, 4}, {4, 7, 6}, {3, 5, 4}, {1, 5, 2}}},
      {"area, best fit",
       {{4, 5, 3},
        {2, 5, 2},
        {1, 3, 3},
        {1, 4, 2},
        {2, 5, 4},
        {4, 5, 3},
        {2, 5, 2},
        {1, 4, 6},
        {4, 5, 4}}},
      {"breadth, best fit",
       {{0, 4, 1}, {2, 3, 5}, {4, 6, 6}, {2, 5, 6}, {3, 5, 5}, {0, 4, 2}, {1, 6, 3}}},
  };
  for (const auto& [method, rectangles] : cases) {
    std::vector<Buffer> buffers;
    for (const auto& [lower, upper, bytes] : rectangles)
      buffers.push_back(MakeBuffer({{lower, upper}}, bytes));
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
    EXPECT_EQ(result.method, method);
    EXPECT_EQ(result.plan.height, result.bound) << method;
  }
}

TEST(PlannerTest, KeepsTheEarlierOfTwoEqualPlans) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(MakeUnreachable()));
  EXPECT_GT(result.plan.height, result.bound);
  EXPECT_STREQ(result.method, "size");
}

TEST(PlannerTest, StopsAtTheHeightTarget) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult best, PlanBuffers(MakeContended()));
  EXPECT_STREQ(best.method, "contention");
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult enough,
                               PlanBuffers(MakeContended(), {.height_target = 15}));
  EXPECT_STREQ(enough.method, "size");
  EXPECT_EQ(enough.plan.height, 15);
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult missed,
                               PlanBuffers(MakeContended(), {.height_target = 14}));
  EXPECT_EQ(missed.plan.height, 14);
}

TEST(PlannerTest, StopsAtTheEndOfTheHighestFixedBuffer) {
  std::vector<Buffer> buffers = MakeContended();
  buffers.push_back(MakeFixed({7, 8}, 1, 14));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_STREQ(result.method, "size");
  EXPECT_EQ(result.plan.height, 15);
}

TEST(PlannerTest, CountsRoundedSizesAsGoodEnough) {
  std::vector<Buffer> buffers = MakeContended();
  for (Buffer& buffer : buffers)
    buffer.alignment = 16;
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.bound, 14);
  EXPECT_GT(result.plan.height, result.bound);
  EXPECT_STREQ(result.method, "size");
}

TEST(PlannerTest, PlansHugeBuffersWithoutOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<Buffer> buffers = {MakeBuffer({{0, kMost}}, kMost / 2),
                                       MakeBuffer({{0, 1}}, kMost / 2)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.height, kMost / 2 * 2);
}

// Random programs: short and long lifetimes, gaps, several alignments, obstacles that do not meet.
class RandomPlannerTest : public testing::Test {
 protected:
  int64_t Draw(int64_t lower, int64_t upper) {  // In [lower, upper).
    return lower + static_cast<int64_t>(random_() % static_cast<uint64_t>(upper - lower));
  }

  Buffer DrawBuffer(int64_t steps) {
    std::vector<Interval> lifetime;
    int64_t lower = Draw(0, steps);
    const int64_t longest = Draw(0, 8) == 0 ? steps : 1 + steps / 10;
    do {
      const int64_t upper = std::min(steps, lower + Draw(1, longest + 1));
      lifetime.push_back({lower, upper});
      lower = upper + Draw(0, 3);
    } while (lower < steps && Draw(0, 4) == 0);
    return MakeBuffer(lifetime, Draw(1, 5000), int64_t{1} << Draw(0, 10));
  }

  std::vector<Buffer> DrawProgram() {
    std::vector<Buffer> buffers;
    const int64_t count = Draw(1, 120);
    for (int64_t i = 0; i < count; ++i)
      buffers.push_back(DrawBuffer(2 * count));
    if (Draw(0, 2) == 0) return buffers;
    int64_t offset = 0;
    for (int64_t i = 0; i < std::min<int64_t>(count, 5); ++i) {
      Buffer& fixed = buffers[static_cast<size_t>(Draw(0, count))];
      if (fixed.fixed_offset) continue;
      fixed.fixed_offset = AlignUp(offset + Draw(0, 4000), fixed.alignment);
      offset = *fixed.fixed_offset + fixed.bytes;
    }
    return buffers;
  }

  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << TestSeed()};
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(RandomPlannerTest, EveryPlanIsRightAndNoLowerThanTheBound) {
  for (int i = 0; i < 120; ++i) {
    const std::vector<Buffer> buffers = DrawProgram();
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
    ASSERT_OK(ValidatePlan(buffers, result.plan)) << "case " << i;
    ASSERT_EQ(result.bound, MaxLiveBytes(buffers)) << "case " << i;
    ASSERT_GE(result.plan.height, result.bound) << "case " << i;
  }
}

TEST_F(RandomPlannerTest, EqualInputsGiveEqualPlans) {
  for (int i = 0; i < 10; ++i) {
    const std::vector<Buffer> buffers = DrawProgram();
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult a, PlanBuffers(buffers));
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult b, PlanBuffers(buffers));
    EXPECT_EQ(a.plan.offsets, b.plan.offsets);
    EXPECT_STREQ(a.method, b.method);
  }
}

bool LiveTogether(const Buffer& a, const Buffer& b) {
  for (const Interval& x : a.lifetime)
    for (const Interval& y : b.lifetime)
      if (x.lower < y.upper && y.lower < x.upper) return true;
  return false;
}

// The least height over all orders, first-fit in each: some order reaches the optimum, because any
// plan's buffers, taken by offset, only sink.
int64_t LeastHeight(std::span<const Buffer> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t least = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> offsets(buffers.size());
  do {
    int64_t height = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const Buffer& buffer = buffers[order[i]];
      int64_t& offset = offsets[order[i]];
      offset = 0;
      for (size_t j = 0; j < i;) {
        const Buffer& other = buffers[order[j]];
        const int64_t other_offset = offsets[order[j]];
        const bool meets = LiveTogether(buffer, other) && offset < other_offset + other.bytes &&
                           other_offset < offset + buffer.bytes;
        if (meets) offset = other_offset + other.bytes;
        j = meets ? 0 : j + 1;
      }
      height = std::max(height, offset + buffer.bytes);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST_F(RandomPlannerTest, SmallPlansAreNearTheBestOfAllOrders) {
  int64_t heights = 0;
  int64_t least_heights = 0;
  for (int i = 0; i < 150; ++i) {
    std::vector<Buffer> buffers;
    for (int64_t count = Draw(2, 7); count > 0; --count) {
      const int64_t lower = Draw(0, 6);
      buffers.push_back(MakeBuffer({{lower, Draw(lower, 6) + 1}}, Draw(1, 8)));
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
    const int64_t least = LeastHeight(buffers);
    ASSERT_GE(result.plan.height, least) << "case " << i;
    heights += result.plan.height;
    least_heights += least;
  }
  EXPECT_LE(100 * heights, 101 * least_heights);
}

// Cuts [0, steps) x [0, height) into rectangles, so that the bound is the height exactly.
TEST_F(RandomPlannerTest, CutRectanglesStayBelowTwiceTheBound) {
  constexpr int64_t kHeight = 1 << 20;
  struct Rectangle {
    Interval life;
    int64_t bytes;
  };
  for (int i = 0; i < 20; ++i) {
    std::vector<Rectangle> rectangles = {{{0, 1000}, kHeight}};
    while (rectangles.size() < 100) {
      Rectangle& cut = rectangles[static_cast<size_t>(Draw(0, std::ssize(rectangles)))];
      Rectangle rest = cut;
      if (Draw(0, 2) == 0 && cut.bytes > 1) {
        rest.bytes = Draw(1, cut.bytes);
        cut.bytes -= rest.bytes;
      } else if (cut.life.upper - cut.life.lower > 1) {
        rest.life.lower = Draw(cut.life.lower + 1, cut.life.upper);
        cut.life.upper = rest.life.lower;
      } else {
        continue;
      }
      rectangles.push_back(rest);
    }
    std::vector<Buffer> buffers;
    buffers.reserve(rectangles.size());
    for (const Rectangle& rectangle : rectangles)
      buffers.push_back(MakeBuffer({rectangle.life}, rectangle.bytes));
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
    ASSERT_EQ(result.bound, kHeight) << "case " << i;
    ASSERT_LT(result.plan.height, 2 * kHeight) << "case " << i;
  }
}

// The allocations of one decode step of a Llama-like model, in the order in which they happen.
class DecodeTrace {
 public:
  explicit DecodeTrace(int64_t batch) {
    constexpr int64_t kLayers = 32;
    constexpr int64_t kHidden = 4096;
    constexpr int64_t kHeads = 32;
    constexpr int64_t kKeyValue = 1024;
    constexpr int64_t kInner = 14336;
    constexpr int64_t kVocabulary = 128256;
    constexpr int64_t kHalf = 2;
    const size_t residual = Allocate(batch * kHidden * kHalf);
    size_t hidden = Allocate(batch * kHidden * kHalf);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const size_t qkv = Allocate(batch * (kHidden + 2 * kKeyValue) * kHalf);
      Free(hidden);
      const size_t attention = Allocate(batch * kHidden * kHalf);
      const size_t sums = Allocate(batch * kHeads * 4);
      // Small batches split the keys to fill the device, and merge in float.
      const int64_t splits = std::clamp<int64_t>(16 / batch, 1, 16);
      const size_t partial = Allocate(splits * batch * kHidden * 4);
      Free(sums);
      Free(partial);
      Free(qkv);
      const size_t projected = Allocate(batch * kHidden * kHalf);
      Free(attention);
      const size_t gate_and_up = Allocate(batch * 2 * kInner * kHalf);
      Free(projected);
      const size_t activated = Allocate(batch * kInner * kHalf);
      Free(gate_and_up);
      hidden = Allocate(batch * kHidden * kHalf);
      Free(activated);
    }
    Free(residual);
    const size_t logits = Allocate(batch * kVocabulary * kHalf);
    Allocate(batch * kVocabulary * 4);  // The output, in float; lives to the end.
    Free(hidden);
    Free(logits);
    for (Buffer& buffer : buffers_)
      if (buffer.lifetime[0].upper == 0) buffer.lifetime[0].upper = step_;
  }

  const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  size_t Allocate(int64_t bytes) {
    buffers_.push_back(
        MakeBuffer({{step_++, 0}}, AlignUp(bytes, kBufferAlignment), kBufferAlignment));
    return buffers_.size() - 1;
  }
  void Free(size_t index) { buffers_[index].lifetime[0].upper = step_++; }

  std::vector<Buffer> buffers_;
  int64_t step_ = 0;
};

TEST(DecodePlannerTest, ReachesTheBoundInAllBatchBuckets) {
  std::vector<int64_t> batches = {1, 2, 4};
  for (int64_t batch = 8; batch <= 512; batch += 8)
    batches.push_back(batch);
  ASSERT_EQ(batches.size(), 67u);
  for (const int64_t batch : batches) {
    const DecodeTrace trace(batch);
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(trace.buffers()));
    EXPECT_EQ(result.plan.height, result.bound) << "batch " << batch;
  }
}

}  // namespace
}  // namespace coppice
