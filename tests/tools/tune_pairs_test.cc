// Goal: what `coppice tune` does with two columns, option by option. Method: the command in this
// process, on traffic made here.

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tests/tools/test_folder.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Json = nlohmann::json;

class TunePairsTest : public testing::Test, protected TestFolder {
 protected:
  TunePairsTest() {
    std::string text = "batch,length\n";
    for (int i = 0; i < 300; ++i)
      text += fmt::format("{},{}\n", 1 + i % 8, 100 + 13 * (i % 50));
    trace_ = Write("t.csv", text);
  }
  CommandOutcome Learn(std::vector<std::string> options) const {
    options.insert(options.begin(), {"tune", trace_, "--column", "batch", "--column", "length",
                                     "--limit", "8,1024"});
    return RunCoppice(options);
  }
  Json LearnJson(std::vector<std::string> options) const {
    options.push_back("--json");
    return JsonOf(Learn(options));
  }
  static void ExpectError(const CommandOutcome& outcome, const std::string& what) {
    EXPECT_EQ(outcome.code, kExitUsage) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(what), HasSubstr("; ")));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  std::string trace_;
};

TEST_F(TunePairsTest, ForcedPairsAreBuckets) {
  const Json buckets = LearnJson({"--buckets", "12", "--force", "3x777,5x64"})["buckets"];
  EXPECT_THAT(buckets, AllOf(Contains(Json({3, 777})), Contains(Json({5, 64}))));
  ExpectError(Learn({"--buckets", "12", "--force", "777"}), "give a pair such as 777x128");
  for (const char* none : {"3x", "x3", "3x0", "0x3", "3x4x5", "3x4,", "a"})
    ExpectError(Learn({"--buckets", "12", "--force", none}), "is not a list of sizes");
}

TEST_F(TunePairsTest, CapsAreOfEachColumn) {
  const auto rungs_of = [](const Json& buckets, size_t column) {
    std::vector<int64_t> rungs;
    for (const Json& bucket : buckets)
      rungs.push_back(bucket[column]);
    std::sort(rungs.begin(), rungs.end());
    rungs.erase(std::unique(rungs.begin(), rungs.end()), rungs.end());
    return rungs;
  };
  const auto expect_kept = [](const std::vector<int64_t>& rungs, double ratio, int64_t gap) {
    int64_t below = 0;
    for (const int64_t rung : rungs) {
      EXPECT_TRUE(static_cast<double>(rung) <= ratio * static_cast<double>(below + 1) ||
                  rung - below - 1 <= gap)
          << rung << " above " << below;
      below = rung;
    }
  };
  const Json both = LearnJson({"--buckets", "200", "--max-ratio", "1.5", "--max-gap", "2"});
  expect_kept(rungs_of(both["buckets"], 0), 1.5, 2);
  expect_kept(rungs_of(both["buckets"], 1), 1.5, 2);
  const Json each = LearnJson({"--buckets", "60", "--max-ratio", "2,1.25", "--max-gap", "1,64"});
  expect_kept(rungs_of(each["buckets"], 0), 2, 1);
  expect_kept(rungs_of(each["buckets"], 1), 1.25, 64);
  // One gap is for what is capped.
  const Json one = LearnJson({"--buckets", "60", "--max-ratio", "0,1.25", "--max-gap", "64"});
  expect_kept(rungs_of(one["buckets"], 1), 1.25, 64);
  ExpectError(Learn({"--buckets", "6", "--max-ratio", "1.25"}),
              "the caps, which need a grid of at least");
  ExpectError(Learn({"--buckets", "60", "--max-ratio", "0,1.25", "--max-gap", "2,64"}), "max_gap");
  ExpectError(Learn({"--buckets", "60", "--max-ratio", "1.25,0.5"}), "is not a pair of ratios");
  ExpectError(Learn({"--buckets", "60", "--max-ratio", "2", "--max-gap", "1,2,3"}), "3 numbers");
}

