// Goal: the planner's plans are right and low, and stop where the header says.
// Method: small cases by hand; random ones checked pair by pair and against all orders; rectangles
// cut so that the optimum is known; decode steps of 67 buckets.

#include "coppice/allocator/planner.h"

#include "tests/allocator/buffers.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

PlannerResult PlanByOrderings(std::span<const Buffer> buffers) {
  return PlanBuffers(buffers, {.search_tries_max = 0}).value();
}

// Size misses the bound of 14 here (15), contention reaches it.
std::vector<Buffer> MakeContended() {
  return {MakeBuffer({{0, 3}}, 4), MakeBuffer({{1, 3}}, 5), MakeBuffer({{4, 5}}, 6),
          MakeBuffer({{0, 5}}, 5)};
}

// No ordering places this below 22; the bound is 15.
std::vector<Buffer> MakeUnreachable() {
  return {MakeBuffer({{1, 5}}, 7), MakeBuffer({{4, 7}}, 7), MakeBuffer({{5, 7}}, 8),
          MakeBuffer({{1, 3}}, 8)};
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
  EXPECT_THAT(PlanBuffers(buffers), StatusIs(kWrongArgument));
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
  EXPECT_THAT(PlanBuffers(buffers), StatusIs(kWrongArgument));
  const std::vector<Buffer> apart = {MakeFixed({0, 2}, 4, 0), MakeFixed({2, 3}, 4, 3)};
  EXPECT_OK(PlanBuffers(apart));
}

// One case for each ordering, small enough to check on paper: those before it miss the bound.
TEST(PlannerTest, TriesTheOrderingsInTurn) {
  struct Rectangle {
    int64_t lower, upper, bytes;
  };
  const std::vector<std::pair<std::string, std::vector<Rectangle>>> cases = {
      {"size", {{0, 5, 7}, {0, 1, 9}}},
      {"contention", {{5, 7, 13}, {4, 7, 13}, {2, 4, 18}, {3, 5, 16}}},
      {"breadth", {{1, 3, 20}, {3, 6, 9}, {3, 7, 15}, {2, 5, 19}}},
      {"size class", {{4, 7, 15}, {2, 3, 11}, {2, 4, 7}, {3, 7, 9}}},
      {"weight", {{3, 7, 3}, {1, 2, 4}, {1, 4, 3}, {5, 7, 6}}},
      {"steep weight", {{3, 4, 9}, {0, 5, 13}, {2, 6, 10}, {4, 6, 8}, {5, 6, 15}}},
  };
  for (const auto& [method, rectangles] : cases) {
    std::vector<Buffer> buffers;
    for (const auto& [lower, upper, bytes] : rectangles)
      buffers.push_back(MakeBuffer({{lower, upper}}, bytes));
    const PlannerResult result = PlanByOrderings(buffers);
    EXPECT_EQ(result.method, method);
    EXPECT_EQ(result.plan.height, result.bound) << method;
  }
}

TEST(PlannerTest, KeepsTheEarlierOfTwoEqualPlans) {
  const PlannerResult result = PlanByOrderings(MakeUnreachable());
  EXPECT_GT(result.plan.height, result.bound);
  EXPECT_STREQ(result.method, "size");
}

TEST(PlannerTest, SaysHowFarAPlanIsAboveItsBound) {
  EXPECT_DOUBLE_EQ(PlanByOrderings(MakeUnreachable()).gap(), 22.0 / 15);
  EXPECT_DOUBLE_EQ(PlanByOrderings(MakeContended()).gap(), 1);
  EXPECT_DOUBLE_EQ(PlanByOrderings({}).gap(), 1);
}

TEST(PlannerTest, TriesTheFirstOrderingInNoTime) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result,
                               PlanBuffers(MakeContended(), {.time_limit_ns = 0}));
  EXPECT_STREQ(result.method, "size");
  EXPECT_EQ(result.plan.height, 15);
}

