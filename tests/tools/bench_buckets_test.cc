// Goal: `coppice bench buckets` reports every order with outputs dropped and held, a pool that is
// as large as the largest bucket in each, and bytes that agree with each other and the driver.
// Method: the command in this process on the emulator, which counts memory exactly and knows
// nothing of what a graph takes; no figure of time is judged.

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tools/support/recording_order.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// One run for all tests that read its JSON.
class BenchBucketsTest : public testing::Test {
 protected:
  static const nlohmann::json& json() {
    static const nlohmann::json* const parsed = [] {
      const CommandOutcome outcome = RunCoppice({"bench", "buckets", "--device", "host", "--json"});
      EXPECT_EQ(outcome.code, kExitOk);
      EXPECT_THAT(outcome.err, IsEmpty());
      return new nlohmann::json(
          nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false));
    }();
    return *parsed;
  }
  static const nlohmann::json& largest() { return json()["cases"].back(); }
};

TEST_F(BenchBucketsTest, ReportsEveryOrderAndTheLargestAlone) {
  EXPECT_EQ(json()["section"], "buckets");
  EXPECT_EQ(json()["device"], "host");
  EXPECT_EQ(json()["model"]["slots"], 512);
  EXPECT_EQ(json()["batches"].size(), 67U);
  std::vector<std::pair<std::string, std::string>> names;
  for (const nlohmann::json& one : json()["cases"])
    names.emplace_back(one["order"], one["outputs"]);
  EXPECT_THAT(names,
              ElementsAre(Pair("asc", "dropped"), Pair("desc", "dropped"),
                          Pair("random:1", "dropped"), Pair("asc", "held"), Pair("desc", "held"),
                          Pair("random:1", "held"), Pair("largest", "dropped")));
}

TEST_F(BenchBucketsTest, EveryBucketIsRecordedInTheOrderNamed) {
  for (const nlohmann::json& one : json()["cases"]) {
    std::vector<int64_t> expected = {512};
    if (one["order"] != "largest") {
      expected = json()["batches"].get<std::vector<int64_t>>();
      Arrange(*ParseRecordingOrder(one["order"]), expected);
    }
    EXPECT_EQ(one["recorded"], expected);
    EXPECT_EQ(one["buckets"], expected.size());
    EXPECT_EQ(one["record_ms"].size(), expected.size());
    EXPECT_EQ(one["nodes"], expected.size() * largest()["nodes"].get<size_t>());
  }
}

TEST_F(BenchBucketsTest, PoolIsAsLargeAsTheLargestBucketInEveryOrder) {
  ASSERT_GT(largest()["height_bytes"], 0);
  for (const nlohmann::json& one : json()["cases"]) {
    EXPECT_EQ(one["mapped_ratio"], 1.0) << one["order"];
    EXPECT_EQ(one["mapped_bytes"], largest()["mapped_bytes"]) << one["order"];
    // Not rounded to what the driver maps at once.
    EXPECT_EQ(one["height_bytes"], largest()["height_bytes"]) << one["order"];
  }
}

TEST_F(BenchBucketsTest, OwnBytesAreTheSumOfTheKindsAndWhatTheDriverSawBesideGraphs) {
  for (const nlohmann::json& one : json()["cases"]) {
    int64_t sum = 0;
    for (const auto& [kind, bytes] : one["usage"].items())
      sum += bytes.get<int64_t>();
    EXPECT_EQ(one["own_bytes"], sum);
    EXPECT_EQ(one["usage"]["nodes"], one["mapped_bytes"]);
    EXPECT_EQ(one["usage"]["graphs"], one["exec_bytes"]);
    EXPECT_EQ(one["usage"]["eager"], 0);
    EXPECT_EQ(one["driver_bytes"], sum - one["exec_bytes"].get<int64_t>());
    EXPECT_EQ(one["left_bytes"], 0);
  }
}

TEST_F(BenchBucketsTest, OnlyHeldOutputsTakeBytesOfTheirOwn) {
  for (const nlohmann::json& one : json()["cases"]) {
    // 16,647 rows in all, each with its logits and its token.
    const int64_t rows_bytes = 16'647 * 4 * (json()["model"]["vocab"].get<int64_t>() + 1);
    const int64_t copied = one["usage"]["copy_out"];
    EXPECT_TRUE(one["outputs"] == "held" ? copied >= rows_bytes : copied == 0) << copied;
  }
}

TEST_F(BenchBucketsTest, EveryStepPredictsWhatItDoesWithoutGraphs) {
  for (const nlohmann::json& one : json()["cases"])
    EXPECT_EQ(one["mismatches"], 0);
}

TEST_F(BenchBucketsTest, StallHasRoundsOfBothTimes) {
  const nlohmann::json& stall = json()["stall"];
  for (const char* when : {"idle", "beside"}) {
    const nlohmann::json& times = stall[std::string(when) + "_us"];
    EXPECT_GE(times.size(), 1U);
    EXPECT_LE(times.size(), 2'000U);
    EXPECT_GE(stall["rounds"][when], times.size());
  }
  EXPECT_GT(stall["recorded_ms"], 0);
}

}  // namespace
}  // namespace coppice
