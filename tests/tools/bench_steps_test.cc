// Goal: `bench steps` measures every way on steps of the size asked for, in the form its readers
// rely on. Method: the command in this process, on the emulator, with few samples; no figure of
// host time is judged, and the emulator's device time is its count of operations.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

using testing::ElementsAre;

CommandOutcome RunSteps(std::vector<std::string> options) {
  options.insert(options.begin(), {"bench", "steps", "--device", "host"});
  return RunCoppice(options);
}

TEST(BenchStepsTest, JsonHasACasePerStepAndEverySampleOfEveryWay) {
  const nlohmann::json json =
      JsonOf(RunSteps({"--sizes", "3,1,2500", "--repetitions", "4", "--json"}));
  EXPECT_EQ(json["section"], "steps");
  EXPECT_EQ(json["device"], "host");
  EXPECT_EQ(json["device_name"], "coppice emulator");
  EXPECT_EQ(json["stopped"], false);
  std::vector<int64_t> kernels;
  for (const nlohmann::json& one : json["cases"]) {
    kernels.push_back(one["kernels"]);
    std::vector<std::string> names;
    for (const nlohmann::json& way : one["ways"]) {
      names.push_back(way["name"]);
      EXPECT_EQ(way["host_us"].size(), 4U);
      EXPECT_EQ(way["gpu_us"].size(), 4U);
    }
    EXPECT_THAT(names, ElementsAre("launch", "run", "run_staged", "run_staged_calls", "eager"));
    for (const char* way : {"launch", "run", "run_staged", "run_staged_calls"}) {
      EXPECT_EQ(one["nodes"][way], one["kernels"]);
      EXPECT_EQ(one["launches"][way], std::string(way).starts_with("run_staged") ? 2 : 1);
    }
  }
  EXPECT_THAT(kernels, ElementsAre(3, 1, 2500));
}

// The emulator gives every operation 1 us.
TEST(BenchStepsTest, EveryWayDoesTheSameWorkAndStagingOneOperationMore) {
  const nlohmann::json json = JsonOf(RunSteps({"--sizes", "6", "--repetitions", "2", "--json"}));
  for (const nlohmann::json& way : json["cases"][0]["ways"]) {
    const bool staged = way["name"] == "run_staged" || way["name"] == "run_staged_calls";
    for (const double device_us : way["gpu_us"])
      EXPECT_NEAR(device_us, staged ? 7 : 6, 1e-3) << way["name"];
  }
}

TEST(BenchStepsTest, ALongEagerStepIsCalledFewerTimesPerSampleAndAGraphTenTimes) {
  const nlohmann::json json =
      JsonOf(RunSteps({"--sizes", "100,101,1001", "--repetitions", "1", "--json"}));
  const int64_t eager_calls[] = {10, 9, 1};
  for (size_t i = 0; i < std::size(eager_calls); ++i) {
    for (const nlohmann::json& way : json["cases"][i]["ways"])
      EXPECT_EQ(way["calls"], way["name"] == "eager" ? eager_calls[i] : 10) << way["name"];
  }
}

}  // namespace
}  // namespace coppice