TEST_F(TunePairsTest, APriceFindsTheCount) {
  const auto count = [&](const std::string& price) {
    const Json learned = LearnJson({"--price", price});
    return learned["buckets"].size() - learned["doublings"].get<size_t>();
  };
  EXPECT_GT(count("1KiB"), count("64KiB"));
  EXPECT_EQ(count("1GiB"), 1U);
  const Json few = LearnJson({"--price", "1KiB", "--buckets", "5"});
  EXPECT_LE(few["buckets"].size(), 5U + few["doublings"].get<size_t>());
  ExpectError(Learn({}), "neither a count of buckets nor a price");
}

TEST_F(TunePairsTest, ACostIsThatOfElementsOrOfBothSizes) {
  // Lengths cost nothing up to 1024, so that no bucket is spent on them.
  const std::string rows =
      Write("rows.csv", "batch,length,cost\n1,1,1\n8,1,8\n1,1024,1\n8,1024,8\n");
  const std::string policy = Path("joint.json");
  const Json learned = LearnJson({"--buckets", "8", "--cost", rows, "-o", policy});
  EXPECT_EQ(learned["waste_pct"], 0);
  const std::vector<std::string> score = {"tune",  "score",    policy,   trace_,  "--column",
                                          "batch", "--column", "length", "--json"};
  EXPECT_GT(JsonOf(RunCoppice(score))["waste_pct"], 10);
  std::vector<std::string> with_cost = score;
  with_cost.insert(with_cost.end(), {"--cost", rows});
  const Json scored = JsonOf(RunCoppice(with_cost));
  EXPECT_EQ(scored["waste_pct"], 0);
  EXPECT_EQ(scored["per_bucket"][0]["cost"], scored["per_bucket"][0]["real_cost"]);
  // Up to 8192 elements all calls cost the same.
  const std::string flat = Write("flat.csv", "size,cost\n1,5\n8192,5\n");
  EXPECT_EQ(LearnJson({"--buckets", "1", "--cost", flat})["waste_pct"], 0);

  const auto refused = [&](const std::string& table, const std::string& what) {
    ExpectError(Learn({"--buckets", "8", "--cost", Write("bad.csv", table)}), what);
  };
  refused("batch,cost\n1,1\n", "there is no column length");
  refused("n,cost\n1,1\n", "there is no column size");
  refused("batch,length,cost\n1,1,1\n8,1024,8\n", "a row for each pair");
  refused("batch,length,cost\n1,1,1\n1,1,2\n", "bad.csv:3: size 1x1 costs 2, but 1");
  refused("batch,length,cost\n1,,1\n", "bad.csv:2: the row is incomplete");
  refused("batch,length,cost\n1,1,0\n", "all costs are 0");
  refused("batch,length,cost\n1,1,1e307\n8,1,1e308\n1,9,1e308\n8,9,1e308\n", "add up to inf");
  refused("batch,length,cost\n8,1024,1e307\n", "out of range");
}

TEST_F(TunePairsTest, DrawsCallsBucketsAndALegend) {
  const std::string plot = Path("plot.svg");
  CommandOutcome outcome = Learn({"--buckets", "6", "--force", "3x777", "--plot", plot});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  const std::string svg = Read(plot);
  EXPECT_THAT(svg, AllOf(StartsWith("<svg"), HasSubstr("batch x length: 300 calls"),
                         HasSubstr("bucket 3x777"), HasSubstr(">8x1024</text>"),
                         HasSubstr("of all padding"), HasSubstr("batch 1, length 1"),
                         HasSubstr(">calls</text>"), Not(HasSubstr("have no bucket"))));
  // With a rule, sizes have no bucket.
  outcome = Learn({"--buckets", "6", "--product", "1024", "--plot", plot});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(Read(plot), HasSubstr("calls have no bucket; those above the limit are not drawn"));
  outcome = Learn({"--buckets", "6", "--plot", Path("no/such.svg")});
  EXPECT_EQ(outcome.code, kExitOutput);
}

TEST_F(TunePairsTest, OneSizeOfEachColumnIsDrawnToo) {
  const std::string one = Write("one.csv", "a,b\n1,1\n");
  const std::string plot = Path("plot.svg");
  const CommandOutcome outcome =
      RunCoppice({"tune", one, "--column", "a", "--column", "b", "--buckets", "1", "--plot", plot});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(Read(plot), AllOf(HasSubstr("bucket 1x1: 1 calls"), Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace coppice
