// Goal: `coppice prof policy` says of real calls what each size's padding costs, and what other
// ladders would; `coppice prof drop` what dropping buckets frees and costs. Method: traces written
// by hand, whose figures are computed here; ladders against the padding library.

#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

#include "coppice/padding/learn_buckets.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/score_buckets.h"

#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using Json = nlohmann::json;
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
  trace.Line(R"({{"program":1,"name":"mix","variant":"","symbols":["rows","columns"]}})");
  trace.Bucket(0, 4);
  trace.Bucket(0, 8);
  trace.Line(R"({{"bucket":2,"program":1,"lane":0,"extents":[2,64]}})");
  int call = 0;
  const auto add = [&](int bucket, const char* path, int program, const std::string& extents) {
    trace.Event(
        "call", 0,
        fmt::format(R"({},{},-1,"{}","none",1,1,{},[{}])", ++call, bucket, path, program, extents));
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
  EXPECT_THAT(text,
              HasSubstr("program decode, size batch: 7 calls up to 40, 6 of them in a bucket"));
  EXPECT_THAT(text, HasSubstr("as it ran"));
  EXPECT_THAT(text, HasSubstr("33.33 %"));
  EXPECT_THAT(text, HasSubstr("vllm"));
  EXPECT_THAT(text, Not(HasSubstr("mix")));
}

TEST(ProfPolicyTest, TracesWithoutSizesAreNoted) {
  EXPECT_THAT(TextOf({"policy"}, CleanTrace()), HasSubstr("note: 8 calls do not say their sizes"));
  EXPECT_EQ(JsonOf({"policy"}, CleanTrace())["calls_without_sizes"], 8);
}

TEST(ProfPolicyTest, OtherProgramsAndFilesAreRefused) {
  const TemporaryFile file(Traffic().Text());
  for (const char* view : {"policy", "drop"}) {
    const CommandOutcome other = RunCoppice({"prof", view, file.path(), "--program", "none"});
    EXPECT_EQ(other.code, kExitUsage);
    EXPECT_THAT(other.err, HasSubstr("there are: decode, mix"));
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

}  // namespace
}  // namespace coppice
