// Goal: `coppice tune` learns, scores, simulates and draws in the form that its readers rely on,
// and refuses bad input in one line. Method: the command in this process, on traffic made here.

#include "tools/tune/tune.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/padding/padding_presets.h"
#include "coppice/padding/policy_document.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/test_folder.h"
#include "tools/tune/relearn_run.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::ElementsAre;

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Json = nlohmann::json;

class TuneTest : public testing::Test, protected TestFolder {
 protected:
  static CommandOutcome Tune(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tune");
    return RunCoppice(arguments);
  }

  // Requests without arrivals.
  std::string WriteRequests(int64_t count) const {
    std::mt19937_64 random(3);
    std::string text = "arrival_seconds,input_tokens,output_tokens\n";
    for (int64_t i = 0; i < count; ++i)
      text += fmt::format(",{},{}\n", 1 + random() % 3000, 1 + random() % 200);
    return Write("requests.csv", text);
  }

  static void ExpectError(const CommandOutcome& outcome, const std::string& what) {
    EXPECT_EQ(outcome.code, kExitUsage) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("coppice tune"));
    EXPECT_THAT(outcome.err, HasSubstr(what));
    EXPECT_THAT(outcome.err, HasSubstr("; "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
};

TEST_F(TuneTest, LearnsTheBestBucketsAndPricesEveryPreset) {
  const std::string trace = Write("t.csv", "id,n\n,3\n,3\n,3\n,7\n,7\n,40\n");
  const Json json = JsonOf(
      Tune({trace, "--column", "n", "--buckets", "3", "--limit", "64", "--prior", "0", "--json"}));
  EXPECT_EQ(json["buckets"], Json({7, 40, 64}));
  EXPECT_DOUBLE_EQ(json["waste_pct"], 100.0 * 12 / 63);
  EXPECT_EQ(json["calls"], 6);
  EXPECT_EQ(json["worst_sizes"][0]["size"], 3);
  EXPECT_EQ(json["worst_sizes"].size(), 1U);
  const Json& presets = json["presets"];
  EXPECT_GT(presets.size(), 10U);
  const auto pow2 = std::find_if(presets.begin(), presets.end(),
                                 [](const Json& each) { return each["name"] == "pow2"; });
  ASSERT_NE(pow2, presets.end());
  EXPECT_EQ((*pow2)["buckets"], 7);
  EXPECT_DOUBLE_EQ((*pow2)["waste_pct"], 100.0 * (3 + 2 + 24) / 63);
}

TEST_F(TuneTest, WritesAPolicyThatScoresAsItSaid) {
  const std::string trace = WriteRequests(2000);
  const std::string policy = Path("policy.json");
  const Json learned = JsonOf(Tune({trace, "--column", "input_tokens", "--buckets", "16", "--limit",
                                    "4096", "-o", policy, "--json"}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const PolicyDocument document,
                               ReadPolicyDocument(Read(policy), policy));
  EXPECT_EQ(Json(document.policy.buckets()), learned["buckets"]);
  EXPECT_EQ(document.learned->waste_pct, learned["waste_pct"]);
  const Json score = JsonOf(Tune({"score", policy, trace, "--column", "input_tokens", "--json"}));
  EXPECT_EQ(score["waste_pct"], learned["waste_pct"]);
  EXPECT_EQ(score["buckets"], learned["buckets"]);
  EXPECT_EQ(score["per_bucket"].size(), learned["buckets"].size());
  double calls = 0;
  for (const Json& bucket : score["per_bucket"])
    calls += bucket["calls"].get<double>();
  EXPECT_EQ(calls, 2000);
}

TEST_F(TuneTest, ScoresLaddersAndPresetsByName) {
  const std::string trace = Write("t.csv", "n\n1\n5\n17\n600\n");
  const Json vllm = JsonOf(Tune({"score", "vllm", trace, "--column", "n", "--json"}));
  EXPECT_EQ(vllm["limit"], FindPaddingPreset("vllm")->limit);
  EXPECT_EQ(vllm["calls_beyond"], 1);
  const Json ladder =
      JsonOf(Tune({"score", "1,8", trace, "--column", "n", "--limit", "600", "--json"}));
  EXPECT_EQ(ladder["buckets"], Json({1, 8, 600}));
  EXPECT_DOUBLE_EQ(ladder["waste_pct"], 100.0 * (3 + 583) / 623);
}

TEST_F(TuneTest, AddsFilesAndWeighsRowsByTheirCounts) {
  const std::string one = Write("1.csv", "length,count\n4,2\n");
  const std::string other = Write("2.jsonl", "{\"length\": 8, \"count\": 3}\n");
  const Json json = JsonOf(Tune({one, other, "--column", "length", "--buckets", "2", "--json"}));
  EXPECT_EQ(json["calls"], 5);
  EXPECT_EQ(json["rows"], 2);
  EXPECT_EQ(json["buckets"], Json({4, 8}));
}

TEST_F(TuneTest, KeepsAlignmentForcedSizesAndCaps) {
  const std::string trace = WriteRequests(500);
  const Json json =
      JsonOf(Tune({trace, "--column", "input_tokens", "--buckets", "40", "--limit", "3000",
                   "--align", "16", "--force", "1000", "--max-ratio", "1.5", "--json"}));
  int64_t before = 0;
  bool forced = false;
  for (const int64_t bucket : json["buckets"]) {
    EXPECT_TRUE(bucket % 16 == 0 || bucket == 1000 || bucket == 3000) << bucket;
    EXPECT_TRUE(2 * bucket <= 3 * (before + 1) || bucket - before <= 16) << bucket;
    forced = forced || bucket == 1000;
    before = bucket;
  }
  EXPECT_TRUE(forced);
}

TEST_F(TuneTest, APriceFindsTheCount) {
  const std::string trace = WriteRequests(500);
  const auto count = [&](const std::string& price) {
    return JsonOf(Tune({trace, "--column", "input_tokens", "--limit", "4096", "--price", price,
                        "--json"}))["buckets"]
        .size();
  };
  EXPECT_GT(count("1KiB"), count("16KiB"));
}

TEST_F(TuneTest, ACostTableDecidesWhereBucketsAre) {
  const std::string trace = Write("t.csv", "n,count\n3,100\n100,1\n200,1\n");
  const std::string cost = Write("cost.csv", "size,cost\n1,5\n128,5\n256,10\n");
  std::vector<std::string> learn = {trace,     "--column", "n",       "--buckets", "2",
                                    "--limit", "256",      "--prior", "0",         "--json"};
  EXPECT_EQ(JsonOf(Tune(learn))["buckets"], Json({3, 256}));
  // Where 3 costs as much as 100, it needs no bucket of its own.
  learn.insert(learn.end(), {"--cost", cost});
  EXPECT_EQ(JsonOf(Tune(learn))["buckets"], Json({100, 256}));
}

TEST_F(TuneTest, PrintsWhatWastesMostAndAdvises) {
  std::string text = "n\n";
  for (int i = 0; i < 200; ++i)
    text += fmt::format("{}\n", 300 + 37 * (i % 100));
  const CommandOutcome outcome =
      Tune({Write("t.csv", text), "--column", "n", "--buckets", "2", "--limit", "3000"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("expected waste"), HasSubstr("trtllm"), HasSubstr("of all padding"),
                    HasSubstr("above the limit"), HasSubstr("4 buckets would waste"),
                    HasSubstr("Prefills in chunks of 2048")));
}

TEST_F(TuneTest, DrawsHistogramBucketsAndWaste) {
  const std::string plot = Path("plot.svg");
  const CommandOutcome outcome = Tune({WriteRequests(300), "--column", "input_tokens", "--buckets",
                                       "4", "--limit", "4096", "--plot", plot});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(Read(plot), AllOf(StartsWith("<svg"), HasSubstr("input_tokens: 300 calls"),
                                HasSubstr("buckets up to 4096"), HasSubstr("of all padding")));
}

TEST_F(TuneTest, TwoColumnsLearnAJointPolicy) {
  std::string text = "batch,length\n";
  for (int i = 0; i < 300; ++i)
    text += fmt::format("{},{}\n", 1 + i % 8, 100 + 13 * (i % 50));
  const std::string trace = Write("t.csv", text);
  const std::string policy = Path("joint.json");
  const std::vector<std::string> columns = {"--column", "batch", "--column", "length", "--json"};
  std::vector<std::string> learn = {trace, "--buckets", "12", "--limit", "8,1024", "-o", policy};
  learn.insert(learn.end(), columns.begin(), columns.end());
  const Json learned = JsonOf(Tune(learn));
  EXPECT_LE(learned["buckets"].size(), 12U + learned["doublings"].get<size_t>());
  EXPECT_GT(learned["presets"].size(), 2U);
  std::vector<std::string> score = {"score", policy, trace};
  score.insert(score.end(), columns.begin(), columns.end());
  EXPECT_EQ(JsonOf(Tune(score))["waste_pct"], learned["waste_pct"]);
  score[1] = "pow2/pow2";
  score.insert(score.end(), {"--limit", "8,1024"});
  EXPECT_GT(JsonOf(Tune(score))["waste_pct"], learned["waste_pct"]);
  ExpectError(Tune({"score", "pow2", trace, "--column", "batch", "--column", "length", "--limit",
                    "8,1024"}),
              "pow2");
  ExpectError(
      Tune({trace, "--column", "batch", "--column", "length", "--buckets", "4", "--limit", "8"}),
      "--limit");
}

TEST_F(TuneTest, SimulatedStepsAreTrafficToLearnFrom) {
  const std::string steps = Path("steps.csv");
  const Json json = JsonOf(Tune({"simulate", WriteRequests(300), "--load", "0.3,0.9", "--steps",
                                 "800", "--seqs", "64", "-o", steps, "--json"}));
  ASSERT_EQ(json["loads"].size(), 2U);
  EXPECT_EQ(json["loads"][1]["decode_rows"]["steps"], 800);
  EXPECT_LE(json["loads"][1]["decode_rows"]["largest"], 64);
  EXPECT_GT(json["capacity_requests_per_s"], 0);
  const Json rows = JsonOf(Tune({steps, "--column", "decode_rows", "--buckets", "8", "--json"}));
  EXPECT_EQ(rows["calls"], 1600);
  EXPECT_GT(rows["rows_without_value"], 0);
  const Json tokens = JsonOf(Tune({steps, "--column", "mixed_tokens", "--buckets", "8", "--json"}));
  EXPECT_EQ(tokens["calls"], rows["rows_without_value"]);
}

TEST_F(TuneTest, RelearningWastesLessThanStayingAndAddsFewGraphsAtATime) {
  const Json json = JsonOf(Tune({"simulate", WriteRequests(500), "--load", "0.3,0.95", "--steps",
                                 "15000", "--relearn", "--added", "3", "--json"}))["relearn"];
  EXPECT_LT(json["waste_pct"], json["waste_without_pct"]);
  EXPECT_EQ(json["graphs_at_start"], 25);
  int64_t recorded = 0;
  for (const Json& swap : json["swaps"]) {
    EXPECT_LE(swap["added"].size(), 3U);
    EXPECT_GT(swap["waste_before_pct"], swap["waste_after_pct"]);
    recorded += static_cast<int64_t>(swap["added"].size());
  }
  EXPECT_GT(recorded, 0);
  EXPECT_EQ(json["graphs_recorded"], recorded);
  EXPECT_LE(json["buckets"].size(), 25U);
  EXPECT_EQ(json["buckets"].back(), 512);
}

TEST_F(TuneTest, RelearnsMixedStepsToo) {
  const CommandOutcome outcome =
      Tune({"simulate", WriteRequests(300), "--steps", "3000", "--relearn", "--column",
            "mixed_tokens", "--budget", "2048", "--period", "300", "--start", "pow2"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("relearned: waste"), HasSubstr("buckets at the end")));
}

TEST_F(TuneTest, RefusesBadInputInOneLine) {
  const std::string trace = Write("t.csv", "n,m\n3,1\n5,2\n");
  const std::string negative = Write("negative.csv", "n\n3\n-5\n");
  const std::string later = Write("later.json", "{\"version\": 2, \"buckets\": [8, 16]}");
  const std::string unsorted = Write("unsorted.json", "{\"version\": 1, \"buckets\": [16, 8]}");
  const std::string falling = Write("cost.csv", "size,cost\n1,-5\n");
  const std::vector<std::string> learn = {"--buckets", "2", "--limit", "16"};
  const auto with = [&](std::vector<std::string> first) {
    first.insert(first.end(), learn.begin(), learn.end());
    return Tune(first);
  };
  ExpectError(Tune({}), "count of buckets");
  ExpectError(with({"--column", "n"}), "no traffic file");
  ExpectError(with({trace}), "no column");
  ExpectError(with({trace, "--column", "x"}), "there is no column x");
  ExpectError(with({negative, "--column", "n"}), "negative.csv:3: n is '-5', below 0");
  ExpectError(with({Path("none.csv"), "--column", "n"}), "none.csv");
  ExpectError(with({Write("empty.csv", ""), "--column", "n"}), "empty");
  ExpectError(with({Write("title.csv", "n\n"), "--column", "n"}), "no row");
  ExpectError(with({trace, "--column", "n", "--cost", falling}), "cost.csv");
  ExpectError(with({trace, "--column", "n", "-o", trace}), "over an input");
  ExpectError(Tune({trace, "--column", "n", "--buckets", "17", "--limit", "16"}), "17");
  ExpectError(Tune({trace, "--column", "n", "--buckets", "2", "--limit", "2"}), "limit");
  ExpectError(Tune({trace, "--column", "n", "--buckets", "2", "--max-ratio", "0.5"}), "0.5");
  ExpectError(
      Tune({trace, "--column", "n", "--buckets", "2", "--limit", "512", "--max-ratio", "1.25"}),
      "max_ratio");
  ExpectError(Tune({trace, "--column", "n", "--buckets", "2", "--prior", "1"}), "share");
  ExpectError(Tune({"score", later, trace, "--column", "n"}), "later.json");
  ExpectError(Tune({"score", unsorted, trace, "--column", "n"}), "unsorted.json");
  ExpectError(Tune({"score", "nobody", trace, "--column", "n"}), "nobody");
  ExpectError(Tune({"score", Path("none.json"), trace, "--column", "n"}), "none.json");
  ExpectError(Tune({"simulate", trace}), "input_tokens");
  ExpectError(Tune({"simulate", Write("zero.csv", "input_tokens,output_tokens\n0,5\n")}),
              "zero.csv:2");
  ExpectError(Tune({"simulate", Write("some.csv",
                                      "arrival_seconds,input_tokens,output_tokens\n"
                                      "1,2,3\n,4,5\n")}),
              "some.csv:3");
  ExpectError(Tune({"simulate", WriteRequests(3), "--load", "0"}), "loads");
}

TEST_F(TuneTest, LaddersOfNoSystemEndAtTheLargestSize) {
  const std::string trace = Write("t.csv", "n\n1\n5\n17\n600\n");
  for (const char* ladder : {"pow2", "linear:128", "geometric:1.25:1", "geometric", "ramp:4:16"}) {
    const Json score = JsonOf(Tune({"score", ladder, trace, "--column", "n", "--json"}));
    EXPECT_EQ(score["limit"], 600) << ladder;
    EXPECT_EQ(score["calls_beyond"], 0) << ladder;
  }
  ExpectError(Tune({"score", "linear:0", trace, "--column", "n"}), "step 0 is below 1");
  ExpectError(Tune({"score", "geometric:1:1", trace, "--column", "n"}), "ratio 1 is outside");
}

TEST_F(TuneTest, StepsAreNotWrittenOverThePolicyThatTheyBeginWith) {
  const std::string text = R"({"version": 1, "buckets": [8, 512]})";
  const std::string start = Write("start.json", text);
  const std::string link = Path("link.csv");
  std::filesystem::create_symlink(start, link);
  for (const std::string& output : {start, link}) {
    ExpectError(Tune({"simulate", WriteRequests(5), "--steps", "10", "--relearn", "--start", start,
                      "-o", output}),
                "would be written over an input");
    EXPECT_EQ(Read(start), text);
  }
  ExpectError(Tune({"simulate", WriteRequests(5), "--steps", "10", "--relearn", "--start", link,
                    "-o", start}),
              "would be written over an input");
  // Also where nothing reads it.
  ExpectError(Tune({"simulate", WriteRequests(5), "--steps", "10", "--start", start, "-o", start}),
              "would be written over an input");
  EXPECT_EQ(Read(start), text);
}

TEST_F(TuneTest, StepsThatTakeNoTimeAreRefused) {
  const std::string trace = Write("one.csv", "input_tokens,output_tokens\n100,4\n");
  const std::vector<std::string> times = {"--overhead-us", "--weights-us", "--token-us", "--kv-ns",
                                          "--pair-ns"};
  const auto simulate = [&](const std::string& kept, const std::string& load = "0.7") {
    std::vector<std::string> arguments = {"simulate", trace, "--steps", "10", "--load", load};
    for (const std::string& time : times)
      arguments.insert(arguments.end(), {time, time == kept ? "1" : "0"});
    return Tune(arguments);
  };
  ExpectError(simulate("none"), "a step takes no time; set one of --overhead-us, ");
  for (const std::string& time : times)
    EXPECT_EQ(simulate(time).code, kExitOk) << time;
  ExpectError(simulate("--kv-ns", "1e-300"), "too short or too long");
  ExpectError(
      Tune({"simulate",
            Write("far.csv", "arrival_seconds,input_tokens,output_tokens\n0,2,3\n1e300,4,5\n")}),
      "too short or too long");
}

TEST_F(TuneTest, CostsWhoseSumsAreNoNumbersAreRefused) {
  const std::string trace = Write("t.csv", "n\n3\n100\n200\n");
  const std::string policy = Path("policy.json");
  const auto learn = [&](const std::string& table) {
    const CommandOutcome outcome = Tune({trace, "--column", "n", "--buckets", "2", "--cost",
                                         Write("cost.csv", table), "-o", policy});
    EXPECT_FALSE(std::filesystem::exists(policy));
    return outcome;
  };
  ExpectError(learn("size,cost\n1,1e308\n256,1e308\n"), "the costs add up to inf");
  ExpectError(learn("size,cost\n1,1e300\n200,1e308\n"), "the cost of all calls may be inf");
  ExpectError(learn("size,cost\n200,1e306\n"), "the cost of all calls may be");
  ExpectError(Tune({trace, "--column", "n", "--buckets", "2", "--limit", "300", "--cost",
                    Write("cost.csv", "size,cost\n200,1e-300\n300,1e100\n")}),
              "nearer to each other");
  ExpectError(Tune({"score", "pow2", trace, "--column", "n", "--cost",
                    Write("cost.csv", "size,cost\n1,1e307\n256,1.7e308\n")}),
              "cost.csv: ");
  const std::string heavy = Write("heavy.csv", "n,m,count\n300,200,1e305\n");
  ExpectError(Tune({heavy, "--column", "n", "--buckets", "1"}), "give smaller counts");
  ExpectError(Tune({heavy, "--column", "n", "--column", "m", "--buckets", "1"}),
              "give smaller counts");
  ExpectError(Tune({"score", "pow2/pow2", heavy, "--column", "n", "--column", "m"}),
              "give smaller counts");
}

TEST_F(TuneTest, ACostTableHasOneCostOfASizeAndEachIsANumber) {
  const std::string trace = Write("t.csv", "n\n3\n");
  const auto learn = [&](const std::string& table) {
    return Tune({trace, "--column", "n", "--buckets", "1", "--cost", Write("cost.csv", table)});
  };
  ExpectError(learn("size,cost\n4,1\n8,2\n4,3\n"),
              "cost.csv:4: size 4 costs 3, but 1 in an earlier row");
  EXPECT_EQ(learn("size,cost\n4,1\n8,2\n4,1\n").code, kExitOk);
  ExpectError(learn("size,cost\n4,nan\n"), "cost.csv:2: cost is 'nan', not a cost");
  ExpectError(learn("size,cost\n4,-5\n"), "cost.csv:2: cost is '-5', not a cost");
  ExpectError(Tune({trace, "--column", "n", "--buckets", "1", "--cost", Path("none.csv")}),
              "give the path of a table of costs");
}

TEST_F(TuneTest, OnlyTheColumnCountMayBeMissing) {
  const std::string trace = Write("t.csv", "n,m,w\n3,1,2\n5,2,1\n");
  const std::vector<std::vector<std::string>> commands = {
      {trace, "--column", "n", "--buckets", "1"},
      {"score", "pow2", trace, "--column", "n"},
      {trace, "--column", "n", "--column", "m", "--buckets", "1"},
      {"score", "pow2/pow2", trace, "--column", "n", "--column", "m"}};
  for (std::vector<std::string> command : commands) {
    EXPECT_EQ(Tune(command).code, kExitOk);
    command.insert(command.end(), {"--weight", "w"});
    EXPECT_EQ(Tune(command).code, kExitOk);
    command.back() = "nosuch";
    ExpectError(Tune(command), "there is no column nosuch; the columns are 'n', 'm', 'w'");
    command.back() = "count";
    ExpectError(Tune(command), "there is no column count");
    command.back() = "n";
    ExpectError(Tune(command), "--weight n: this is a column of sizes");
  }
}

TEST_F(TuneTest, AColumnOfSizesIsNoWeightOfItself) {
  for (const std::string& trace :
       {Write("t.csv", "count\n3\n5\n"), Write("t.jsonl", "{\"count\": 3}\n{\"count\": 5}\n")})
    EXPECT_EQ(JsonOf(Tune({trace, "--column", "count", "--buckets", "2", "--json"}))["calls"], 2);
}

TEST_F(TuneTest, PairsWithoutABucketAreSaid) {
  const std::string trace = Write("t.csv", "a,b\n1,10\n2,20\n2,30\n9,5\n");
  std::vector<std::string> learn = {trace,       "--column", "a",       "--column", "b",
                                    "--buckets", "3",        "--limit", "4,20"};
  CommandOutcome outcome = Tune(learn);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("50.00 % of the calls are above the limit and have no bucket: "
                                     "--limit 9,30 holds all calls."));
  learn.back() = "9,30";
  EXPECT_THAT(Tune(learn).out, Not(HasSubstr("have no bucket")));
  learn.insert(learn.end(), {"--product", "50"});
  outcome = Tune(learn);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("25.00 % of the calls are in no bucket of up to 50 elements"));
}

TEST_F(TuneTest, OptionsThatWouldHaveNoPartAreRefused) {
  const std::string trace = Write("t.csv", "a,b\n1,10\n2,20\n");
  const std::string joint = Write("joint.json", R"({"version": 1, "buckets": [[2, 20]]})");
  const std::vector<std::string> pair = {trace, "--column", "a", "--column", "b"};
  const auto with = [&](std::vector<std::string> first, const std::vector<std::string>& last) {
    first.insert(first.end(), pair.begin(), pair.end());
    first.insert(first.end(), last.begin(), last.end());
    return Tune(first);
  };
  ExpectError(with({}, {"--buckets", "2", "--max-gap", "3"}), "--max-gap");
  for (const char* pairs : {"--limit", "--align", "--max-ratio", "--max-gap"})
    ExpectError(Tune({trace, "--column", "a", "--buckets", "2", pairs, "2,2"}), pairs);
  ExpectError(Tune({trace, "--column", "a", "--buckets", "2", "--force", "1x2"}), "--force AxB");
  EXPECT_EQ(with({"score", joint}, {}).code, kExitOk);
  ExpectError(with({"score", joint}, {"--limit", "4,4"}), "joint.json has a limit of its own");
  ExpectError(Tune({"score", "vllm", trace, "--column", "a", "--limit", "1,2"}),
              "--limit has 2 numbers for one column");
  ExpectError(Tune({trace, "--column", "x", "--column", "x", "--buckets", "2"}),
              "--column x is given twice");
}

TEST_F(TuneTest, OptionsOfRelearningAreCheckedBeforeAnyStep) {
  const std::string steps = Path("steps.csv");
  const auto simulate = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"simulate", WriteRequests(5), "--steps", "10", "-o",
                                          steps,      "--relearn"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const CommandOutcome outcome = Tune(arguments);
    EXPECT_EQ(std::filesystem::exists(steps), outcome.code == kExitOk);
    return outcome;
  };
  ExpectError(simulate({"--buckets", "1"}),
              "(by default the limit of --seqs, --max-ratio 1.5, --max-gap 2)");
  ExpectError(simulate({"--buckets", "100000"}),
              "100000 buckets are requested, but only 512 sizes");
  ExpectError(simulate({"--limit", "10"}),
              "25 buckets are requested, but only 10 sizes can be buckets; give a smaller number "
              "(by default --buckets 25, ");
  ExpectError(simulate({"--align", "600"}), "--relearn: ");
  ExpectError(simulate({"--start", "exact"}), "--start exact: the policy `exact` pads nothing");
  ExpectError(simulate({"--start", "square"}), "--start: ");
  EXPECT_EQ(simulate({"--limit", "10", "--buckets", "8"}).code, kExitOk);
}

