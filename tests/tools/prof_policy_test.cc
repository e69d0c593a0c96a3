// Goal: `coppice prof policy` says of real calls what each size's padding costs, and what other
// ladders would; `coppice prof drop` what dropping buckets frees and costs. Method: traces written
// by hand, whose figures are computed here; ladders against the padding library.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

#include "coppice/graphs/session_documents.h"
#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/score_buckets.h"

#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using Json = nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Json JsonOf(std::vector<std::string> arguments, const TraceBuilder& trace) {
  const TemporaryFile file(trace.Text());
  arguments.insert(arguments.begin(), "prof");
  arguments.insert(arguments.begin() + 2, file.path());
  arguments.push_back("--json");
  const CommandOutcome outcome = RunCoppice(arguments);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  return Json::parse(outcome.out);
}

std::string TextOf(std::vector<std::string> arguments, const TraceBuilder& trace) {
  const TemporaryFile file(trace.Text());
  arguments.insert(arguments.begin(), "prof");
  arguments.insert(arguments.begin() + 2, file.path());
  const CommandOutcome outcome = RunCoppice(arguments);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  return outcome.out;
}

// Calls of two programs: `decode` of a batch, in buckets 4 and 8, and one beyond them; `mix` of two
// sizes.
TraceBuilder Traffic() {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Line(R"({{"program":1,"name":"mix","variant":"","symbols":["rows","columns"],"scalars":[],)"
             R"("spec":{{}},"policies":[],"joint":[]}})");
  trace.Bucket(0, 4);
  trace.Bucket(0, 8);
  trace.Line(R"({{"bucket":2,"program":1,"lane":0,"extents":[2,64],"scalars":[]}})");
  int call = 0;
  const auto add = [&](int bucket, const char* path, int program, const std::string& extents) {
    trace.Event("call", 0,
                fmt::format(R"({},{},-1,"{}","none",1,1,{},[{}],-1,"borrow")", ++call, bucket, path,
                            program, extents));
  };
  for (const int batch : {3, 3, 4, 1})
    add(0, "replay", 0, fmt::format("{}", batch));
  for (const int batch : {5, 8})
    add(1, "replay", 0, fmt::format("{}", batch));
  add(-1, "eager", 0, "40");
  add(2, "warm_up", 1, "1,50");
  return trace;
}

TEST(ProfPolicyTest, SumsAreThoseOfTheCallsInBuckets) {
  const Json programs = JsonOf({"policy"}, Traffic())["programs"];
  ASSERT_EQ(programs.size(), 2U);
  const Json batch = programs[0]["symbols"][0];
  EXPECT_EQ(batch["symbol"], "batch");
  EXPECT_EQ(batch["calls"], 7);
  EXPECT_EQ(batch["bucketed_calls"], 6);
  EXPECT_EQ(batch["largest"], 40);
  EXPECT_EQ(batch["real_elements"], 3 + 3 + 4 + 1 + 5 + 8);
  EXPECT_EQ(batch["padded_elements"], 4 * 4 + 2 * 8);
  EXPECT_DOUBLE_EQ(batch["waste_pct"], 100.0 * (32 - 24) / 24);
  EXPECT_EQ(batch["buckets"], Json({4, 8}));
  EXPECT_EQ(programs[1]["symbols"][0]["padded_elements"], 2);
  EXPECT_EQ(programs[1]["symbols"][1]["padded_elements"], 64);
  EXPECT_EQ(programs[1]["symbols"][1]["real_elements"], 50);
}

TEST(ProfPolicyTest, CandidatesAreScoredOnAllCalls) {
  const Json batch = JsonOf({"policy"}, Traffic())["programs"][0]["symbols"][0];
  const std::vector<int64_t> all = {3, 3, 4, 1, 5, 8, 40};
  const SizeHistogram sizes = *SizeHistogram::FromSizes(all);
  int presets = 0;
  int learned = 0;
  double before = 0;
  for (const Json& candidate : batch["candidates"]) {
    EXPECT_GE(candidate["waste_pct"], before) << "the least waste first";
    before = candidate["waste_pct"];
    const int64_t buckets = candidate["buckets"];
    if (candidate["policy"] == "learned") {
      ++learned;
      EXPECT_DOUBLE_EQ(candidate["waste_pct"],
                       LearnBuckets(sizes, {.limit = 40, .count = buckets})->waste_pct);
      continue;
    }
    ++presets;
    const PolicyScore score =
        ScoreBuckets(sizes, *PaddingPolicy::Parse(candidate["policy"].get<std::string>(), 40));
    EXPECT_DOUBLE_EQ(candidate["waste_pct"], score.waste_pct);
    EXPECT_EQ(buckets, score.buckets);
  }
  EXPECT_GT(presets, 5);
  EXPECT_GT(learned, 1);
}

