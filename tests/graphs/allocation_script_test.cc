// Goal: every sentence of graphs/node/allocation_script.h and plan_around.h. Method: scripts
// written by hand.

#include "graphs/node/allocation_script.h"

#include "graphs/node/plan_around.h"
#include "tests/graphs/lane_scene.h"

namespace coppice::internal {
namespace {

using Kind = ScriptEvent::Kind;
constexpr int64_t kUnit = kBufferAlignment;

// Steps:  0 allocate A   1 output B   2 break   3 free A   4 allocate C, never freed
AllocationScript Script() {
  return {.events = {{.kind = Kind::kAllocate, .buffer = 0, .bytes = 2 * kUnit},
                     {.kind = Kind::kOutput, .buffer = 1, .output = 0, .bytes = kUnit},
                     {.kind = Kind::kBreak},
                     {.kind = Kind::kFree, .buffer = 0},
                     {.kind = Kind::kAllocate, .buffer = 2, .bytes = 2 * kUnit}},
          .buffer_count = 3};
}

std::vector<Interval> LifeOf(const Buffer& buffer) {
  return {buffer.lifetime.begin(), buffer.lifetime.end()};
}

TEST(AllocationScriptTest, BuffersLiveFromTheirAllocationToTheirRelease) {
  const std::vector<Buffer> buffers = BuffersOf(Script());
  ASSERT_EQ(buffers.size(), 3U);
  EXPECT_EQ(LifeOf(buffers[0]), (std::vector<Interval>{{0, 3}}));
  EXPECT_EQ(buffers[0].bytes, 2 * kUnit);
}

TEST(AllocationScriptTest, OutputsAndWhatIsNotFreedLiveToTheEnd) {
  const std::vector<Buffer> buffers = BuffersOf(Script());
  EXPECT_EQ(LifeOf(buffers[1]), (std::vector<Interval>{{1, 6}}));
  EXPECT_EQ(LifeOf(buffers[2]), (std::vector<Interval>{{4, 6}}));
}

TEST(AllocationScriptTest, BuffersAreCalledAsTheyWereAskedForAndOutputsByTheirName) {
  AllocationScript script = Script();
  script.events[0].label = "scores";
  const ProgramSpec spec{.outputs = {{.name = "y"}}};
  EXPECT_EQ(LabelsOf(script, spec), (std::vector<std::string>{"scores", "y", ""}));
  EXPECT_TRUE(LabelsOf({}, spec).empty());
}

TEST(AllocationScriptTest, DonationsAreWhatInputsHaveOfTheirRegions) {
  const Program program = ProgramOf(RowsSpec());
  InputLayout layout;
  const int64_t dims[] = {60};  // Of a bucket of 128: the other unit is padding.
  layout.inputs = {Tensor::Dense(0, DType::kFloat32, dims)};
  const Region bucket{.offset = 2 * kUnit, .bytes = 2 * kUnit};
  const auto donations = [&](int64_t in_place, const Region& region) {
    return DonationsOf(Script(), Script(), program, layout,
                       {.in_place = {in_place}, .donated = {region}});
  };
  const std::vector<Donation> first = donations(2 * kUnit, bucket);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].region, (Region{.offset = 2 * kUnit, .bytes = kUnit}));
  EXPECT_EQ(first[0].until, 6);
  const std::vector<Donation> amid = donations(2 * kUnit + 64, bucket);
  ASSERT_EQ(amid.size(), 1U);
  EXPECT_EQ(amid[0].region, bucket) << "whole units";
  EXPECT_TRUE(donations(0, bucket).empty()) << "no input has any of it";
  EXPECT_TRUE(donations(-1, bucket).empty()) << "the input is staged";
}

TEST(AllocationScriptTest, EmptyScriptHasNoBuffers) {
  EXPECT_TRUE(BuffersOf({}).empty());
}

