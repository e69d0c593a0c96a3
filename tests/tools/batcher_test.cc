// Goal: the steps are those of continuous batching, first come first served, on the virtual clock.
// Method: small traces by hand, and invariants over generated ones.

#include "tools/run/batcher.h"

#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coppice {
namespace {

using testing::ElementsAre;

constexpr StepCost kCost = {.step_seconds = 1, .row_seconds = 0.25};

std::vector<Step> StepsOf(const std::vector<Request>& requests, const Batcher::Options& options) {
  Batcher batcher(requests, options);
  std::vector<Step> steps;
  for (Step step; batcher.Next(step);)
    steps.push_back(step);
  return steps;
}

TEST(BatcherTest, PrefillsThenDecodesTheRestOfTheAnswer) {
  const auto steps =
      StepsOf({{.input_tokens = 4, .output_tokens = 3}}, {.slots = 2, .cost = kCost});
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_TRUE(steps[0].prefill);
  EXPECT_THAT(
      steps[0].rows,
      ElementsAre(StepRow{.request = 0, .slot = 0, .position = 0, .tokens = 4, .last = false}));
  EXPECT_FALSE(steps[1].prefill);
  EXPECT_THAT(steps[1].rows, ElementsAre(StepRow{.request = 0, .position = 4, .last = false}));
  EXPECT_THAT(steps[2].rows, ElementsAre(StepRow{.request = 0, .position = 5, .last = true}));
}

TEST(BatcherTest, AnswerOfOneTokenEndsWithThePrefillAndFreesTheSlot) {
  const auto steps =
      StepsOf({{.input_tokens = 2, .output_tokens = 1}, {.input_tokens = 2, .output_tokens = 1}},
              {.slots = 1, .cost = kCost});
  ASSERT_EQ(steps.size(), 2U);
  for (const Step& step : steps) {
    EXPECT_TRUE(step.prefill);
    EXPECT_TRUE(step.rows.front().last);
    EXPECT_EQ(step.rows.front().slot, 0);
  }
}

TEST(BatcherTest, ArrivedRequestIsPrefilledBeforeTheBatchDecodesOn) {
  // Request 1 arrives during the first prefill, which ends at 2 s.
  const auto steps = StepsOf({{.arrival_seconds = 0, .input_tokens = 4, .output_tokens = 3},
                              {.arrival_seconds = 1.5, .input_tokens = 4, .output_tokens = 2}},
                             {.slots = 2, .cost = kCost});
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_TRUE(steps[1].prefill);
  EXPECT_EQ(steps[2].rows.size(), 2U);
  EXPECT_EQ(steps[3].rows.size(), 1U);
}

TEST(BatcherTest, RequestWaitsUntilItArrives) {
  // At 2 s request 1, due at 2.1 s, is not there: the batch decodes first.
  const auto steps = StepsOf({{.arrival_seconds = 0, .input_tokens = 4, .output_tokens = 2},
                              {.arrival_seconds = 2.1, .input_tokens = 4, .output_tokens = 1}},
                             {.slots = 2, .cost = kCost});
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_FALSE(steps[1].prefill);
  EXPECT_TRUE(steps[2].prefill);
}

TEST(BatcherTest, RequestWaitsForAFreeSlot) {
  const auto steps =
      StepsOf({{.input_tokens = 1, .output_tokens = 3}, {.input_tokens = 1, .output_tokens = 1}},
              {.slots = 1, .cost = kCost});
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_FALSE(steps[1].prefill);
  EXPECT_FALSE(steps[2].prefill);
  EXPECT_EQ(steps[3].rows.front().request, 1);
}

TEST(BatcherTest, StepsCostAPlusBTimesRowsAndIdleTimeIsSkipped) {
  const std::vector<Request> requests = {
      {.arrival_seconds = 0, .input_tokens = 4, .output_tokens = 2},
      {.arrival_seconds = 100, .input_tokens = 8, .output_tokens = 1}};
  const auto steps = StepsOf(requests, {.slots = 2, .cost = kCost});
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].start_seconds, 0);
  EXPECT_EQ(steps[1].start_seconds, 2);    // 1 + 0.25 x 4 tokens.
  EXPECT_EQ(steps[2].start_seconds, 100);  // Nothing ran from 3.25 s on.
  Batcher batcher(requests, {.slots = 2, .cost = kCost});
  for (Step step; batcher.Next(step);) {
  }
  EXPECT_EQ(batcher.clock_seconds(), 103);
}