TEST(ProfPolicyTest, TextSaysWhatTheJsonSays) {
  const std::string text = TextOf({"policy", "--program", "decode"}, Traffic());
  EXPECT_THAT(
      text,
      HasSubstr("program decode, size batch: 7 calls of sizes up to 40, 6 of them in a bucket"));
  EXPECT_THAT(text, HasSubstr("as it ran"));
  EXPECT_THAT(text, HasSubstr("33.33 %"));
  EXPECT_THAT(text, HasSubstr("vllm"));
  EXPECT_THAT(text, Not(HasSubstr("mix")));
}

TEST(ProfPolicyTest, OtherProgramsAndFilesAreRefused) {
  const TemporaryFile file(Traffic().Text());
  for (const char* view : {"policy", "drop"}) {
    const CommandOutcome other = RunCoppice({"prof", view, file.path(), "--program", "none"});
    EXPECT_EQ(other.code, kExitUsage);
    EXPECT_THAT(other.err, HasSubstr("its programs are decode, mix"));
    EXPECT_EQ(RunCoppice({"prof", view, "no/such/file"}).code, kExitUsage);
  }
}

// Plans of 3, 2 and 1 granules and a bit in one lane, and one in another; granules have 4096 bytes.
TraceBuilder Plans() {
  TraceBuilder trace(/*lanes=*/2);
  trace.Program("decode");
  trace.Bucket(0, 8);
  trace.Bucket(0, 4);
  trace.Bucket(0, 2);
  trace.Bucket(0, 2, /*lane=*/1);
  const int64_t heights[] = {4 * 4096, 9000, 8200, 4096};
  int call[2] = {0, 0};
  for (int bucket = 0; bucket < 4; ++bucket) {
    const int lane = bucket == 3 ? 1 : 0;
    trace.Node({.bucket = bucket,
                .height = heights[bucket],
                .live = heights[bucket],
                .buffers = {{0, heights[bucket], 0, {0, 1}}}});
    trace.Event("record", lane, fmt::format("{}", bucket));
    for (int i = 0; i <= bucket; ++i)
      trace.Call(++call[lane], bucket, bucket, "replay", "none", lane);
  }
  return trace;
}

Json RowOf(const Json& rows, int bucket) {
  for (const Json& row : rows)
    if (row["bucket"] == bucket) return row;
  ADD_FAILURE() << "no row for bucket " << bucket;
  return {};
}

