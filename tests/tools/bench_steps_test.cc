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

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CommandOutcome RunSteps(std::vector<std::string> options) {
  options.insert(options.begin(), {"bench", "steps", "--device", "host"});
  return RunCoppice(options);
}

TEST(BenchStepsTest, JsonHasACasePerStepAndEverySampleOfEveryWay) {
  const nlohmann::json json =
      JsonOf(RunSteps({"--kernels", "3,1,2500", "--samples", "4", "--json"}));
  EXPECT_EQ(json["section"], "steps");
  EXPECT_EQ(json["device"], "host");
  EXPECT_EQ(json["device_name"], "coppice emulator");
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
  }
  EXPECT_THAT(kernels, ElementsAre(3, 1, 2500));
}

TEST(BenchStepsTest, EveryGraphHasANodePerKernel) {
  const nlohmann::json json = JsonOf(RunSteps({"--kernels", "1,7", "--samples", "1", "--json"}));
  for (const nlohmann::json& one : json["cases"]) {
    const nlohmann::json kernels = one["kernels"];
    EXPECT_EQ(one["nodes"], nlohmann::json({{"launch", kernels},
                                            {"run", kernels},
                                            {"run_staged", kernels},
                                            {"run_staged_calls", kernels}}));
  }
}

TEST(BenchStepsTest, ARunIsOneLaunchAndAStagedOneIsTwo) {
  const nlohmann::json json = JsonOf(RunSteps({"--kernels", "5", "--samples", "1", "--json"}));
  EXPECT_EQ(
      json["cases"][0]["launches"],
      nlohmann::json({{"launch", 1}, {"run", 1}, {"run_staged", 2}, {"run_staged_calls", 2}}));
}

// The emulator gives every operation 1 us.
TEST(BenchStepsTest, EveryWayDoesTheSameWorkAndStagingOneOperationMore) {
  const nlohmann::json json = JsonOf(RunSteps({"--kernels", "6", "--samples", "2", "--json"}));
  for (const nlohmann::json& way : json["cases"][0]["ways"]) {
    const bool staged = way["name"] == "run_staged" || way["name"] == "run_staged_calls";
    for (const double device_us : way["gpu_us"])
      EXPECT_NEAR(device_us, staged ? 7 : 6, 1e-3) << way["name"];
  }
}

TEST(BenchStepsTest, ALongEagerStepIsCalledFewerTimesPerSampleAndAGraphTenTimes) {
  const nlohmann::json json =
      JsonOf(RunSteps({"--kernels", "100,101,1001", "--samples", "1", "--json"}));
  const int64_t eager_calls[] = {10, 9, 1};
  for (size_t i = 0; i < std::size(eager_calls); ++i) {
    for (const nlohmann::json& way : json["cases"][i]["ways"])
      EXPECT_EQ(way["calls"], way["name"] == "eager" ? eager_calls[i] : 10) << way["name"];
  }
}

TEST(BenchStepsTest, TableNamesEveryWayAndWhatASessionAdds) {
  const CommandOutcome outcome = RunSteps({"--kernels", "4,9", "--samples", "3"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("4 kernels\n"), HasSubstr("9 kernels\n"), HasSubstr("calls"),
                    HasSubstr("eager"), HasSubstr("run - launch: "),
                    HasSubstr("run_staged - run_staged_calls: "),
                    HasSubstr("The times are the emulator's")));
  EXPECT_THAT(RunSteps({"--kernels", "4", "--samples", "1", "--json"}).out,
              Not(HasSubstr("emulator's")));
}

TEST(BenchStepsTest, RefusesWrongOptionsInOneLine) {
  const std::vector<std::vector<std::string>> wrong = {{"--kernels", ""},      {"--kernels", "0"},
                                                       {"--kernels", "10,"},   {"--kernels", ",10"},
                                                       {"--kernels", "10001"}, {"--kernels", "1 2"},
                                                       {"--kernels", "x"},     {"--samples", "0"},
                                                       {"--device", "tpu"},    {"extra"}};
  for (const std::vector<std::string>& options : wrong) {
    const CommandOutcome outcome = RunSteps(options);
    EXPECT_EQ(outcome.code, kExitUsage) << options.front() << " " << options.back();
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

}  // namespace
}  // namespace coppice
