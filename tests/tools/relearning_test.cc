// Goal: `coppice run --relearn` swaps buckets that fit what it serves, never changes a result, and
// says what each swap changed in figures that add up. Method: the command in this process, on
// generated requests and on one trace whose padding is known, on the emulator.

#include "tools/run/relearning.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/test_share.h"
#include "tests/support/traces.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"
#include "tools/run/run_report.h"

namespace coppice {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Json Relearn(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", "--device", "host", "--json", "--quiet"});
  return JsonOf(RunCoppice(arguments));
}

// A job of 60 prompts, whose lengths the default buckets fit badly.
std::vector<std::string> Job(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"--generate", "conv", "--requests", "60",
                                        "--shrink",   "32",   "--slots",    "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<int64_t> Buckets(const Json& symbol, const char* when) {
  return symbol[when].get<std::vector<int64_t>>();
}

// 40 prompts of 37 tokens far apart, each with an answer of two.
std::string EqualPrompts() {
  std::string text = "arrival_seconds,input_tokens,output_tokens\n";
  for (int i = 0; i < 40; ++i)
    text += std::to_string(100 * i) + ",37,2\n";
  return text;
}

TEST(RelearningTest, StepsInSwappedBucketsAreAsTheReference) {
  const Json report = Relearn(Job({"--relearn=20", "--verify", "all", "--poison"}));
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["findings"], 0);
  EXPECT_EQ(report["verified_requests"], 60);
  EXPECT_GE(report["relearn"]["swaps"], 3);
}

TEST(RelearningTest, FiguresOfSymbolsAddUp) {
  const Json report = Relearn(Job({"--relearn=20"}));
  const Json& relearn = report["relearn"];
  ASSERT_EQ(relearn["symbols"].size(), 2U);
  EXPECT_EQ(relearn["period"], 20);
  size_t swaps = 0;
  int64_t graphs = 0;
  size_t buckets = 0;
  for (const Json& symbol : relearn["symbols"]) {
    const bool prefill = symbol["program"] == "prefill";
    EXPECT_EQ(symbol["symbol"], prefill ? "length" : "batch");
    const int64_t steps = report[prefill ? "prefill_steps" : "decode_steps"];
    EXPECT_EQ(symbol["looks"], steps / 20);
    EXPECT_LE(symbol["swaps"].size(), symbol["looks"]);
    EXPECT_EQ(symbol["refused"], 0);
    int64_t recorded = 0;
    std::vector<int64_t> ladder = Buckets(symbol, "buckets_before");
    for (const Json& swap : symbol["swaps"]) {
      recorded += swap["graphs"].get<int64_t>();
      EXPECT_EQ(swap["step"].get<int64_t>() % 20, 0);
      EXPECT_LE(swap["graphs"], 16);
      EXPECT_LE(swap["added"].size(), 4U);
      EXPECT_LT(swap["waste_after_pct"], swap["waste_before_pct"]);
      for (const int64_t gone : Buckets(swap, "dropped"))
        std::erase(ladder, gone);
      for (const int64_t added : Buckets(swap, "added"))
        ladder.insert(std::ranges::lower_bound(ladder, added), added);
    }
    EXPECT_EQ(ladder, Buckets(symbol, "buckets_after"));
    EXPECT_EQ(symbol["graphs_recorded"], recorded);
    swaps += symbol["swaps"].size();
    graphs += recorded;
    buckets += ladder.size();
  }
  EXPECT_EQ(relearn["swaps"], swaps);
  EXPECT_EQ(relearn["graphs_recorded"], graphs);
  // Those of buckets that are gone went with them.
  EXPECT_LE(report["graphs"], buckets);
}

TEST(RelearningTest, PaddingIsSummedBeforeTheFirstSwapAndAfterTheLast) {
  const TemporaryFile trace(EqualPrompts());
  const Json report = Relearn({trace.path(), "--shrink", "1", "--slots", "2", "--policy", "pow2",
                               "--relearn=10", "--verify", "all"});
  EXPECT_EQ(report["mismatches"], 0);
  const Json& prompts = report["relearn"]["symbols"][0];
  ASSERT_EQ(prompts["swaps"].size(), 1U);
  EXPECT_EQ(prompts["swaps"][0]["step"], 10);
  EXPECT_THAT(Buckets(prompts, "buckets_before"), testing::Contains(64));
  EXPECT_THAT(Buckets(prompts, "buckets_after"), testing::Contains(37));
  EXPECT_DOUBLE_EQ(prompts["waste_before_first_swap_pct"], 100.0 * (64 - 37) / 37);
  EXPECT_DOUBLE_EQ(prompts["waste_after_last_swap_pct"], 0);
  EXPECT_DOUBLE_EQ(prompts["waste_after_last_swap_without_pct"], 100.0 * (64 - 37) / 37);
  EXPECT_DOUBLE_EQ(prompts["waste_pct"], 100.0 * (64 - 37) / 37 / 4);
  EXPECT_DOUBLE_EQ(prompts["waste_without_pct"], 100.0 * (64 - 37) / 37);
  const Json& batches = report["relearn"]["symbols"][1];
  EXPECT_THAT(batches["swaps"], testing::IsEmpty()) << "a batch of one fits its bucket";
  EXPECT_TRUE(batches["waste_after_last_swap_pct"].is_null());
}