TEST(BatcherTest, LowestFreeSlotIsTakenFirst) {
  const auto steps = StepsOf({{.input_tokens = 1, .output_tokens = 2},
                              {.input_tokens = 1, .output_tokens = 4},
                              {.arrival_seconds = 3.5, .input_tokens = 1, .output_tokens = 1}},
                             {.slots = 3, .cost = kCost});
  ASSERT_TRUE(steps[3].prefill);
  EXPECT_EQ(steps[3].rows.front().slot, 0);  // Request 0 left with the decode step before.
}

class BatcherInvariantTest : public testing::TestWithParam<uint64_t> {};

TEST_P(BatcherInvariantTest, HoldOverAGeneratedTrace) {
  constexpr int64_t kSlots = 5;
  std::vector<Request> requests = GenerateRequests(TraceKind::kMix, 200, GetParam());
  FitRequests(16, 512, requests);
  std::map<int64_t, StepRow> last_row;  // By request.
  std::map<int64_t, int64_t> answered;  // By request: tokens predicted.
  std::set<int64_t> busy;
  int64_t next_prefill = 0;
  double clock = 0;
  for (const Step& step : StepsOf(requests, {.slots = kSlots, .cost = kCost})) {
    ASSERT_GE(step.start_seconds, clock);
    clock = step.start_seconds;
    ASSERT_LE(static_cast<int64_t>(step.rows.size()), kSlots);
    if (step.prefill) {
      ASSERT_EQ(step.rows.size(), 1U);
      ASSERT_EQ(step.rows[0].request, next_prefill++);  // First come, first served.
      ASSERT_LE(requests[static_cast<size_t>(step.rows[0].request)].arrival_seconds, clock);
      ASSERT_TRUE(busy.insert(step.rows[0].slot).second);
    } else {
      ASSERT_EQ(step.rows.size(), busy.size());  // The whole running batch.
    }
    for (size_t i = 0; i < step.rows.size(); ++i) {
      const StepRow& row = step.rows[i];
      ASSERT_TRUE(row.slot >= 0 && row.slot < kSlots);
      if (i > 0) {
        ASSERT_LT(step.rows[i - 1].request, row.request);
      }
      const auto before = last_row.find(row.request);
      if (before != last_row.end()) {
        ASSERT_EQ(row.slot, before->second.slot);
        ASSERT_EQ(row.position, before->second.position + before->second.tokens);
      }
      last_row[row.request] = row;
      const int64_t wanted = requests[static_cast<size_t>(row.request)].output_tokens;
      ASSERT_EQ(row.last, ++answered[row.request] == wanted);
      if (row.last) busy.erase(row.slot);
    }
  }
  EXPECT_TRUE(busy.empty());
  EXPECT_EQ(answered.size(), requests.size());
  for (const auto& [request, tokens] : answered)
    EXPECT_EQ(tokens, requests[static_cast<size_t>(request)].output_tokens);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BatcherInvariantTest, testing::Range<uint64_t>(1, 6));

TEST(BatcherTest, NoRequestsMeanNoSteps) {
  EXPECT_TRUE(StepsOf({}, {.slots = 1, .cost = kCost}).empty());
}

TEST(BatcherDeathTest, RefusesAClockThatStandsStill) {
  EXPECT_DEATH(Batcher({}, {.slots = 1, .cost = {}}), "a step takes time");
  EXPECT_DEATH(Batcher({}, {.slots = 0, .cost = kCost}), "needs a slot");
}

}  // namespace
}  // namespace coppice
