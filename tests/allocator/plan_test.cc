// Goal: the validator accepts exactly the plans that are right, in sequence and under an order.
// Method: one plan per rule, and random small cases against the definitions, pair by pair.

#include "coppice/allocator/plan.h"

#include "tests/allocator/buffers.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

Plan MakePlan(std::vector<int64_t> offsets, int64_t height) {
  return {.offsets = std::move(offsets), .height = height};
}

absl::StatusCode CodeOf(const Buffer& buffer) {
  return ValidateBuffers({&buffer, 1}).code();
}

constexpr absl::StatusCode kOk = absl::StatusCode::kOk;

TEST(ValidateBuffersTest, ChecksLifetimes) {
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, 1)), kOk);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}, {1, 2}, {5, 9}}, 1)), kOk);
  EXPECT_EQ(CodeOf(MakeBuffer(std::vector<Interval>{}, 1)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{2, 2}}, 1)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{2, 1}}, 1)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{-1, 1}}, 1)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{4, 5}, {0, 1}}, 1)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 3}, {2, 5}}, 1)), kWrongArgument);
}

TEST(ValidateBuffersTest, ChecksSizesAndAlignments) {
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, 0)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, -8)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, 1, 512)), kOk);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, 1, 0)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, 1, -2)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, 1, 96)), kWrongArgument);
}

TEST(ValidateBuffersTest, ChecksFixedOffsets) {
  EXPECT_EQ(CodeOf(MakeFixed({0, 1}, 1, 0, 256)), kOk);
  EXPECT_EQ(CodeOf(MakeFixed({0, 1}, 1, 512, 256)), kOk);
  EXPECT_EQ(CodeOf(MakeFixed({0, 1}, 1, -256, 256)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeFixed({0, 1}, 1, 128, 256)), kWrongArgument);
}

TEST(ValidateBuffersTest, ChecksThatSumsDoNotOverflow) {
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, INT64_MAX)), kOk);
  EXPECT_EQ(CodeOf(MakeBuffer({{0, 1}}, INT64_MAX, 2)), kWrongArgument);
  EXPECT_EQ(CodeOf(MakeFixed({0, 1}, INT64_MAX - 6, 6)), kOk);
  EXPECT_EQ(CodeOf(MakeFixed({0, 1}, INT64_MAX - 6, 7)), kWrongArgument);
  const std::array halves = {MakeBuffer({{0, 1}}, INT64_MAX / 2),
                             MakeBuffer({{0, 1}}, INT64_MAX / 2 + 2)};
  EXPECT_THAT(ValidateBuffers(halves), StatusIs(kWrongArgument));
}

Buffer MakeInPlace(size_t operand, Interval lifetime, int64_t bytes, int64_t alignment = 1) {
  Buffer buffer = MakeBuffer({lifetime}, bytes, alignment);
  buffer.in_place_with = operand;
  return buffer;
}

TEST(ValidateBuffersTest, ChecksThatGroupsHaveABeginning) {
  const Buffer plain = MakeBuffer({{0, 1}}, 1);
  EXPECT_OK(ValidateBuffers(std::array{MakeInPlace(1, {0, 1}, 1), plain}));
  EXPECT_OK(
      ValidateBuffers(std::array{plain, MakeInPlace(0, {0, 1}, 1), MakeInPlace(1, {0, 1}, 1)}));
  EXPECT_THAT(ValidateBuffers(std::array{plain, MakeInPlace(2, {0, 1}, 1)}),
              StatusIs(kWrongArgument));
  EXPECT_THAT(ValidateBuffers(std::array{MakeInPlace(0, {0, 1}, 1), plain}),
              StatusIs(kWrongArgument));
  EXPECT_THAT(ValidateBuffers(std::array{MakeInPlace(1, {0, 1}, 1), MakeInPlace(0, {0, 1}, 1)}),
              StatusIs(kWrongArgument));
}

TEST(ValidateBuffersTest, ChecksThatAGroupIsFixedAtOneOffsetAlignedForAll) {
  std::array buffers = {MakeFixed({0, 1}, 1, 32), MakeInPlace(0, {0, 1}, 1, 32)};
  EXPECT_OK(ValidateBuffers(buffers));
  buffers[1].fixed_offset = 32;
  EXPECT_OK(ValidateBuffers(buffers));
  buffers[1].fixed_offset = 64;
  EXPECT_THAT(ValidateBuffers(buffers), StatusIs(kWrongArgument));
  buffers[1].fixed_offset.reset();
  buffers[1].alignment = 64;
  EXPECT_THAT(ValidateBuffers(buffers), StatusIs(kWrongArgument));
}