TEST(RelearningTest, StepsThatAGuardRefusesAreCountedApart) {
  const TemporaryFile trace(EqualPrompts());
  const TemporaryFile policy(
      R"({"version": 1, "buckets": [1, 2, 4, 8, 16, 32, 64, 128], "guard": {"max_ratio": "1.5"}})",
      "guarded.json");
  const std::vector<std::string> arguments = {
      trace.path(), "--shrink", "1", "--slots", "2", "--policy", policy.path(), "--relearn=10"};
  const Json prompts = Relearn(arguments)["relearn"]["symbols"][0];
  EXPECT_EQ(prompts["guarded"], true);
  ASSERT_EQ(prompts["swaps"].size(), 1U);
  // 37 in 64 is refused, and fits a bucket of its own from the swap on.
  EXPECT_EQ(prompts["steps_without_bucket"], 10);
  EXPECT_EQ(prompts["steps_without_bucket_at_rest"], 40);
  EXPECT_EQ(prompts["waste_before_first_swap_pct"], 0);
  EXPECT_EQ(prompts["waste_pct"], 0);
  EXPECT_EQ(prompts["waste_without_pct"], 0);
  std::vector<std::string> table = arguments;
  table.insert(table.begin(), {"run", "--device", "host", "--quiet"});
  EXPECT_THAT(RunCoppice(table).out,
              testing::AllOf(HasSubstr("ignoring the guard's refusals"),
                             HasSubstr("10 of 40 steps; 40 with the first buckets")));
}

TEST(RelearningTest, BucketsRecordedForASwapReplayFromTheFirstCall) {
  const Json report = Relearn(Job({"--relearn=20", "--order", "asc", "--verify", "all"}));
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_GE(report["relearn"]["graphs_recorded"], 4);
  EXPECT_EQ(report["replays"], report["calls"]);
}

TEST(RelearningTest, SwapsDependOnTheRequestsAlone) {
  const Json once = Relearn(Job({"--relearn=20"}))["relearn"];
  EXPECT_EQ(Relearn(Job({"--relearn=20", "--verify", "none"}))["relearn"], once);
  // A step that runs twice is a step; only more graphs are there that need a successor.
  const Json twice = Relearn(Job({"--relearn=20", "--poison"}))["relearn"];
  EXPECT_EQ(twice["swaps"], once["swaps"]);
  for (const size_t symbol : {0, 1})
    EXPECT_EQ(twice["symbols"][symbol]["buckets_after"], once["symbols"][symbol]["buckets_after"]);
}

TEST(RelearningTest, ProgramThatIsNotPaddedKeepsItsSizes) {
  const Json report = Relearn(Job({"--relearn=20", "--decode-policy", "exact"}));
  ASSERT_EQ(report["relearn"]["symbols"].size(), 1U);
  EXPECT_EQ(report["relearn"]["symbols"][0]["program"], "prefill");
}

TEST(RelearningTest, PeriodIsAThousandStepsAndDoesNotTakeTheTrace) {
  const TemporaryFile trace(EqualPrompts());
  const Json report = Relearn({"--relearn", trace.path(), "--limit", "2", "--shrink", "16"});
  EXPECT_EQ(report["trace"], trace.path());
  EXPECT_EQ(report["relearn"]["period"], 1000);
  EXPECT_EQ(report["relearn"]["swaps"], 0);
}

TEST(RelearningTest, BucketsStayUnlessAsked) {
  const Json report = Relearn({"--requests", "4", "--shrink", "64"});
  EXPECT_TRUE(report.contains("relearn"));
  EXPECT_TRUE(report["relearn"].is_null());
}

