// Goal: simulated steps have the sizes that a scheduler makes of requests, at the load asked for.
// Method: requests few enough to schedule by hand; properties of many.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tools/tune/step_simulator.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::Pair;

bool GoOn(int64_t /*done*/, int64_t /*total*/) {
  return true;
}

// Size and whether it is a decode step, of the first steps.
std::vector<std::pair<int64_t, bool>> FirstSteps(const std::vector<TimedRequest>& requests,
                                                 const SimulatorOptions& options,
                                                 size_t count) {
  const SimulatedSteps simulated = SimulateSteps(requests, options, GoOn);
  std::vector<std::pair<int64_t, bool>> steps;
  for (const SimulatedStep& step : simulated.steps)
    if (steps.size() < count) steps.emplace_back(step.size, step.decode);
  return steps;
}

std::vector<TimedRequest> Drawn(int64_t count, bool timed) {
  std::mt19937_64 random(5);
  std::vector<TimedRequest> requests;
  for (int64_t i = 0; i < count; ++i)
    requests.push_back({.arrival_seconds = timed ? static_cast<double>(i) : 0,
                        .input_tokens = 1 + static_cast<int64_t>(random() % 2000),
                        .output_tokens = 1 + static_cast<int64_t>(random() % 300)});
  return requests;
}

TEST(StepSimulatorTest, APromptIsOneMixedStepAndEachFurtherTokenADecodeStep) {
  EXPECT_THAT(
      FirstSteps({{0, 100, 4}}, {.loads = {0.01}, .decode_steps = 6}, 5),
      ElementsAre(Pair(100, false), Pair(1, true), Pair(1, true), Pair(1, true), Pair(100, false)));
}

TEST(StepSimulatorTest, ALongPromptIsPrefilledInChunksOfTheBudget) {
  EXPECT_THAT(
      FirstSteps({{0, 250, 2}}, {.budget_tokens = 100, .loads = {0.01}, .decode_steps = 2}, 4),
      ElementsAre(Pair(100, false), Pair(100, false), Pair(50, false), Pair(1, true)));
}

TEST(StepSimulatorTest, RunningRequestsDecodeBesideThePromptsOfOthers) {
  // The second arrives while the first decodes, and its chunks leave room for the first's token.
  const SimulatorOptions options = {.budget_tokens = 100,
                                    .model = {.overhead_s = 1, .weights_s = 0},
                                    .loads = {1},
                                    .decode_steps = 4};
  const std::vector<TimedRequest> requests = {{0, 50, 20}, {4, 150, 20}, {1000, 1, 1}};
  EXPECT_THAT(FirstSteps(requests, options, 4),
              ElementsAre(Pair(50, false), Pair(100, false), Pair(52, false), Pair(2, true)));
}

TEST(StepSimulatorTest, NoStepExceedsTheBudgetNorTheSequences) {
  for (const bool timed : {false, true}) {
    const SimulatorOptions options = {
        .budget_tokens = 512, .sequences_max = 20, .loads = {3}, .decode_steps = 500};
    const SimulatedSteps simulated = SimulateSteps(Drawn(300, timed), options, GoOn);
    int64_t largest = 0;
    for (const SimulatedStep& step : simulated.steps) {
      EXPECT_GE(step.size, 1);
      EXPECT_LE(step.size, step.decode ? 20 : 512);
      if (step.decode) largest = std::max(largest, step.size);
    }
    EXPECT_EQ(largest, 20);  // An overload fills it.
  }
}

TEST(StepSimulatorTest, AFullCacheMakesRequestsWait) {
  const SimulatorOptions options = {.kv_tokens = 5000, .loads = {2}, .decode_steps = 2000};
  const SimulatedSteps simulated = SimulateSteps(Drawn(200, false), options, GoOn);
  EXPECT_GT(simulated.preemptions, 0);
  EXPECT_GT(simulated.finished, 0);
}

TEST(StepSimulatorTest, ARequestLargerThanTheCacheRunsAlone) {
  const SimulatorOptions options = {.kv_tokens = 10, .loads = {1}, .decode_steps = 50};
  const SimulatedSteps simulated = SimulateSteps({{0, 40, 10}, {0, 40, 10}}, options, GoOn);
  EXPECT_GT(simulated.finished, 2);
  for (const SimulatedStep& step : simulated.steps)
    EXPECT_LE(step.size, step.decode ? 1 : 40);
}

TEST(StepSimulatorTest, BatchesGrowWithTheLoad) {
  double before = 0;
  for (const double load : {0.3, 0.7, 0.95}) {
    const SimulatorOptions options = {.loads = {load}, .decode_steps = 4000};
    double rows = 0;
    double steps = 0;
    for (const SimulatedStep& step : SimulateSteps(Drawn(400, false), options, GoOn).steps) {
      if (!step.decode) continue;
      rows += static_cast<double>(step.size);
      ++steps;
    }
    EXPECT_GT(rows / steps, 1.3 * before) << load;
    before = rows / steps;
  }
}

TEST(StepSimulatorTest, LoadsFollowOneAnotherWithTheirDecodeSteps) {
  const SimulatorOptions options = {.loads = {0.3, 0.9}, .decode_steps = 700};
  std::vector<int64_t> decode_steps(2);
  int32_t load = 0;
  double clock = 0;
  for (const SimulatedStep& step : SimulateSteps(Drawn(400, true), options, GoOn).steps) {
    EXPECT_GE(step.load, load);
    EXPECT_GE(step.start_s, clock);
    load = step.load;
    clock = step.start_s;
    if (step.decode) ++decode_steps[static_cast<size_t>(step.load)];
  }
  EXPECT_THAT(decode_steps, ElementsAre(700, 700));
}

TEST(StepSimulatorTest, WhereNothingDecodesALoadEndsAllTheSame) {
  const SimulatorOptions options = {.loads = {0.5}, .decode_steps = 20};
  const SimulatedSteps simulated = SimulateSteps({{0, 100, 1}}, options, GoOn);
  EXPECT_EQ(simulated.steps.size(), 200U);
}

TEST(StepSimulatorTest, WhereNothingTakesTimeThereIsNoStep) {
  SimulatorOptions options = {.model = {0, 0, 0, 0, 0}, .loads = {0.5}, .decode_steps = 20};
  SimulatedSteps simulated = SimulateSteps({{0, 100, 3}}, options, GoOn);
  EXPECT_EQ(simulated.steps.size(), 0U);
  EXPECT_TRUE(std::isinf(simulated.capacity));
  options.model.pair_s = 1;  // Decode steps still take none.
  EXPECT_GE(SimulateSteps({{0, 100, 3}}, options, GoOn).steps.size(), 20U);
}

TEST(StepSimulatorTest, EqualSeedsGiveEqualStepsAndOthersOthers) {
  const auto run = [](uint64_t seed) {
    const SimulatorOptions options = {.loads = {0.7}, .decode_steps = 2000, .seed = seed};
    std::vector<int64_t> sizes;
    for (const SimulatedStep& step : SimulateSteps(Drawn(100, false), options, GoOn).steps)
      sizes.push_back(step.size);
    return sizes;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(StepSimulatorTest, StopsWhenAskedTo) {
  const SimulatorOptions options = {.loads = {0.7}, .decode_steps = 1'000'000};
  const SimulatedSteps simulated = SimulateSteps(
      Drawn(100, false), options, [](int64_t done, int64_t /*total*/) { return done < 5000; });
  EXPECT_LT(simulated.steps.size(), 20'000U);
}

}  // namespace
}  // namespace coppice