TEST(ValidateBuffersTest, NamesTheFirstOffenderByIndex) {
  const std::array buffers = {MakeBuffer({{0, 1}}, 1), MakeBuffer({{0, 1}}, 0),
                              MakeBuffer(std::vector<Interval>{}, 0)};
  EXPECT_THAT(MessageOf(ValidateBuffers(buffers)), HasSubstr("buffer 1 "));
}

TEST(MaxLiveBytesTest, IsZeroWithoutBuffers) {
  EXPECT_EQ(MaxLiveBytes({}), 0);
}

TEST(MaxLiveBytesTest, CountsSizesAsTheyAre) {
  const std::array buffers = {MakeBuffer({{0, 1}}, 3, 256), MakeBuffer({{0, 1}}, 4, 256)};
  EXPECT_EQ(MaxLiveBytes(buffers), 7);
}

// The picture in plan.h: a below b and d's left half, c below d.
class PlanTest : public testing::Test {
 protected:
  const std::vector<Buffer> buffers_ = {MakeBuffer({{0, 5}}, 4), MakeBuffer({{0, 3}}, 6),
                                        MakeBuffer({{5, 9}}, 4), MakeBuffer({{4, 9}}, 6)};
};

TEST_F(PlanTest, AcceptsARightPlan) {
  EXPECT_OK(ValidatePlan(buffers_, MakePlan({0, 4, 0, 4}, 10)));
  EXPECT_OK(ValidatePlan({}, Plan()));
}

TEST_F(PlanTest, RejectsMalformedBuffers) {
  EXPECT_THAT(ValidatePlan(std::array{MakeBuffer(std::vector<Interval>{}, 1)}, MakePlan({0}, 1)),
              StatusIs(kWrongArgument));
}

TEST_F(PlanTest, RejectsAnotherNumberOfOffsets) {
  EXPECT_THAT(ValidatePlan(buffers_, MakePlan({0, 4, 0}, 10)), StatusIs(kWrongArgument));
  EXPECT_THAT(ValidatePlan(buffers_, MakePlan({0, 4, 0, 4, 0}, 10)), StatusIs(kWrongArgument));
}

TEST_F(PlanTest, RejectsANegativeOffset) {
  EXPECT_THAT(ValidatePlan(buffers_, MakePlan({0, 4, -1, 4}, 10)), StatusIs(kWrongArgument));
}

TEST_F(PlanTest, RejectsAnOffsetWhoseEndOverflows) {
  const std::array buffers = {MakeBuffer({{0, 1}}, 2)};
  EXPECT_THAT(ValidatePlan(buffers, MakePlan({INT64_MAX - 1}, INT64_MAX)),
              StatusIs(kWrongArgument));
}

TEST_F(PlanTest, RejectsAMisalignedOffset) {
  const std::array buffers = {MakeBuffer({{0, 1}}, 1, 256)};
  EXPECT_OK(ValidatePlan(buffers, MakePlan({256}, 257)));
  EXPECT_THAT(ValidatePlan(buffers, MakePlan({128}, 129)), StatusIs(kWrongArgument));
}

TEST_F(PlanTest, RejectsAFixedBufferElsewhere) {
  const std::array buffers = {MakeFixed({0, 1}, 4, 8)};
  EXPECT_OK(ValidatePlan(buffers, MakePlan({8}, 12)));
  EXPECT_THAT(ValidatePlan(buffers, MakePlan({0}, 4)), StatusIs(kWrongArgument));
}

TEST_F(PlanTest, RejectsAnInexactHeight) {
  EXPECT_THAT(ValidatePlan(buffers_, MakePlan({0, 4, 0, 4}, 9)), StatusIs(kWrongArgument));
  EXPECT_THAT(ValidatePlan(buffers_, MakePlan({0, 4, 0, 4}, 11)), StatusIs(kWrongArgument));
  EXPECT_THAT(ValidatePlan({}, MakePlan({}, 1)), StatusIs(kWrongArgument));
}

