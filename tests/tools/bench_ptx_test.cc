// Goal: `coppice bench ptx` prints what its readers rely on, and its kernels compute what they
// should without a finding. Method: the command in this process with one sample; no figure of time
// is judged.

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

using testing::HasSubstr;

TEST(BenchPtxTest, ReportsEveryKernelWithTheStableKeys) {
  const nlohmann::json json = JsonOf(RunCoppice({"bench", "ptx", "--json", "--samples", "1"}));
  ASSERT_EQ(json["kernels"].size(), 3U);
  EXPECT_EQ(json["kernels"][0]["name"], "elementwise");
  EXPECT_EQ(json["kernels"][1]["name"], "softmax");
  EXPECT_EQ(json["kernels"][2]["name"], "matmul");
  for (const nlohmann::json& kernel : json["kernels"]) {
    EXPECT_GT(kernel["lane_instructions"], 1'000'000);
    EXPECT_GT(kernel["lane_instructions_per_second"], 0);
    EXPECT_GT(kernel["checks_off_ms"], 0);
    EXPECT_GT(kernel["checks_on_ms"], 0);
    EXPECT_GT(kernel["checks_ratio"], 0);
    EXPECT_EQ(kernel["findings"], 0);
    EXPECT_EQ(kernel["right"], true);
  }
  EXPECT_EQ(json["matmul_extent"], 512);
  EXPECT_EQ(json["matmul_ms"], json["kernels"][2]["checks_off_ms"]);
  EXPECT_GT(json["lines"], 1000);
  EXPECT_GT(json["lines_per_second"], 0);
  EXPECT_EQ(json["samples"], 1);
  EXPECT_GT(json["reference_ms"], 0);
  EXPECT_EQ(json["stopped"], false);
}

TEST(BenchPtxTest, TableNamesEveryKernel) {
  const CommandOutcome outcome = RunCoppice({"bench", "ptx", "--samples", "1"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  for (const char* part : {"elementwise", "softmax", "matmul", "parse and decode"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST(BenchPtxTest, StopsBetweenSamplesAndPrintsWhatItHas) {
  int asked = 0;
  const CommandOutcome outcome =
      RunCoppice({"bench", "ptx", "--json", "--samples", "1000"}, [&asked] { return ++asked > 1; });
  EXPECT_EQ(outcome.code, kExitStopped);
  const nlohmann::json json =
      nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json["samples"], 1);
  EXPECT_EQ(json["stopped"], true);
}

TEST(BenchPtxTest, RefusesNoSamples) {
  EXPECT_EQ(RunCoppice({"bench", "ptx", "--samples", "0"}).code, kExitUsage);
}

}  // namespace
}  // namespace coppice
