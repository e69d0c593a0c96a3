// Goal: every tight instance can be planned within its height, and is hard for a reason: it fills
// the window. Method: many seeds of each kind, the plan that comes with it judged by the validator.

#include "tools/plan/tight_instances.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

constexpr uint64_t kSeeds = 40;

class TightInstanceTest : public testing::TestWithParam<TightKind> {};

TEST_P(TightInstanceTest, HasAPlanWithinItsHeight) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TightInstance instance = DrawTightInstance(GetParam(), seed);
    EXPECT_OK(ValidateBuffers(instance.buffers)) << seed;
    EXPECT_OK(ValidatePlan(instance.buffers, instance.plan)) << seed;
    EXPECT_LE(instance.plan.height, kTightHeight) << seed;
  }
}

TEST_P(TightInstanceTest, Has150To450Buffers) {
  std::set<size_t> counts;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed)
    counts.insert(DrawTightInstance(GetParam(), seed).buffers.size());
  EXPECT_GE(*counts.begin(), 150U);
  EXPECT_LE(*counts.rbegin(), 450U);
  EXPECT_GT(counts.size(), kSeeds / 2);
}

TEST_P(TightInstanceTest, FillsMostOfTheWindow) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TightInstance instance = DrawTightInstance(GetParam(), seed);
    EXPECT_GE(MaxLiveBytes(instance.buffers), kTightHeight * 9 / 10) << seed;
  }
}

TEST_P(TightInstanceTest, IsAlwaysTheSameForASeed) {
  const TightInstance instance = DrawTightInstance(GetParam(), 7);
  EXPECT_EQ(DrawTightInstance(GetParam(), 7).plan.offsets, instance.plan.offsets);
  EXPECT_NE(DrawTightInstance(GetParam(), 8).plan.offsets, instance.plan.offsets);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         TightInstanceTest,
                         testing::ValuesIn(kTightKinds),
                         [](const auto& kind) { return std::string(NameOf(kind.param)); });

TEST(BenchPlanTest, SaysPerKindHowManyWereSolvedAndWhichWereNot) {
  const CommandOutcome outcome = RunCoppice({"bench", "plan", "--repetitions", "1", "--json"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  const nlohmann::json report = JsonOf(outcome);
  std::vector<std::string> kinds;
  for (const nlohmann::json& one : report["kinds"]) {
    kinds.push_back(one["kind"]);
    EXPECT_EQ(one["instances"], 1);
    EXPECT_EQ(one["solved"].get<int64_t>() + std::ssize(one["unsolved_seeds"]), 1);
    EXPECT_LE(one["solved_within_1s"], one["solved"]);
    EXPECT_EQ(one["ms_median"], one["ms_max"]);
  }
  EXPECT_THAT(kinds, testing::ElementsAre("cut", "thinned", "woven", "mixed", "even"));
  EXPECT_GT(report["reference_ms"], 0);
}

}  // namespace
}  // namespace coppice