TEST_F(PlanTest, RejectsOverlapInTimeAndSpaceNamingBoth) {
  EXPECT_THAT(ValidatePlan(buffers_, MakePlan({0, 4, 0, 3}, 10)),
              StatusIs(kWrongArgument, HasSubstr("buffers 0 and 3 ")));
}

// 0 forks into 1 -> 2 and 3 -> 4, which join in 5.
StepOrder MakeFork() {
  return {.step_count = 6, .edges = {{0, 1}, {1, 2}, {0, 3}, {3, 4}, {2, 5}, {4, 5}}};
}

TEST(OrderedPlanTest, RejectsSharingBetweenBranchesNamingBoth) {
  const StepOrder fork = MakeFork();
  const std::array buffers = {MakeBuffer({{1, 2}}, 4), MakeBuffer({{4, 5}}, 4)};
  EXPECT_OK(ValidatePlan(buffers, MakePlan({0, 0}, 4)));
  EXPECT_THAT(ValidatePlan(buffers, MakePlan({0, 0}, 4), &fork),
              StatusIs(kWrongArgument, HasSubstr("buffers 0 and 1 ")));
  EXPECT_OK(ValidatePlan(buffers, MakePlan({0, 4}, 8), &fork));
}

TEST(OrderedPlanTest, FollowsEdgesAgainstTheNumbering) {
  const StepOrder reversed{.step_count = 2, .edges = {{1, 0}}};
  const std::array buffers = {MakeBuffer({{0, 1}}, 4), MakeBuffer({{1, 2}}, 4)};
  EXPECT_OK(ValidatePlan(buffers, MakePlan({0, 0}, 4), &reversed));
}

TEST(OrderedPlanTest, RejectsACycle) {
  const std::array buffers = {MakeBuffer({{0, 1}}, 4)};
  const StepOrder cycle{.step_count = 3, .edges = {{0, 1}, {1, 2}, {2, 1}}};
  const StepOrder loop{.step_count = 1, .edges = {{0, 0}}};
  EXPECT_THAT(ValidatePlan(buffers, MakePlan({0}, 4), &cycle), StatusIs(kWrongArgument));
  EXPECT_THAT(ValidatePlan(buffers, MakePlan({0}, 4), &loop), StatusIs(kWrongArgument));
  EXPECT_THAT(ValidatePlan({}, Plan(), &cycle), StatusIs(kWrongArgument));
}

TEST(OrderedPlanTest, RejectsAStepOutOfRange) {
  const std::array buffers = {MakeBuffer({{0, 2}}, 4)};
  const StepOrder two{.step_count = 2, .edges = {}};
  EXPECT_OK(ValidatePlan(buffers, MakePlan({0}, 4), &two));
  const StepOrder short_order{.step_count = 1, .edges = {}};
  EXPECT_THAT(ValidatePlan(buffers, MakePlan({0}, 4), &short_order), StatusIs(kWrongArgument));
  const StepOrder negative{.step_count = -1, .edges = {}};
  EXPECT_THAT(ValidatePlan({}, Plan(), &negative), StatusIs(kWrongArgument));
  for (const std::pair<int64_t, int64_t> edge :
       {std::pair{0, 2}, std::pair{2, 0}, std::pair{-1, 1}, std::pair{1, -1}}) {
    const StepOrder order{.step_count = 2, .edges = {edge}};
    EXPECT_THAT(ValidatePlan(buffers, MakePlan({0}, 4), &order), StatusIs(kWrongArgument));
  }
}

// Random cases, small enough to check every pair against the definition.
class RandomPlanTest : public testing::Test {
 protected:
  static constexpr int kCases = 3000;
  static constexpr int64_t kSteps = 7;

  int64_t Draw(int64_t lower, int64_t upper) {  // In [lower, upper).
    return lower + static_cast<int64_t>(random_() % static_cast<uint64_t>(upper - lower));
  }

  std::vector<Buffer> DrawBuffers() {
    std::vector<Buffer> buffers;
    for (int64_t count = Draw(1, 6); count > 0; --count) {
      std::vector<Interval> lifetime;
      for (int64_t lower = Draw(0, kSteps); lower < kSteps; lower += Draw(0, kSteps)) {
        const int64_t upper = Draw(lower, kSteps) + 1;
        lifetime.push_back({lower, upper});
        lower = upper;
      }
      buffers.push_back(MakeBuffer(lifetime, Draw(1, 5)));
      if (buffers.size() > 1 && Draw(0, 8) == 0)
        buffers.back().in_place_with = static_cast<size_t>(Draw(0, std::ssize(buffers) - 1));
    }
    return buffers;
  }

