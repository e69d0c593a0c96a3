// Goal: a request's first token is that of its prefill, its last that of the step it leaves with,
// both counted from its arrival, and every request is told once. Method: steps by hand, and those
// of a batcher against its own clock.

#include "tools/run/request_clock.h"

#include <cmath>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coppice {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000;

Request Arriving(double seconds, int64_t input, int64_t output) {
  return {.arrival_seconds = seconds, .input_tokens = input, .output_tokens = output};
}

TEST(RequestClockTest, TimesCountFromTheArrival) {
  const std::vector<Request> requests = {Arriving(1, 7, 2), Arriving(3, 5, 2)};
  RequestClock clock(requests);
  EXPECT_THAT(clock.Add({.prefill = true, .rows = {{.request = 0}}}, 2), IsEmpty());
  EXPECT_THAT(clock.Add({.prefill = true, .rows = {{.request = 1}}}, 5), IsEmpty());
  const std::vector<RequestTimes> left =
      clock.Add({.rows = {{.request = 0, .last = true}, {.request = 1, .last = true}}}, 9);
  ASSERT_THAT(left, SizeIs(2));
  EXPECT_EQ(left[0].id, 0);
  EXPECT_EQ(left[0].first_token_ns, kSecond);
  EXPECT_EQ(left[0].last_token_ns, 8 * kSecond);
  EXPECT_EQ(left[0].input_tokens, 7);
  EXPECT_EQ(left[0].output_tokens, 2);
  EXPECT_EQ(left[1].id, 1);
  EXPECT_EQ(left[1].first_token_ns, 2 * kSecond);
  EXPECT_EQ(left[1].last_token_ns, 6 * kSecond);
}

TEST(RequestClockTest, ARequestOfOneTokenLeavesWithItsPrefill) {
  const std::vector<Request> requests = {Arriving(0, 3, 1)};
  RequestClock clock(requests);
  const std::vector<RequestTimes> left =
      clock.Add({.prefill = true, .rows = {{.request = 0, .last = true}}}, 4);
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].first_token_ns, 4 * kSecond);
  EXPECT_EQ(left[0].last_token_ns, 4 * kSecond);
}

TEST(RequestClockTest, EveryRequestOfABatcherIsToldOnce) {
  std::vector<Request> requests;
  for (int i = 0; i < 200; ++i)
    requests.push_back(Arriving(0.01 * i, 1 + i % 50, 1 + i % 7));
  RequestClock clock(requests);
  Batcher batcher(requests, {.slots = 4, .cost = {.step_seconds = 0.003, .row_seconds = 0.0001}});
  std::set<int64_t> told;
  for (Step step; batcher.Next(step);) {
    for (const RequestTimes& times : clock.Add(step, batcher.clock_seconds())) {
      EXPECT_TRUE(told.insert(times.id).second) << times.id;
      const Request& request = requests[static_cast<size_t>(times.id)];
      EXPECT_EQ(times.output_tokens, request.output_tokens);
      EXPECT_GT(times.first_token_ns, 0);
      // A step per further token, each of which takes some time.
      EXPECT_GE(times.last_token_ns - times.first_token_ns,
                std::llround(3e6 * static_cast<double>(request.output_tokens - 1)) - 1);
    }
  }
  EXPECT_THAT(told, SizeIs(requests.size()));
}

}  // namespace
}  // namespace coppice