TEST(PlannerTest, HoldsItsWorkLimitWhateverTheAlignments) {
  std::vector<Buffer> buffers = {MakeFixed({0, 9}, 100, 128), MakeBuffer({{2, 9}}, 52'206),
                                 MakeBuffer({{2, 9}}, 100)};
  buffers[0].alignment = buffers[2].alignment = 128;
  buffers[1].alignment = int64_t{1} << 34;
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.height, (int64_t{1} << 34) + 52'206);
}

TEST(PlannerTest, PlacesLowBuffersFirstAsLowAsFixedOnesLetThem) {
  std::vector<Buffer> buffers = {MakeBuffer({{0, 3}}, 9), MakeBuffer({{2, 4}}, 2),
                                 MakeBuffer({{1, 4}}, 3), MakeFixed({0, 4}, 1, 4)};
  buffers[1].low = buffers[2].low = true;
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.offsets, (std::vector<int64_t>{7, 5, 0, 4}));
}

TEST(PlannerTest, LetsAGroupBeginTogetherAndNeedItsLargestMember) {
  // 1 is the result of an operation in place on 0, and 2 on 1; 3 lives with the smaller two.
  std::vector<Buffer> buffers = {MakeBuffer({{0, 3}}, 4), MakeBuffer({{2, 5}}, 9),
                                 MakeBuffer({{4, 8}}, 2), MakeBuffer({{5, 8}}, 7)};
  buffers[1].in_place_with = 0;
  buffers[2].in_place_with = 1;
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.bound, 9);
  EXPECT_EQ(result.plan.height, 9);
  EXPECT_EQ(result.plan.offsets[1], result.plan.offsets[0]);
  EXPECT_EQ(result.plan.offsets[2], result.plan.offsets[0]);
}

TEST(PlannerTest, PlacesAGroupWhereItsFixedMemberIsAlignedForAll) {
  std::vector<Buffer> buffers = {MakeBuffer({{0, 2}}, 4, 16), MakeFixed({1, 3}, 4, 48),
                                 MakeBuffer({{3, 4}}, 4, 32), MakeBuffer({{0, 4}}, 4, 16)};
  buffers[0].in_place_with = 1;
  buffers[2].in_place_with = 3;
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.offsets[0], 48);
  EXPECT_EQ(result.plan.offsets[2], 0);
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
  const std::vector<Buffer> buffers = {MakeBuffer({{0, INT64_MAX}}, INT64_MAX / 2),
                                       MakeBuffer({{0, 1}}, INT64_MAX / 2)};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
  EXPECT_EQ(result.plan.height, INT64_MAX / 2 * 2);
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

  // Fixes a few buffers so that no two of them meet.
  void FixSome(std::vector<Buffer>& buffers) {
    int64_t offset = 0;
    for (int64_t i = Draw(0, 5); i > 0; --i) {
      Buffer& fixed = buffers[static_cast<size_t>(Draw(0, std::ssize(buffers)))];
      if (fixed.fixed_offset) continue;
      fixed.fixed_offset = AlignUp(offset + Draw(0, 4000), fixed.alignment);
      offset = *fixed.fixed_offset + fixed.bytes;
    }
  }

  // Puts a few of the others in place with earlier ones that are not fixed either.
  void JoinSome(std::vector<Buffer>& buffers) {
    for (int64_t i = Draw(0, 8); i > 0; --i) {
      const auto operand = static_cast<size_t>(Draw(0, std::ssize(buffers)));
      const auto result = static_cast<size_t>(Draw(0, std::ssize(buffers)));
      if (operand >= result || buffers[operand].fixed_offset || buffers[result].fixed_offset)
        continue;
      buffers[result].in_place_with = operand;
    }
  }

  std::vector<Buffer> DrawProgram() {
    std::vector<Buffer> buffers;
    const int64_t count = 1 + Draw(0, 200) * Draw(0, 200) / 200;  // Small ones are likelier.
    for (int64_t i = 0; i < count; ++i)
      buffers.push_back(DrawBuffer(2 * count));
    if (Draw(0, 2) == 0) FixSome(buffers);
    if (Draw(0, 2) == 0) JoinSome(buffers);
    if (Draw(0, 4) == 0)
      for (Buffer& buffer : buffers)
        buffer.low = Draw(0, 8) == 0;
    return buffers;
  }

  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << TestSeed()};
  std::mt19937_64 random_{TestSeed()};
};

