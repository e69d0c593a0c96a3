// Goal: the bench of decode steps runs each batch size both ways, says of one way alone how many
// kernels a step launches, and tells what a gate chose. Method: the command in this process, on the
// tiny model and the emulator, whose clock gives each operation 1 us; rows of calls made up.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tools/bench/gate_watch.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::Optional;

CommandOutcome RunDecode(std::vector<std::string> options) {
  options.insert(options.begin(), {"bench", "decode", "--device", "host"});
  return RunCoppice(options);
}

TEST(BenchDecodeTest, JsonHasEverySampleOfBothWaysPerBatch) {
  const nlohmann::json json =
      JsonOf(RunDecode({"--sizes", "1,3,4,40", "--repetitions", "4", "--json"}));
  EXPECT_EQ(json["section"], "decode");
  EXPECT_EQ(json["device"], "host");
  EXPECT_EQ(json["precision"], "float32");
  for (const char* key : {"layers", "d_model", "heads", "kv_heads", "head_dim", "ffn", "vocab",
                          "slots", "max_context", "rope_theta", "rms_eps"}) {
    EXPECT_TRUE(json["model"][key].is_number()) << key;
  }
  EXPECT_LT(json["position"], json["model"]["max_context"]);
  std::vector<int64_t> batches;
  std::vector<int64_t> buckets;
  for (const nlohmann::json& one : json["cases"]) {
    batches.push_back(one["batch"]);
    buckets.push_back(one["bucket"]);
    EXPECT_EQ(one["tokens_equal"], true);
    EXPECT_GT(one["nodes"]["replay"], 10);
    ASSERT_EQ(one["ways"].size(), 2U);
    EXPECT_EQ(one["ways"][0]["name"], "eager");
    EXPECT_EQ(one["ways"][1]["name"], "replay");
    for (const nlohmann::json& way : one["ways"]) {
      EXPECT_EQ(way["host_us"].size(), 4U);
      EXPECT_EQ(way["gpu_us"].size(), 4U);
      EXPECT_GE(way["calls"], way["name"] == "replay" ? 10 : 1);
    }
  }
  EXPECT_THAT(batches, ElementsAre(1, 3, 4, 40));
  EXPECT_THAT(buckets, ElementsAre(1, 4, 4, 40));
}

// Both ways run the same operations, which is what the emulator's clock counts.
TEST(BenchDecodeTest, GateKeepsTheGraphWhereBothWaysTakeTheSameTime) {
  const nlohmann::json json = JsonOf(RunDecode({"--sizes", "2", "--repetitions", "1", "--json"}));
  const nlohmann::json& one = json["cases"][0];
  EXPECT_EQ(one["gate"], "replay");
  EXPECT_GE(one["gate_calls"], 2 * GateWatch::kSamples);
  EXPECT_EQ(one["gate_us"]["eager"], one["gate_us"]["replay"]);
}

TEST(BenchDecodeTest, OneWayAloneSaysWhatAStepLaunches) {
  const nlohmann::json both = JsonOf(RunDecode({"--sizes", "4", "--repetitions", "3", "--json"}));
  const double operations = both["cases"][0]["ways"][0]["gpu_us"][0];
  for (const char* way : {"eager", "replay"}) {
    const nlohmann::json json =
        JsonOf(RunDecode({"--only", way, "--sizes", "4,1", "--repetitions", "7", "--json"}));
    EXPECT_EQ(json["only"], way);
    ASSERT_EQ(json["cases"].size(), 2U);
    for (const nlohmann::json& one : json["cases"]) {
      EXPECT_EQ(one["steps"], 7);
      EXPECT_EQ(one["warmup_steps"], 2);
      EXPECT_NEAR(one["kernels_per_step"], operations, 1e-3);
    }
  }
}

// Adds `pairs` pairs of calls, one each way; the first way of a pair changes.
void AddPairs(GateWatch& watch, int64_t pairs) {
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const bool eager_first = pair % 2 == 1;
    watch.Add(eager_first ? RunKind::kEager : RunKind::kReplay, eager_first ? 30 : 10);
    watch.Add(eager_first ? RunKind::kReplay : RunKind::kEager, eager_first ? 10 : 30);
  }
}

TEST(GateWatchTest, CallsInTurnsAreNoDecision) {
  GateWatch watch;
  AddPairs(watch, 100);
  EXPECT_EQ(watch.decided(), std::nullopt);
  EXPECT_EQ(watch.calls(), 200);
}

TEST(GateWatchTest, ARowOfOneWayAfterEnoughOfBothIsADecision) {
  for (const RunKind path : {RunKind::kReplay, RunKind::kEager}) {
    GateWatch watch;
    AddPairs(watch, GateWatch::kSamples);
    // The last call of the pairs may be the row's first.
    for (int64_t i = 0; i + 2 < GateWatch::kRow; ++i)
      watch.Add(path, 20);
    EXPECT_EQ(watch.decided(), std::nullopt);
    watch.Add(path, 20);
    watch.Add(path, 20);
    EXPECT_THAT(watch.decided(), Optional(path));
  }
}

TEST(GateWatchTest, ARowWithoutTheOtherWayIsNoDecision) {
  GateWatch watch;
  AddPairs(watch, GateWatch::kSamples - 1);
  for (int64_t i = 0; i < 10 * GateWatch::kRow; ++i)
    watch.Add(RunKind::kReplay, 20);
  EXPECT_EQ(watch.decided(), std::nullopt);
}

TEST(GateWatchTest, MediansAreOfEachWay) {
  GateWatch watch;
  EXPECT_EQ(watch.median_us(RunKind::kEager), 0);
  AddPairs(watch, 5);
  EXPECT_EQ(watch.median_us(RunKind::kReplay), 10);
  EXPECT_EQ(watch.median_us(RunKind::kEager), 30);
}

}  // namespace
}  // namespace coppice