TEST(AllocationScriptTest, AliasOfWhatTheRunStagesIsAnOutputAndAnyOtherIsNothing) {
  AllocationScript warmed = Script();
  const int buffers = warmed.buffer_count;
  for (int input = 0; input < 3; ++input) {
    warmed.events.push_back({.kind = Kind::kAlias,
                             .buffer = warmed.buffer_count++,
                             .output = input + 5,
                             .input = input,
                             .bytes = kUnit});
  }
  InputLayout layout;
  EXPECT_EQ(ScriptOf(warmed, layout).buffer_count, buffers);
  layout.sources = {{.input = 2}, {.bound = true, .input = 0}};
  const AllocationScript script = ScriptOf(warmed, layout);
  EXPECT_EQ(script.buffer_count, buffers + 2);
  const ScriptEvent& last = script.events.back();
  EXPECT_EQ(last.kind, Kind::kOutput);
  EXPECT_EQ(last.output, 7);
  EXPECT_EQ(last.buffer, buffers + 1);
  EXPECT_EQ(BuffersOf(script).size(), static_cast<size_t>(buffers + 2));
}

TEST(PlanAroundTest, LiveRegionsStayWhereTheyAreFromTheFirstStepToTheLast) {
  std::vector<Buffer> buffers = BuffersOf(Script());
  AppendLive({{.offset = kUnit, .bytes = 3 * kUnit}}, buffers);
  ASSERT_EQ(buffers.size(), 4U);
  EXPECT_EQ(LifeOf(buffers[3]), (std::vector<Interval>{{0, 6}}));
  EXPECT_EQ(buffers[3].fixed_offset, kUnit);
  EXPECT_EQ(buffers[3].bytes, 3 * kUnit);
}

TEST(PlanAroundTest, PlansAroundWhatIsLiveWhichIsBehindInThePlan) {
  const std::vector<Region> live = {{.offset = 0, .bytes = kUnit},
                                    {.offset = 4 * kUnit, .bytes = kUnit}};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult planned, PlanAround(BuffersOf(Script()), live));
  ASSERT_EQ(planned.plan.offsets.size(), 5U);
  EXPECT_EQ(planned.plan.offsets[3], 0);
  EXPECT_EQ(planned.plan.offsets[4], 4 * kUnit);
  std::vector<Buffer> buffers = BuffersOf(Script());
  AppendLive(live, buffers);
  EXPECT_OK(ValidatePlan(buffers, planned.plan));
}

TEST(PlanAroundTest, OutputsGoToTheBottom) {
  const AllocationScript script{
      .events = {{.kind = Kind::kAllocate, .buffer = 0, .bytes = kUnit},
                 {.kind = Kind::kOutput, .buffer = 1, .output = 0, .bytes = kUnit},
                 {.kind = Kind::kFree, .buffer = 0}},
      .buffer_count = 2};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult planned, PlanAround(BuffersOf(script), {}));
  EXPECT_EQ(planned.plan.offsets, (std::vector<int64_t>{kUnit, 0}));
}

TEST(PlanAroundTest, PartOfAChainIsTakenAsItIs) {
  const std::vector<Region> live = {{.offset = 0, .bytes = kUnit}};
  const Plan part{.offsets = {4 * kUnit, kUnit, 2 * kUnit}, .height = 9 * kUnit};
  COPPICE_ASSERT_OK_AND_ASSIGN(const PlannerResult planned,
                               PlanOfChain(BuffersOf(Script()), live, part));
  EXPECT_EQ(planned.plan.offsets, (std::vector<int64_t>{4 * kUnit, kUnit, 2 * kUnit, 0}));
  EXPECT_EQ(planned.plan.height, 6 * kUnit);
}

TEST(PlanAroundTest, PartOfOtherBuffersIsRefused) {
  for (const std::vector<int64_t>& offsets :
       {std::vector<int64_t>{4 * kUnit, kUnit}, {4 * kUnit, kUnit, 2 * kUnit, 3 * kUnit}}) {
    EXPECT_THAT(PlanOfChain(BuffersOf(Script()), {}, {.offsets = offsets, .height = 9 * kUnit}),
                StatusIs(kWrongArgument));
  }
}

TEST(PlanAroundTest, PartThatMeetsWhatIsLiveIsRefused) {
  const Plan part{.offsets = {4 * kUnit, 0, 2 * kUnit}, .height = 6 * kUnit};
  EXPECT_THAT(PlanOfChain(BuffersOf(Script()), {{.offset = 0, .bytes = kUnit}}, part),
              StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice::internal
