// Goal: `coppice bench suspend` gives back every byte of the pool but those of graphs, as pool and
// driver agree, and every graph predicts afterwards what it did before. Method: the command in this
// process on the emulator with few rounds; no figure of time is judged.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

nlohmann::json Suspend(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"bench", "suspend", "--device", "host", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandOutcome outcome = RunCoppice(arguments);
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.err, IsEmpty());
  return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

TEST(BenchSuspendTest, ReportsEveryRoundWithTheStableKeys) {
  const nlohmann::json json = Suspend({"--rounds", "3", "--graphs", "5"});
  EXPECT_EQ(json["section"], "suspend");
  EXPECT_EQ(json["device"], "host");
  EXPECT_EQ(json["graphs"], 5);
  EXPECT_EQ(json["batches"], (std::vector<int64_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(json["mismatches"], 0);
  for (const char* times : {"suspend_us", "resume_us", "first_replay_us", "replay_us"}) {
    ASSERT_EQ(json[times].size(), 3U) << times;
    for (const nlohmann::json& us : json[times])
      EXPECT_GT(us, 0) << times;
  }
}

TEST(BenchSuspendTest, GivesBackEveryByteButThoseOfGraphs) {
  const nlohmann::json json = Suspend({"--rounds", "2"});
  EXPECT_EQ(json["graphs"], 64);
  EXPECT_GT(json["bytes"], 0);
  EXPECT_EQ(json["left_bytes"], 0);
  EXPECT_EQ(json["driver_bytes"], json["bytes"]);
  EXPECT_GT(json["graph_bytes"], 0);
}

TEST(BenchSuspendTest, TableSaysWhatWasGivenBackAndWhatItTook) {
  const CommandOutcome outcome =
      RunCoppice({"bench", "suspend", "--device", "host", "--rounds", "1", "--graphs", "1"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1, of batches 1 to 1"));
  EXPECT_THAT(outcome.out, HasSubstr("0 B left"));
  EXPECT_THAT(outcome.out, HasSubstr("first replay"));
}

TEST(BenchSuspendTest, RefusesMoreGraphsThanThereAreBatchSizes) {
  for (const char* graphs : {"0", "68", "many"}) {
    const CommandOutcome outcome = RunCoppice({"bench", "suspend", "--graphs", graphs});
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.err, HasSubstr(graphs));
  }
}

}  // namespace
}  // namespace coppice