TEST_F(TuneTest, HelpSetsNamesOfSystemsApart) {
  EXPECT_THAT(Tune({"score", "--help"}).out, HasSubstr("  sglang-piecewise-pre2026  every 4"));
}

TEST_F(TuneTest, AFileThatCannotBeWrittenIsAnErrorOfItsOwn) {
  const CommandOutcome outcome = Tune({Write("t.csv", "n\n3\n"), "--column", "n", "--buckets", "1",
                                       "-o", Path("no/such/folder.json")});
  EXPECT_EQ(outcome.code, kExitOutput);
}

TEST(RelearnRunTest, CountsWasteByTheLadderOfTheTime) {
  // 1000 calls of 9 in a bucket of 16; after that the ladder has 9.
  std::vector<int64_t> sizes(2000, 9);
  sizes.push_back(17);  // Beyond the limit.
  const RelearnRunOptions options = {
      .relearn = {.learn = {.limit = 16, .count = 3, .prior = 0}, .added_max = 1},
      .period = 1000,
      .half_life = 1000};
  COPPICE_ASSERT_OK_AND_ASSIGN(const RelearnRun run,
                               RunRelearning(sizes, std::vector<int64_t>{4, 8, 16}, options));
  ASSERT_EQ(run.swaps.size(), 1U);
  EXPECT_EQ(run.swaps[0].call, 1000);
  EXPECT_THAT(run.swaps[0].relearned.added, ElementsAre(9));
  EXPECT_DOUBLE_EQ(run.waste_pct, 100.0 * 7 / 18);
  EXPECT_DOUBLE_EQ(run.waste_at_rest_pct, 100.0 * 7 / 9);
  EXPECT_EQ(run.recorded, 1);
  EXPECT_EQ(run.beyond, 1);
  ASSERT_EQ(run.periods.size(), 3U);
  EXPECT_EQ(run.periods[1].padded, run.periods[1].real);
}

}  // namespace
}  // namespace coppice
