// Goal: the soak and every bench that is asked to stop prints what it has measured by then, and
// ends with a code of its own. Method: the commands in this process, on the emulator, which are
// told to stop at their n-th question. That a signal makes them stop is in stop_signal_test.py.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

// What a command prints that is told to stop when it asks for the `question`-th time, and always
// from then on.
nlohmann::json StoppedAt(int question, std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  int asked = 0;
  const CommandOutcome outcome =
      RunCoppice(arguments, [&asked, question] { return ++asked >= question; });
  EXPECT_EQ(outcome.code, kExitStopped) << outcome.err;
  const nlohmann::json json =
      nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json.value("stopped", false), true) << outcome.out;
  return json;
}

TEST(StopTest, SoakPrintsTheCallsSoFar) {
  const nlohmann::json json = StoppedAt(
      3, {"soak", "--replays", "5000", "--records", "40", "--buckets", "2", "--device", "host"});
  EXPECT_EQ(json["replays"], 3 * 64);  // In batches.
  EXPECT_EQ(json["records"], 0);
  EXPECT_EQ(json["mismatches"], 0);
  EXPECT_EQ(json["memory"].size(), 2U);
}

TEST(StopTest, DispatchPrintsTheCasesSoFar) {
  const nlohmann::json json = StoppedAt(1, {"bench", "dispatch", "--repetitions", "10"});
  ASSERT_EQ(json["cases"].size(), 1U);
  EXPECT_EQ(json["cases"][0]["name"], "all_static");
}

TEST(StopTest, RecordPrintsTheRecordingsSoFar) {
  const nlohmann::json json =
      StoppedAt(3, {"bench", "record", "--repetitions", "20", "--device", "host"});
  EXPECT_EQ(json["recordings"], 3);
}

TEST(StopTest, PlanPrintsTheInstancesSoFar) {
  const nlohmann::json json = StoppedAt(3, {"bench", "plan"});
  ASSERT_EQ(json["kinds"].size(), 1U);
  EXPECT_EQ(json["kinds"][0]["instances"], 2);
}

TEST(StopTest, StepsPrintTheSamplesSoFar) {
  const nlohmann::json json =
      StoppedAt(4, {"bench", "steps", "--sizes", "2,3", "--repetitions", "50", "--device", "host"});
  ASSERT_EQ(json["cases"].size(), 1U);
  for (const nlohmann::json& way : json["cases"][0]["ways"])
    EXPECT_EQ(way["host_us"].size(), 3U) << way["name"];
}

TEST(StopTest, DecodePrintsTheSamplesSoFar) {
  const nlohmann::json json = StoppedAt(
      4, {"bench", "decode", "--sizes", "1,2", "--repetitions", "50", "--device", "host"});
  ASSERT_EQ(json["cases"].size(), 1U);
  for (const nlohmann::json& way : json["cases"][0]["ways"])
    EXPECT_EQ(way["host_us"].size(), 3U) << way["name"];
}

// It asks once per bucket: the one that is not counted, the largest alone, and 67 in each order.
TEST(StopTest, BucketsPrintTheOrdersSoFar) {
  const nlohmann::json json = StoppedAt(2 + 67 + 5, {"bench", "buckets", "--device", "host"});
  ASSERT_EQ(json["cases"].size(), 7U);
  EXPECT_EQ(json["cases"][0]["recorded"].size(), 67U);
  EXPECT_EQ(json["cases"][6]["order"], "largest");
  EXPECT_FALSE(json["cases"][6].contains("skipped"));
  for (size_t i = 1; i < 6; ++i)
    EXPECT_EQ(json["cases"][i]["skipped"], "stopped by a signal");
  EXPECT_EQ(json["stall"]["skipped"], "stopped by a signal");
}

TEST(StopTest, PtxPrintsTheSamplesSoFar) {
  EXPECT_EQ(StoppedAt(2, {"bench", "ptx"})["samples"], 1);
}

TEST(StopTest, SuspendPrintsTheRoundsSoFar) {
  const nlohmann::json json = StoppedAt(3, {"bench", "suspend", "--device", "host"});
  EXPECT_EQ(json["suspend_us"].size(), 3U);
}

}  // namespace
}  // namespace coppice
