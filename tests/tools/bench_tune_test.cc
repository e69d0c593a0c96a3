// Goal: `coppice bench tune` has stable keys and refuses limits that it cannot learn for. Method:
// the command in this process on small limits; no figure of time is judged.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tools/bench/bench.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(BenchTuneTest, JsonHasTheStableKeysOfEachLimitAndCap) {
  const CommandOutcome outcome = RunCoppice({"bench", "tune", "--sizes", "64,512", "--json"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_EQ(report["solves"].size(), 4U);
  EXPECT_EQ(report["solves"][0]["sizes"], 64);
  EXPECT_EQ(report["solves"][0]["buckets"], 64);
  EXPECT_EQ(report["solves"][0]["max_ratio"], nullptr);
  EXPECT_EQ(report["solves"][0]["waste_pct"], 0);  // A bucket for each size.
  EXPECT_EQ(report["solves"][3]["sizes"], 512);
  EXPECT_EQ(report["solves"][3]["max_ratio"], 1.25);
  EXPECT_GT(report["solves"][3]["waste_pct"], 0);
  EXPECT_GE(report["solves"][3]["ms"], 0);
  EXPECT_EQ(report["find_buckets"], 1024);
  EXPECT_GE(report["find_ns"], 0);
  EXPECT_GT(report["reference_ms"], 0);
  EXPECT_EQ(report["stopped"], false);
}

TEST(BenchTuneTest, TheTableNamesEachLimit) {
  const CommandOutcome outcome = RunCoppice({"bench", "tune", "--sizes", "777"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("777"));
  EXPECT_THAT(outcome.out, HasSubstr("1024 buckets"));
}

TEST(BenchTuneTest, FewerSizesThanBucketsAreRefusedInOneLine) {
  const CommandOutcome outcome = RunCoppice({"bench", "tune", "--sizes", "63"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("64 buckets of 63 sizes"));
}

}  // namespace
}  // namespace coppice