TEST(ProfDropTest, FreesGranulesThatNothingElseNeeds) {
  const Json rows = JsonOf({"drop"}, Plans())["buckets"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(RowOf(rows, 0)["mapped_bytes"], 4096) << "the next one takes three granules";
  EXPECT_EQ(RowOf(rows, 0)["mapped_bytes_with_higher"], 4096);
  EXPECT_EQ(RowOf(rows, 1)["mapped_bytes"], 0);
  EXPECT_EQ(RowOf(rows, 1)["mapped_bytes_with_higher"], 4096) << "the third takes as many granules";
  EXPECT_EQ(RowOf(rows, 2)["mapped_bytes"], 0);
  EXPECT_EQ(RowOf(rows, 2)["mapped_bytes_with_higher"], 4 * 4096);
  EXPECT_EQ(RowOf(rows, 3)["mapped_bytes"], 4096) << "alone in its lane";
  EXPECT_EQ(rows[0]["bucket"], 0) << "the most bytes per call first";
}

TEST(ProfDropTest, SaysWhereTheCallsWouldGo) {
  const Json rows = JsonOf({"drop"}, Plans())["buckets"];
  EXPECT_EQ(RowOf(rows, 2)["served_by"], 1);
  EXPECT_EQ(RowOf(rows, 2)["padding_factor"], 2);
  EXPECT_EQ(RowOf(rows, 0)["served_by"], nullptr);
  EXPECT_EQ(RowOf(rows, 3)["served_by"], nullptr) << "no other is in its lane";
  EXPECT_EQ(RowOf(rows, 1)["calls"], 2);
  const std::string text = TextOf({"drop"}, Plans());
  EXPECT_THAT(text, HasSubstr("nothing: eager"));
  EXPECT_THAT(text, HasSubstr("x 2.00"));
}

TEST(ProfDropTest, WhatIsEvictedFreesNothing) {
  TraceBuilder trace = Plans();
  trace.Event("evict", 0, "0");
  const Json rows = JsonOf({"drop"}, trace)["buckets"];
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(RowOf(rows, 1)["mapped_bytes"], 0) << "the third takes as many granules";
  EXPECT_EQ(RowOf(rows, 1)["mapped_bytes_with_higher"], 0);
  EXPECT_EQ(RowOf(rows, 2)["mapped_bytes_with_higher"], 3 * 4096);
}

TEST(ProfDropTest, OnlyBucketsOfEqualScalarsServe) {
  TraceBuilder trace;
  trace.Program("p");
  trace.Line(R"({{"bucket":0,"program":0,"lane":0,"extents":[8],"scalars":[1]}})");
  trace.Line(R"({{"bucket":1,"program":0,"lane":0,"extents":[4],"scalars":[2]}})");
  for (int bucket = 0; bucket < 2; ++bucket) {
    trace.Node({.bucket = bucket, .height = 64, .live = 64, .buffers = {{0, 64, 0, {0, 1}}}});
    trace.Event("record", 0, fmt::format("{}", bucket));
  }
  const Json rows = JsonOf({"drop"}, trace)["buckets"];
  ASSERT_EQ(rows.size(), 2U);
  for (const Json& row : rows)
    EXPECT_EQ(row["served_by"], nullptr);
}

// The plans above, of a program whose one symbol `policy` pads, in a trace that says so.
struct PaddedPlans {
  explicit PaddedPlans(const std::string& policy,
                       const std::string& symbols = R"("batch")",
                       const std::string& joint = "") {
    const int count = symbols == R"("batch")" ? 1 : 2;
    ProgramSpec spec{.name = "decode", .claim = PaddingContents::kAny};
    for (int symbol = 0; symbol < count; ++symbol)
      spec.AddSymbol(fmt::format("s{}", symbol), *PaddingPolicy::Pow2(8), SymbolKind::kDynamic);
    const std::string policies = count == 2 ? policy + "," + policy : policy;
    trace.Line(R"({{"program":0,"name":"decode","variant":"","symbols":[{}],"scalars":[],)"
               R"("spec":{},"policies":[{}],"joint":[{}]}})",
               symbols, WriteSpecDocument(spec), policies, joint);
    const int64_t heights[] = {4 * 4096, 9000, 8200};
    for (int bucket = 0; bucket < 3; ++bucket) {
      trace.Line(R"({{"bucket":{},"program":0,"lane":0,"extents":[{}{}],"scalars":[]}})", bucket,
                 8 >> bucket, count == 2 ? ",1" : "");
      trace.Node({.bucket = bucket,
                  .height = heights[bucket],
                  .live = heights[bucket],
                  .buffers = {{0, heights[bucket], 0, {0, 1}}}});
      trace.Event("record", 0, fmt::format("{}", bucket));
      trace.Event("call", 0,
                  fmt::format(R"({0},{1},{1},"replay","none",6,8,0,[6{2}],-1,"borrow")", bucket + 1,
                              bucket, count == 2 ? ",1" : ""));
    }
  }

  // The batch is padded by `policy` from `time_ns` on.
  void Change(int64_t time_ns, const std::string& policy) {
    trace.Line(R"({{"policy":{},"document":{}}})", changes, policy);
    trace.Line(R"([{},"policy",-1,0,0,{}])", time_ns, changes++);
  }

  TraceBuilder trace;
  int changes = 0;
};

TEST(ProfPolicyTest, OtherLaddersGoUpToTheMaximumOfThePolicy) {
  PaddedPlans plans(R"({"version":1,"buckets":[2,4,8,12,32]})");
  plans.trace.Line(R"({{"bucket":3,"program":0,"lane":0,"extents":[12],"scalars":[]}})");
  plans.trace.Event("call", 0, R"(4,3,-1,"warm_up","new_bucket",9,12,0,[9],-1,"borrow")");
  const auto waste_of_pow2 = [&](int64_t maximum) {
    const Json batch = JsonOf({"policy"}, plans.trace)["programs"][0]["symbols"][0];
    EXPECT_EQ(batch["maximum"], maximum);
    for (const Json& candidate : batch["candidates"])
      if (candidate["policy"] == "pow2") return candidate["waste_pct"].get<double>();
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(waste_of_pow2(32), 100 * 13 / 27.0) << "6 goes to 8, 9 to 16";
  plans.Change(9'000'000, R"({"version":1,"buckets":[12]})");
  EXPECT_DOUBLE_EQ(waste_of_pow2(12), 100 * 9 / 27.0) << "6 goes to 8, 9 to 12";
  EXPECT_THAT(TextOf({"policy"}, plans.trace), HasSubstr("; the ladders below go up to 12\n"));
}

constexpr const char* kUpTo16 = R"({"version":1,"buckets":[2,4,8,16]})";
constexpr const char* kUpTo8 = R"({"version":1,"buckets":[2,4,8]})";

TEST(ProfDropTest, TheNextBucketOfThePolicyServesAlsoIfItIsNotRecorded) {
  const PaddedPlans plans(kUpTo16);
  const Json rows = JsonOf({"drop"}, plans.trace)["buckets"];
  ASSERT_EQ(rows.size(), 3U);
  const Json highest = RowOf(rows, 0);
  EXPECT_EQ(highest["policy_known"], true);
  EXPECT_EQ(highest["served_by"], nullptr) << "16 has no graph";
  EXPECT_EQ(highest["served_by_extents"], Json({16}));
  EXPECT_EQ(highest["records_another"], true);
  EXPECT_EQ(highest["padding_factor"], 2);
  EXPECT_EQ(highest["mapped_bytes"], 0) << "16 is at least as high";
  EXPECT_EQ(highest["mapped_bytes_with_higher"], 4096);
  EXPECT_EQ(highest["exec_bytes"], 0) << "16 has a graph then";
  EXPECT_EQ(rows[2]["bucket"], 0) << "what frees nothing comes last";
  const std::string text = TextOf({"drop"}, plans.trace);
  EXPECT_THAT(text, ContainsRegex("decode 16, not recorded +x 2.00"));
  EXPECT_THAT(text, HasSubstr("nothing is freed"));
}

TEST(ProfDropTest, ABucketWithoutCallsIsFreeWhateverItsPolicyGoesOnTo) {
  PaddedPlans plans(kUpTo16);
  plans.trace.Line(R"({{"bucket":3,"program":0,"lane":0,"extents":[12],"scalars":[]}})");
  plans.trace.Node(
      {.bucket = 3, .height = 20000, .live = 20000, .buffers = {{0, 20000, -1, {0, 1}}}});
  plans.trace.Event("record", 0, "3");
  const Json unused = RowOf(JsonOf({"drop"}, plans.trace)["buckets"], 3);
  EXPECT_EQ(unused["calls"], 0);
  EXPECT_EQ(unused["served_by_extents"], Json({16}));
  EXPECT_EQ(unused["records_another"], false);
  EXPECT_EQ(unused["mapped_bytes"], 4096);
  EXPECT_EQ(unused["exec_bytes"], 1000);
}

TEST(ProfDropTest, TheNextBucketOfThePolicyThatIsRecordedServes) {
  const Json rows = JsonOf({"drop"}, PaddedPlans(kUpTo16).trace)["buckets"];
  const Json lowest = RowOf(rows, 2);
  EXPECT_EQ(lowest["served_by"], 1);
  EXPECT_EQ(lowest["served_by_extents"], Json({4}));
  EXPECT_EQ(lowest["records_another"], false);
  EXPECT_EQ(lowest["padding_factor"], 2);
  EXPECT_EQ(lowest["exec_bytes"], 1000);
  // 6 lies between 4 and 8, so that 4 does not go to 8, which is recorded.
  const PaddedPlans between(R"({"version":1,"buckets":[2,4,6,8]})");
  const Json middle = RowOf(JsonOf({"drop"}, between.trace)["buckets"], 1);
  EXPECT_EQ(middle["served_by"], nullptr);
  EXPECT_EQ(middle["served_by_extents"], Json({6}));
  EXPECT_EQ(middle["padding_factor"], 1.5);
}

TEST(ProfDropTest, AboveThePolicyCallsRunEagerly) {
  const PaddedPlans plans(kUpTo8);
  const Json highest = RowOf(JsonOf({"drop"}, plans.trace)["buckets"], 0);
  EXPECT_EQ(highest["policy_known"], true);
  EXPECT_EQ(highest["served_by"], nullptr);
  EXPECT_EQ(highest["served_by_extents"], nullptr);
  EXPECT_EQ(highest["records_another"], false);
  EXPECT_EQ(highest["mapped_bytes"], 4096);
  EXPECT_EQ(highest["exec_bytes"], 1000);
  const std::string text = TextOf({"drop"}, plans.trace);
  EXPECT_THAT(text, HasSubstr("nothing: eager"));
  EXPECT_THAT(text, Not(HasSubstr("not recorded")));
}

TEST(ProfDropTest, CallsThatTheGuardRefusesRunEagerly) {
  const auto highest = [](const char* guard) {
    const PaddedPlans plans(
        fmt::format(R"({{"version":1,"buckets":[2,4,8,16],"guard":{}}})", guard));
    return RowOf(JsonOf({"drop"}, plans.trace)["buckets"], 0);
  };
  EXPECT_EQ(highest(R"({"max_ratio":"1.5"})")["mapped_bytes"], 4096);
  EXPECT_EQ(highest(R"({"max_ratio":"1.5"})")["served_by_extents"], nullptr);
  EXPECT_EQ(highest(R"({"max_ratio":"2"})")["served_by_extents"], Json({16}));
  EXPECT_EQ(highest(R"({"max_ratio":"1.5","min_replay_size":9})")["served_by_extents"], Json({16}));
  EXPECT_EQ(highest(R"({"lower_bounds":[0,0,0,9]})")["served_by_extents"], nullptr);
  EXPECT_EQ(highest(R"({"lower_bounds":[0,0,0,8]})")["served_by_extents"], Json({16}));
}

TEST(ProfDropTest, TheLatestPolicyCounts) {
  const auto server = [](const PaddedPlans& plans) {
    return RowOf(JsonOf({"drop"}, plans.trace)["buckets"], 0)["served_by_extents"];
  };
  PaddedPlans later(kUpTo8);
  later.Change(50'000, kUpTo16);
  EXPECT_EQ(server(later), Json({16}));
  later.Change(40'000, R"({"version":1,"buckets":[8,32]})");
  EXPECT_EQ(server(later), Json({16})) << "later in the file, but earlier";
  later.Change(50'000, R"({"version":1,"ladder":"linear:12","maximum":24})");
  EXPECT_EQ(server(later), Json({12})) << "at the same time, later in the file";
  later.Change(60'000, kUpTo8);
  EXPECT_EQ(server(later), nullptr);
}

TEST(ProfDropTest, WithoutOnePolicyOnlyRecordedBucketsAreKnown) {
  const PaddedPlans several(kUpTo16, R"("rows","columns")");
  const PaddedPlans joint(R"({"version":1,"ladder":"exact","maximum":16})", R"("rows","columns")",
                          R"([0,1,{"version":1}])");
  const PaddedPlans exact(R"({"version":1,"ladder":"exact","maximum":16})");
  const PaddedPlans none(R"({"version":7})");
  for (const TraceBuilder& trace : {several.trace, joint.trace, exact.trace, none.trace}) {
    const Json rows = JsonOf({"drop"}, trace)["buckets"];
    EXPECT_EQ(RowOf(rows, 0)["policy_known"], false);
    EXPECT_EQ(RowOf(rows, 0)["served_by"], nullptr);
    EXPECT_EQ(RowOf(rows, 0)["records_another"], false);
    EXPECT_EQ(RowOf(rows, 0)["mapped_bytes"], 4096);
    EXPECT_EQ(RowOf(rows, 0)["exec_bytes"], 1000);
    EXPECT_EQ(RowOf(rows, 1)["served_by"], 0);
    EXPECT_EQ(RowOf(rows, 1)["served_by_extents"][0], 8);
  }
}

TEST(ProfDropTest, APolicyMayHaveMillionsOfBuckets) {
  const PaddedPlans plans(R"({"version":1,"ladder":"linear:1","maximum":16777216})");
  const Json rows = JsonOf({"drop"}, plans.trace)["buckets"];
  for (int bucket = 0; bucket < 3; ++bucket)
    EXPECT_EQ(RowOf(rows, bucket)["served_by_extents"], Json({(8 >> bucket) + 1}));
}

}  // namespace
}  // namespace coppice
