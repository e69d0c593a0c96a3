// Goal: every way is sampled as often as every other, after each of them, and a failure ends the
// sampling. Method: ways that note their calls, on an emulator, whose clock gives each operation 1
// us.

#include "tools/bench/sampler.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/runtime/emulator.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::SizeIs;

class SamplerTest : public testing::Test {
 protected:
  const std::unique_ptr<Emulator> emulator_ = *Emulator::Create({});
  const Driver driver_ = emulator_->driver();
  const Context context_ = *Context::Create(driver_);
  const Stream stream_ = *Stream::Create(driver_);
  const DeviceMemory memory_ = *DeviceMemory::Create(driver_, 4);

  absl::Status Clear() const {
    return driver_.Call<&DriverTable::MemsetD32Async>(memory_.address(), 0U, 1, stream_.handle());
  }
};

// Ways that each note their name.
std::vector<Way> NotingWays(std::string& calls, int64_t calls_per_sample) {
  std::vector<Way> ways;
  for (const char* name : {"a", "b", "c"}) {
    ways.push_back({.name = name,
                    .call =
                        [&calls, name] {
                          calls += name;
                          return absl::OkStatus();
                        },
                    .calls_per_sample = calls_per_sample});
  }
  return ways;
}

TEST_F(SamplerTest, EveryRoundSamplesEachWayOnce) {
  std::string calls;
  const auto samples =
      SampleWays(driver_, stream_, NotingWays(calls, 2), {.samples = 50, .warmup_calls = 1});
  ASSERT_OK(samples);
  EXPECT_EQ(calls.substr(0, 3), "abc");
  ASSERT_THAT(calls, SizeIs(3 + 50 * 6));
  for (size_t round = 3; round < calls.size(); round += 6) {
    std::set<std::string> sampled;
    for (size_t i = 0; i < 6; i += 2)
      sampled.insert(calls.substr(round + i, 2));
    EXPECT_THAT(sampled, ElementsAre("aa", "bb", "cc"));
  }
}

TEST_F(SamplerTest, EveryWayFollowsEveryOtherWayButTheOrdersAreThoseOfEveryRun) {
  std::string calls;
  std::string again;
  const SamplePlan plan = {.samples = 60, .warmup_calls = 0};
  ASSERT_OK(SampleWays(driver_, stream_, NotingWays(calls, 1), plan));
  ASSERT_OK(SampleWays(driver_, stream_, NotingWays(again, 1), plan));
  EXPECT_EQ(calls, again);
  std::map<std::string, int> pairs;
  for (size_t i = 0; i + 1 < calls.size(); ++i)
    ++pairs[calls.substr(i, 2)];
  for (const char* pair : {"ab", "ac", "ba", "bc", "ca", "cb"})
    EXPECT_GE(pairs[pair], 15) << pair;  // About 28 of each.
}

TEST_F(SamplerTest, DeviceTimeIsPerCall) {
  const Way clear_thrice = {.name = "thrice",
                            .call = [&]() -> absl::Status {
                              for (int i = 0; i < 3; ++i)
                                COPPICE_RETURN_IF_ERROR(Clear());
                              return absl::OkStatus();
                            },
                            .calls_per_sample = 8};
  const auto samples =
      SampleWays(driver_, stream_, {&clear_thrice, 1}, {.samples = 5, .warmup_calls = 0});
  ASSERT_OK(samples);
  ASSERT_THAT(*samples, SizeIs(1));
  EXPECT_THAT(samples->front().host_us, SizeIs(5));
  EXPECT_THAT(samples->front().host_us, Each(Ge(0)));
  EXPECT_THAT(samples->front().device_us, SizeIs(5));
  EXPECT_THAT(samples->front().device_us, Each(DoubleNear(3, 1e-3)));
}

TEST_F(SamplerTest, EachWayHasItsOwnNumberOfCalls) {
  std::string calls;
  std::vector<Way> ways = NotingWays(calls, 1);
  ways[1].calls_per_sample = 4;
  const auto samples = SampleWays(driver_, stream_, ways, {.samples = 3, .warmup_calls = 0});
  ASSERT_OK(samples);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), 'a'), 3);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), 'b'), 12);
  EXPECT_EQ((*samples)[1].calls, 4);
}

TEST_F(SamplerTest, StopsAfterARoundAndKeepsItsSamples) {
  std::string calls;
  int rounds = 0;
  const auto samples =
      SampleWays(driver_, stream_, NotingWays(calls, 1),
                 {.samples = 50, .warmup_calls = 0, .stop = [&rounds] { return ++rounds == 2; }});
  ASSERT_OK(samples);
  for (const WaySamples& way : *samples)
    EXPECT_THAT(way.host_us, SizeIs(2));
}

TEST_F(SamplerTest, AFailedCallEndsTheSampling) {
  int calls = 0;
  const Way failing = {.name = "failing", .call = [&] {
                         return ++calls < 3 ? absl::OkStatus() : absl::AbortedError("third");
                       }};
  EXPECT_THAT(SampleWays(driver_, stream_, {&failing, 1}, {}),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(calls, 3);
}

TEST_F(SamplerTest, JsonHasEverySample) {
  const nlohmann::ordered_json json =
      ToJson({{.name = "run", .calls = 7, .host_us = {1.5, 2}, .device_us = {3, 4}}});
  EXPECT_EQ(json.dump(), R"([{"name":"run","calls":7,"host_us":[1.5,2.0],"gpu_us":[3.0,4.0]}])");
}

}  // namespace
}  // namespace coppice