TEST(RelearningTest, AWrongPeriodOrNothingToLearnIsOneLineAndExitCode2) {
  const auto refusal = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "--device", "host", "--quiet"});
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.out, testing::IsEmpty());
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    return outcome.err;
  };
  for (const char* wrong : {"0", "-5", "often", "1.5", "99999999999"})
    EXPECT_THAT(refusal({std::string("--relearn=") + wrong}), HasSubstr("is not a count"));
  EXPECT_THAT(refusal({"--relearn="}), HasSubstr("coppice run: --relearn= has no number"));
  EXPECT_THAT(refusal({"--relearn=50", "--relearn=60"}), HasSubstr("--relearn"));
  for (const std::vector<std::string>& apart :
       std::vector<std::vector<std::string>>{{"--relearn", "50", "t.csv"}, {"--relearn", "50"}})
    EXPECT_THAT(refusal(apart), HasSubstr("give --relearn=50"));
  EXPECT_THAT(refusal({"--relearn", "--policy", "exact"}),
              HasSubstr("--relearn: prompts and batches have the policy exact"));
}

TEST(RelearningTest, TableSaysWhatEachSwapChanged) {
  std::vector<std::string> arguments = Job({"--relearn=20"});
  arguments.insert(arguments.begin(), {"run", "--device", "host", "--quiet"});
  const CommandOutcome outcome = RunCoppice(arguments);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  for (const char* part :
       {"relearned every 20 steps of a program", "prefill length", "decode batch", "after 20 steps",
        "buckets before", "buckets after", "before the first", "with the first buckets"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_THAT(outcome.out, Not(HasSubstr("refused")));
}

TEST(RelearningTest, SwapThatWasRefusedIsReportedWithItsReason) {
  RunReport report;
  report.relearned = RelearnReport{.period = 7,
                                   .symbols = {{.program = "decode",
                                                .name = "batch",
                                                .looks = 3,
                                                .refused = 2,
                                                .why = "there is no room",
                                                .buckets_before = {1, 2, 4},
                                                .buckets_after = {1, 2, 4}}}};
  EXPECT_THAT(FormatTable(report), HasSubstr("2, the last: there is no room"));
  const Json symbol = Json::parse(FormatJson(report))["relearn"]["symbols"][0];
  EXPECT_EQ(symbol["refused"], 2);
  EXPECT_EQ(symbol["why"], "there is no room");
  EXPECT_THAT(Buckets(symbol, "buckets_after"), ElementsAre(1, 2, 4));
}

TEST(RelearningTest, SwapThatTakesTooManyGraphsIsRefusedWithoutAdviceThatTheCommandCannotTake) {
  // Longer and longer prompts within a minute, and buckets learned again at each.
  std::string text = "arrival_seconds,input_tokens,output_tokens\n";
  for (int i = 0; i < 200; ++i)
    text += fmt::format("0.{:03},{},1\n", i, 8 + i * 37 % 400 + i / 10 * 60);
  const TemporaryFile trace(text);
  const Json report = Relearn({trace.path(), "--shrink", "8", "--slots", "4", "--policy", "pow2",
                               "--relearn=1", "--poison", "--verify", "none"});
  const Json& prompts = report["relearn"]["symbols"][0];
  EXPECT_EQ(prompts["graphs_recorded"], 64);
  EXPECT_GE(prompts["refused"], 1);
  EXPECT_EQ(
      prompts["why"],
      "the swap needs too many graphs; at most 16 are allowed per swap, and 64 per minute of the "
      "virtual clock");
}

class RelearnedTraceTest : public testing::TestWithParam<const char*> {};

TEST_P(RelearnedTraceTest, ReplaysWithoutMismatchInBucketsThatWasteLess) {
  const std::string folder = TraceFolder();
  if (folder.empty()) GTEST_SKIP() << "COPPICE_DATA names no folder with the real traces";
  const int64_t limit = 200 / TestShare();
  const Json report =
      Relearn({folder + "/" + GetParam(), "--limit", std::to_string(limit), "--policy", "pow2",
               "--relearn=" + std::to_string(std::max<int64_t>(limit / 4, 1)), "--verify", "all"});
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["verified_requests"], limit);
  if (TestShare() > 1) return;
  const Json& prompts = report["relearn"]["symbols"][0];
  EXPECT_GE(prompts["swaps"].size(), 1U);
  EXPECT_LT(prompts["waste_pct"], prompts["waste_without_pct"]);
}

INSTANTIATE_TEST_SUITE_P(Azure,
                         RelearnedTraceTest,
                         testing::Values("azure23_conv.csv", "azure23_code.csv"));

}  // namespace
}  // namespace coppice