  Plan DrawPlan(std::span<const Buffer> buffers) {
    Plan plan;
    for (const Buffer& buffer : buffers) {
      // A result that is in place elsewhere is wrong; mostly it is not.
      const bool with = buffer.in_place_with && Draw(0, 8) > 0;
      plan.offsets.push_back(with ? plan.offsets[*buffer.in_place_with] : Draw(0, 10));
      plan.height = std::max(plan.height, plan.offsets.back() + buffer.bytes);
    }
    return plan;
  }

  // Edges lead to higher steps only.
  StepOrder DrawOrder(int64_t percent) {
    StepOrder order{.step_count = kSteps, .edges = {}};
    for (int64_t from = 0; from < kSteps; ++from)
      for (int64_t to = from + 1; to < kSteps; ++to)
        if (Draw(0, 100) < percent) order.edges.emplace_back(from, to);
    return order;
  }

  using Reach = std::array<std::array<bool, kSteps>, kSteps>;

  static Reach ReachOf(const StepOrder& order) {
    Reach reach{};
    for (const auto& [from, to] : order.edges)
      reach[static_cast<size_t>(from)][static_cast<size_t>(to)] = true;
    for (size_t via = 0; via < kSteps; ++via)
      for (size_t from = 0; from < kSteps; ++from)
        for (size_t to = 0; to < kSteps; ++to)
          reach[from][to] = reach[from][to] || (reach[from][via] && reach[via][to]);
    return reach;
  }

  static std::vector<size_t> StepsOf(const Buffer& buffer) {
    std::vector<size_t> steps;
    for (const Interval& interval : buffer.lifetime)
      for (int64_t step = interval.lower; step < interval.upper; ++step)
        steps.push_back(static_cast<size_t>(step));
    return steps;
  }

  // True if `holds` for each pair of a step of `a` and a step of `b`.
  template <typename Predicate>
  static bool ForAllSteps(const Buffer& a, const Buffer& b, Predicate holds) {
    for (const size_t x : StepsOf(a))
      for (const size_t y : StepsOf(b))
        if (!holds(x, y)) return false;
    return true;
  }

  // True if groups begin together and no two buffers of different groups that share bytes fail
  // `may_share`.
  template <typename Predicate>
  static bool IsRight(std::span<const Buffer> buffers, const Plan& plan, Predicate may_share) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const bool share = plan.offsets[i] < plan.offsets[j] + buffers[j].bytes &&
                           plan.offsets[j] < plan.offsets[i] + buffers[i].bytes;
        const bool group = RootOf(buffers, i) == RootOf(buffers, j);
        if (group && plan.offsets[i] != plan.offsets[j]) return false;
        if (share && !group && !may_share(buffers[i], buffers[j])) return false;
      }
    }
    return true;
  }

  static bool IsRightUnder(std::span<const Buffer> buffers, const Plan& plan, const Reach& reach) {
    return IsRight(buffers, plan, [&reach](const Buffer& a, const Buffer& b) {
      return ForAllSteps(a, b, [&reach](size_t x, size_t y) { return reach[x][y]; }) ||
             ForAllSteps(a, b, [&reach](size_t x, size_t y) { return reach[y][x]; });
    });
  }

  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << TestSeed()};
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(RandomPlanTest, SequentialAnswersFollowTheDefinition) {
  int right = 0;
  for (int i = 0; i < kCases; ++i) {
    const std::vector<Buffer> buffers = DrawBuffers();
    const Plan plan = DrawPlan(buffers);
    const bool expected = IsRight(buffers, plan, [](const Buffer& a, const Buffer& b) {
      return ForAllSteps(a, b, [](size_t x, size_t y) { return x != y; });
    });
    ASSERT_EQ(ValidatePlan(buffers, plan).ok(), expected) << "case " << i;
    right += expected ? 1 : 0;
  }
  EXPECT_GT(right, kCases / 20);
  EXPECT_LT(right, kCases * 19 / 20);
}