// The definition, pair by pair.
void ExpectRight(std::span<const Buffer> buffers, const Plan& plan) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  int64_t height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t offset = plan.offsets[i];
    height = std::max(height, offset + buffers[i].bytes);
    ASSERT_GE(offset, 0);
    ASSERT_EQ(offset % buffers[i].alignment, 0);
    ASSERT_EQ(offset, buffers[i].fixed_offset.value_or(offset));
    ASSERT_EQ(offset, plan.offsets[buffers[i].in_place_with.value_or(i)]);
    for (size_t k = 0; k < i; ++k) {
      const bool share = offset < plan.offsets[k] + buffers[k].bytes &&
                         plan.offsets[k] < offset + buffers[i].bytes;
      ASSERT_FALSE(share && LiveTogether(buffers[i], buffers[k]) &&
                   RootOf(buffers, i) != RootOf(buffers, k))
          << "buffers " << i << " and " << k;
    }
  }
  ASSERT_EQ(plan.height, height);
}

TEST_F(RandomPlannerTest, EveryPlanIsRightAndNoLowerThanTheBound) {
  for (int64_t i = 0; i < 10000 / TestShare(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const std::vector<Buffer> buffers = DrawProgram();
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result,
                                 PlanBuffers(buffers, {.search_tries_max = Draw(0, 2) * 500}));
    ASSERT_OK(ValidatePlan(buffers, result.plan));
    ExpectRight(buffers, result.plan);
    ASSERT_EQ(result.bound, MaxLiveBytes(buffers));
    ASSERT_GE(result.plan.height, result.bound);
    if (HasFatalFailure()) return;
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

TEST_F(RandomPlannerTest, SmallPlansAreTheBestOfAllOrders) {
  for (int64_t i = 0; i < 2000 / TestShare(); ++i) {
    std::vector<Buffer> buffers;
    for (int64_t count = Draw(2, 8); count > 0; --count) {
      const int64_t lower = Draw(0, 6);
      buffers.push_back(MakeBuffer({{lower, Draw(lower, 6) + 1}}, Draw(1, 8)));
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
    ASSERT_EQ(result.plan.height, LeastHeight(buffers)) << "case " << i;
  }
}

// Long lifetimes of many sizes, which no ordering packs perfectly.
class ClimbTest : public RandomPlannerTest {
 protected:
  std::vector<Buffer> DrawLong(int64_t count) {
    std::vector<Buffer> buffers;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t lower = Draw(0, 4 * count);
      buffers.push_back(MakeBuffer({{lower, lower + Draw(1, 2 * count)}}, Draw(1, 100000)));
    }
    return buffers;
  }
};

TEST_F(ClimbTest, MovesWhatIsTooHighForwardWithinItsTries) {
  constexpr int64_t kCount = 3001;
  // Now and then nothing that it tries is lower.
  for (bool lower = false; !lower;) {
    const std::vector<Buffer> buffers = DrawLong(kCount);
    const PlannerResult orderings = PlanByOrderings(buffers);
    ASSERT_GT(orderings.plan.height, orderings.bound);
    const PlannerResult too_few = PlanBuffers(buffers, {.search_tries_max = kCount - 1}).value();
    EXPECT_EQ(too_few.plan.offsets, orderings.plan.offsets);
    const PlannerOptions options{.search_tries_max = 40 * kCount, .seed = TestSeed()};
    const PlannerResult climbed = PlanBuffers(buffers, options).value();
    EXPECT_LE(climbed.plan.height, orderings.plan.height);
    lower = climbed.plan.height < orderings.plan.height;
    EXPECT_STREQ(climbed.method, lower ? "climb" : orderings.method);
    EXPECT_EQ(PlanBuffers(buffers, options)->plan.offsets, climbed.plan.offsets);
  }
}

TEST_F(ClimbTest, KeepsLowBuffersFirst) {
  std::vector<Buffer> buffers = DrawLong(3001);
  buffers[7].low = true;
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result,
                               PlanBuffers(buffers, {.search_tries_max = 20 * 3001}));
  EXPECT_EQ(result.plan.offsets[7], 0);
}

TEST_F(RandomPlannerTest, CutRectanglesStayBelowTwiceTheBound) {
  for (int i = 0; i < 20; ++i) {
    const std::vector<Buffer> buffers =
        CutRectangles([this](int64_t lower, int64_t upper) { return Draw(lower, upper + 1); }, 100);
    COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult result, PlanBuffers(buffers));
    ASSERT_EQ(result.bound, kFullHeight) << "case " << i;
    ASSERT_LT(result.plan.height, 2 * kFullHeight) << "case " << i;
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