TEST_F(RandomPlanTest, OrderedAnswersFollowTheDefinition) {
  int right = 0;
  for (int i = 0; i < kCases; ++i) {
    const std::vector<Buffer> buffers = DrawBuffers();
    const Plan plan = DrawPlan(buffers);
    const StepOrder order = DrawOrder(60);
    const bool expected = IsRightUnder(buffers, plan, ReachOf(order));
    ASSERT_EQ(ValidatePlan(buffers, plan, &order).ok(), expected) << "case " << i;
    right += expected ? 1 : 0;
  }
  EXPECT_GT(right, kCases / 20);
  EXPECT_LT(right, kCases * 19 / 20);
}

TEST_F(RandomPlanTest, MaxLiveBytesIsTheLargestSumOverSteps) {
  for (int i = 0; i < kCases; ++i) {
    const std::vector<Buffer> buffers = DrawBuffers();
    std::array<int64_t, kSteps> live{};
    for (size_t step = 0; step < kSteps; ++step) {
      std::map<size_t, int64_t> groups;  // The largest live member of each.
      for (size_t j = 0; j < buffers.size(); ++j) {
        const std::vector<size_t> steps = StepsOf(buffers[j]);
        if (std::find(steps.begin(), steps.end(), step) == steps.end()) continue;
        int64_t& largest = groups[RootOf(buffers, j)];
        largest = std::max(largest, buffers[j].bytes);
      }
      for (const auto& [root, bytes] : groups)
        live[step] += bytes;
    }
    ASSERT_EQ(MaxLiveBytes(buffers), *std::max_element(live.begin(), live.end())) << "case " << i;
  }
}

TEST_F(RandomPlanTest, ExtensionsEndAtTheFirstStepFromWhichAllComeAfter) {
  for (int i = 0; i < kCases; ++i) {
    const std::vector<Buffer> before = DrawBuffers();
    const StepOrder order = DrawOrder(Draw(0, 101));
    const Reach reach = ReachOf(order);
    std::vector<Buffer> after = before;
    ASSERT_OK(ExtendToJoins(order, after));
    for (size_t j = 0; j < before.size(); ++j) {
      const int64_t lower = before[j].lifetime.front().lower;
      const auto all_after = [&](int64_t from) {
        for (int64_t x = lower; x < before[j].lifetime.back().upper; ++x)
          for (int64_t y = from; y < kSteps; ++y)
            if (!reach[static_cast<size_t>(x)][static_cast<size_t>(y)]) return false;
        return true;
      };
      int64_t join = before[j].lifetime.back().upper;
      while (!all_after(join))
        ++join;
      ASSERT_EQ(after[j].lifetime, (absl::InlinedVector<Interval, 1>{{lower, join}}))
          << "case " << i << ", buffer " << j;
    }
  }
}

TEST_F(RandomPlanTest, PlansForExtendedLifetimesAreRightUnderTheOrder) {
  int right = 0;
  for (int i = 0; i < kCases; ++i) {
    const std::vector<Buffer> buffers = DrawBuffers();
    const Plan plan = DrawPlan(buffers);
    const StepOrder order = DrawOrder(85);
    std::vector<Buffer> extended = buffers;
    ASSERT_OK(ExtendToJoins(order, extended));
    if (!ValidatePlan(extended, plan).ok()) continue;
    ASSERT_OK(ValidatePlan(buffers, plan, &order)) << "case " << i;
    right += 1;
  }
  EXPECT_GT(right, kCases / 20);
}

TEST(ExtendToJoinsTest, KeepsTheBuffersOnAnError) {
  const std::vector<std::pair<StepOrder, Buffer>> cases = {
      {{.step_count = 2, .edges = {{1, 0}}}, MakeBuffer({{0, 1}}, 4)},
      {{.step_count = 2, .edges = {{0, 0}}}, MakeBuffer({{0, 1}}, 4)},
      {{.step_count = 2, .edges = {{0, 2}}}, MakeBuffer({{0, 1}}, 4)},
      {{.step_count = 2, .edges = {}}, MakeBuffer({{0, 3}}, 4)},
      {{.step_count = 2, .edges = {}}, MakeBuffer({{0, 1}}, 0)},
  };
  for (const auto& [order, offender] : cases) {
    std::vector<Buffer> buffers = {MakeBuffer({{0, 1}}, 4), offender};
    EXPECT_THAT(ExtendToJoins(order, buffers), StatusIs(kWrongArgument));
    EXPECT_EQ(buffers[0].lifetime[0], (Interval{0, 1}));
  }
}

}  // namespace
}  // namespace coppice
