// Goal: `coppice prof diff` says what changed between two traces, matched by name, and fails where
// too much grew. Method: a small trace, and the same with one thing changed.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CommandOutcome Diff(const TraceBuilder& before,
                    const TraceBuilder& after,
                    const std::vector<std::string>& options = {}) {
  const TemporaryFile first(before.Text(), "before");
  const TemporaryFile second(after.Text(), "after");
  std::vector<std::string> arguments = {"prof", "diff", first.path(), second.path()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return RunCoppice(arguments);
}

Json JsonOf(const TraceBuilder& before, const TraceBuilder& after) {
  const CommandOutcome outcome = Diff(before, after, {"--json"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  return Json::parse(outcome.out);
}

Json Find(const Json& rows, const std::string& what) {
  for (const Json& row : rows)
    if (row["what"] == what) return row;
  ADD_FAILURE() << "nothing changed of " << what;
  return {};
}

// More memory, one more replay, another reason and a bucket that was not there.
TraceBuilder Changed() {
  TraceBuilder trace = CleanTrace();
  trace.Bucket(0, 16);
  trace.Event("bytes", -1, R"("nodes",24576,40000)");
  trace.Call(9, 0, 0, "replay");
  trace.Call(10, 2, -1, "eager", "graph_limit");
  return trace;
}

TEST(ProfDiffTest, EqualTracesDifferInNothing) {
  const Json report = JsonOf(CleanTrace(), CleanTrace());
  for (const char* part : {"session", "reasons", "buckets", "grown"})
    EXPECT_TRUE(report[part].empty()) << part;
  const CommandOutcome text = Diff(CleanTrace(), CleanTrace(), {"--fail-over", "0"});
  EXPECT_EQ(text.code, kExitOk);
  EXPECT_THAT(text.out, HasSubstr("session: no change"));
}

TEST(ProfDiffTest, FiguresAreThoseOfTheSummaries) {
  const Json report = JsonOf(CleanTrace(), Changed());
  const Json nodes = Find(report["session"], "nodes, peak");
  EXPECT_EQ(nodes["before"], 12288);
  EXPECT_EQ(nodes["after"], 24576);
  EXPECT_EQ(nodes["delta"], 12288);
  EXPECT_EQ(nodes["unit"], "bytes");
  EXPECT_EQ(Find(report["session"], "total, peak")["after"], 40000);
  EXPECT_EQ(Find(report["session"], "calls, replay")["delta"], 1);
  EXPECT_EQ(Find(report["session"], "elements of padding")["delta"], 4);
}

TEST(ProfDiffTest, NewAndVanishedBucketsAndReasonsAreTold) {
  const Json forth = JsonOf(CleanTrace(), Changed());
  EXPECT_EQ(Find(forth["buckets"], "decode 16, calls")["before"], nullptr);
  EXPECT_EQ(Find(forth["buckets"], "decode 16, calls")["after"], 1);
  EXPECT_EQ(Find(forth["reasons"], "decode, graph_limit")["before"], nullptr);
  const Json back = JsonOf(Changed(), CleanTrace());
  EXPECT_EQ(Find(back["buckets"], "decode 16, calls")["after"], nullptr);
  const std::string text = Diff(CleanTrace(), Changed()).out;
  EXPECT_THAT(text, AllOf(HasSubstr("decode 16, calls"), HasSubstr("new"), HasSubstr("+100.0 %")));
  EXPECT_THAT(text, Not(HasSubstr("decode 4, calls"))) << "nothing changed there";
}

TEST(ProfDiffTest, RowsOfBucketsGoUpToTheLimit) {
  const std::string all = Diff(CleanTrace(), Changed()).out;
  EXPECT_THAT(all, Not(HasSubstr("give --limit")));
  const std::string cut = Diff(CleanTrace(), Changed(), {"--limit", "1"}).out;
  EXPECT_THAT(cut, HasSubstr("more; give --limit"));
  EXPECT_THAT(cut, HasSubstr("nodes, peak")) << "the session's are all there";
  EXPECT_LT(std::ranges::count(cut, '\n'), std::ranges::count(all, '\n'));
}

TEST(ProfDiffTest, GrowthOfMemoryOrPaddingFails) {
  const CommandOutcome failed = Diff(CleanTrace(), Changed(), {"--fail-over", "99.5"});
  EXPECT_EQ(failed.code, kExitMismatch);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("grew by more than 99.5 %"), HasSubstr("total, peak")));
  EXPECT_THAT(failed.out, HasSubstr("nodes, peak")) << "the report is printed all the same";
  EXPECT_EQ(Diff(CleanTrace(), Changed(), {"--fail-over", "500"}).code, kExitOk);
  EXPECT_EQ(Diff(Changed(), CleanTrace(), {"--fail-over", "0"}).code, kExitOk)
      << "what shrinks is fine";
  EXPECT_EQ(Diff(CleanTrace(), Changed()).code, kExitOk) << "nobody asked";
}

// The same memory in other buckets, of which one has a graph.
TraceBuilder OtherBuckets() {
  TraceBuilder trace = CleanTrace();
  trace.Bucket(0, 112);
  trace.Bucket(0, 16);
  trace.Call(9, 2, -1, "warm_up", "new_bucket");
  trace.Node({.bucket = 3, .height = 4096, .live = 4096, .buffers = {{0, 4096, -1, {0, 1}}}});
  trace.Event("record", 0, "3");
  trace.Call(10, 3, 3, "record", "new_bucket");
  return trace;
}

std::vector<std::string> WhatOf(const Json& rows) {
  std::vector<std::string> what;
  for (const Json& row : rows)
    what.push_back(row["what"]);
  return what;
}

TEST(ProfDiffTest, ABucketOfOneTraceDoesNotCountAsGrowth) {
  TraceBuilder after = OtherBuckets();
  TraceBuilder before = CleanTrace();
  before.Call(9, 0, 0, "replay");  // Two calls of as much padding.
  before.Call(10, 0, 0, "replay");
  const CommandOutcome outcome = Diff(before, after, {"--fail-over", "0"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("decode 16, plan height"), HasSubstr("new")));
  EXPECT_THAT(Diff(after, before).out,
              AllOf(HasSubstr("decode 16, plan height"), HasSubstr("gone")));
  after.Event("bytes", -1, R"("graphs",2000,18384)");
  const CommandOutcome costly = Diff(before, after, {"--fail-over", "0"});
  EXPECT_EQ(costly.code, kExitMismatch) << "the session's figures count what the bucket costs";
  EXPECT_THAT(costly.err, AllOf(HasSubstr("2 figures"), HasSubstr("total, peak")));
}

TEST(ProfDiffTest, ABucketOfBothTracesCountsAsGrowth) {
  TraceBuilder after = CleanTrace();
  after.Node({.bucket = 1, .height = 9000, .live = 9000, .buffers = {{0, 9000, -1, {0, 1}}}});
  after.Event("record", 0, "3");
  const CommandOutcome outcome = Diff(CleanTrace(), after, {"--fail-over", "0"});
  EXPECT_EQ(outcome.code, kExitMismatch);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("2 figures"), HasSubstr("decode 4, plan height")));
}

TEST(ProfDiffTest, BucketsComeByProgramAndThenByExtentsAsNumbers) {
  TraceBuilder after = OtherBuckets();
  after.Program("adapt");
  after.Bucket(1, 1000);
  after.Call(11, 4, -1, "warm_up", "new_bucket");
  TraceBuilder before = CleanTrace();
  before.Bucket(0, 32);
  before.Call(9, 2, -1, "warm_up", "new_bucket");
  std::vector<std::string> calls;
  for (const std::string& what : WhatOf(JsonOf(before, after)["buckets"]))
    if (what.ends_with(", calls")) calls.push_back(what);
  EXPECT_THAT(calls, testing::ElementsAre("adapt 1000, calls", "decode 16, calls",
                                          "decode 32, calls", "decode 112, calls"));
}

TEST(ProfDiffTest, ABucketWithoutAGraphHasNoFiguresOfGraphs) {
  const Json forth = JsonOf(CleanTrace(), OtherBuckets())["buckets"];
  EXPECT_THAT(WhatOf(forth),
              testing::ElementsAre("decode 16, calls", "decode 16, plan height",
                                   "decode 16, graphs*", "decode 16, elements of padding",
                                   "decode 112, calls", "decode 112, elements of padding"));
  // In both, and recorded in the second only.
  TraceBuilder warm = CleanTrace();
  warm.Bucket(0, 112);
  warm.Bucket(0, 16);
  warm.Call(9, 3, -1, "warm_up", "new_bucket");
  const Json recorded = Find(JsonOf(warm, OtherBuckets())["buckets"], "decode 16, plan height");
  EXPECT_EQ(recorded["before"], nullptr);
  EXPECT_EQ(recorded["after"], 4096);
  // All of its graphs evicted: it had a plan, and has no graph.
  TraceBuilder evicted = OtherBuckets();
  evicted.Event("evict", 0, "3");
  EXPECT_EQ(Find(JsonOf(OtherBuckets(), evicted)["buckets"], "decode 16, graphs*")["after"],
            nullptr);
}

// CleanTrace() beside so many bytes of statics.
TraceBuilder WithStatics(int64_t bytes) {
  TraceBuilder trace = CleanTrace();
  trace.Event("statics", -1, fmt::format("0,{},{}", bytes, bytes));
  return trace;
}

TEST(ProfDiffTest, StaticsCountLikeOtherMemory) {
  const Json row = Find(JsonOf(WithStatics(1000), WithStatics(1500))["session"], "statics, peak");
  EXPECT_EQ(row["before"], 1000);
  EXPECT_EQ(row["after"], 1500);
  EXPECT_EQ(row["unit"], "bytes");
  const CommandOutcome grown = Diff(WithStatics(1000), WithStatics(1500), {"--fail-over", "49"});
  EXPECT_EQ(grown.code, kExitMismatch);
  EXPECT_THAT(grown.out, AllOf(HasSubstr("statics, peak"), HasSubstr("+50.0 %")));
  EXPECT_EQ(Diff(WithStatics(1000), WithStatics(1500), {"--fail-over", "50"}).code, kExitOk);
  EXPECT_EQ(Diff(WithStatics(1500), WithStatics(1000), {"--fail-over", "0"}).code, kExitOk);
}

TEST(ProfDiffTest, BucketsOfSeveralLanesAreOne) {
  const auto with_lanes = [](int lane) {
    TraceBuilder trace(/*lanes=*/2);
    trace.Program("decode");
    trace.Bucket(0, 8, lane);
    trace.Call(1, 0, -1, "warm_up", "new_bucket", lane);
    return trace;
  };
  EXPECT_TRUE(JsonOf(with_lanes(0), with_lanes(1))["buckets"].empty());
}

// The document in the page that `prof diff --html` writes.
Json DocumentOf(const TraceBuilder& before, const TraceBuilder& after) {
  const TemporaryFile page("", "page.html");
  EXPECT_EQ(Diff(before, after, {"--html", page.path()}).code, kExitOk);
  const std::string text = page.Read();
  EXPECT_THAT(text, testing::StartsWith("<!DOCTYPE html>"));
  const std::string open = R"(<script type="application/json" id="data">)";
  const size_t begin = text.find(open) + open.size();
  return Json::parse(text.substr(begin, text.find("</script>", begin) - begin));
}

std::vector<std::string> TitlesOf(const Json& document) {
  std::vector<std::string> titles;
  for (const Json& finding : document["findings"])
    titles.push_back(finding["title"]);
  return titles;
}

TEST(ProfDiffTest, ThePageHasTheFiguresOfTheTable) {
  const Json report = JsonOf(CleanTrace(), Changed());
  const Json document = DocumentOf(CleanTrace(), Changed());
  EXPECT_EQ(document["schema"], "coppice.difference/1");
  EXPECT_EQ(document["before"]["name"].get<std::string>().find('/'), std::string::npos);
  EXPECT_EQ(document["changes"].size(), report["session"].size() + report["buckets"].size());
  for (const Json& change : document["changes"]) {
    const std::string figure = change["figure"];
    const std::string what =
        change["subject"].get<std::string>() + (figure.empty() ? "" : ", " + figure);
    const Json row = Find(report[change["part"] == "bucket" ? "buckets" : "session"], what);
    for (const char* key : {"unit", "before", "after", "delta"})
      EXPECT_EQ(change[key], row[key]) << what;
  }
  ASSERT_EQ(document["reasons"].size(), report["reasons"].size());
  for (const Json& reason : document["reasons"])
    EXPECT_THAT(reason["advice"].get<std::string>(), Not(IsEmpty()));
}

TEST(ProfDiffTest, ThePageSaysInWordsWhatGrewAppearedAndVanished) {
  const std::vector<std::string> forth = TitlesOf(DocumentOf(CleanTrace(), Changed()));
  EXPECT_EQ(forth.front(), "The peak grew by 22.09 KiB, 130.1 %");
  EXPECT_THAT(forth, testing::Contains("1 bucket appeared"));
  EXPECT_THAT(forth, testing::Contains("10 calls (before: 8)"));
  const std::vector<std::string> back = TitlesOf(DocumentOf(Changed(), CleanTrace()));
  EXPECT_THAT(back, testing::Contains("1 bucket vanished"));
  EXPECT_THAT(back, testing::Contains(HasSubstr("The peak fell by 22.09 KiB")));
}

TEST(ProfDiffTest, KindsOfThePageAreThoseThatEitherTraceHas) {
  std::vector<std::string> kinds;
  const Json document = DocumentOf(CleanTrace(), Changed());
  for (const Json& kind : document["kinds"])
    kinds.push_back(kind["kind"]);
  EXPECT_THAT(kinds, testing::ElementsAre("nodes", "eager", "graphs"));
  EXPECT_EQ(document["kinds"][0]["before_peak_bytes"], 12288);
  EXPECT_EQ(document["kinds"][0]["after_peak_bytes"], 24576);
}

TEST(ProfDiffTest, StaticsOfThePageStandBesideTheKinds) {
  const Json document = DocumentOf(WithStatics(1024), WithStatics(2048));
  EXPECT_EQ(document["statics"]["kind"], "statics");
  EXPECT_EQ(document["statics"]["before_peak_bytes"], 1024);
  EXPECT_EQ(document["statics"]["after_peak_bytes"], 2048);
  EXPECT_THAT(document["statics"]["what"].get<std::string>(), HasSubstr("held by the application"));
  EXPECT_EQ(document["kinds"].size(), 3U);
  EXPECT_THAT(TitlesOf(document),
              testing::ElementsAre("Statics grew by 1.00 KiB",
                                   "Memory apart from the statics is the same"));
  EXPECT_EQ(DocumentOf(CleanTrace(), Changed())["statics"], nullptr);
}

TEST(ProfDiffTest, BucketsOfThePageAppearOnceAndInOrder) {
  const Json document = DocumentOf(CleanTrace(), OtherBuckets());
  EXPECT_EQ(document["findings"][0]["title"], "2 buckets appeared");
  EXPECT_EQ(document["findings"][0]["what"], "decode 16, decode 112.");
  TraceBuilder warm = CleanTrace();
  warm.Bucket(0, 112);
  warm.Bucket(0, 16);
  warm.Call(9, 3, -1, "warm_up", "new_bucket");
  EXPECT_THAT(TitlesOf(DocumentOf(warm, OtherBuckets())), testing::Each(Not(HasSubstr("appeared"))))
      << "a graph that is new in a bucket of both is no new bucket";
}

TEST(ProfDiffTest, ThePageOfEqualTracesSaysThatNothingChanged) {
  const Json document = DocumentOf(CleanTrace(), CleanTrace());
  EXPECT_TRUE(document["changes"].empty());
  EXPECT_THAT(TitlesOf(document), testing::ElementsAre("Memory is the same"));
}

TEST(ProfDiffTest, ThePageIsWrittenWhateverFails) {
  const TemporaryFile page("", "page.html");
  const CommandOutcome failed =
      Diff(CleanTrace(), Changed(), {"--fail-over", "1", "--html", page.path()});
  EXPECT_EQ(failed.code, kExitMismatch);
  EXPECT_THAT(failed.out, IsEmpty());
  EXPECT_THAT(page.Read(), HasSubstr("</html>"));
}

TEST(ProfDiffTest, ThePageGoesOverNoTraceAndNotBesideJson) {
  const TemporaryFile before(CleanTrace().Text(), "before");
  const TemporaryFile after(CleanTrace().Text(), "after");
  for (const std::string& page : {before.path(), after.path()}) {
    EXPECT_EQ(RunCoppice({"prof", "diff", before.path(), after.path(), "--html", page}).code,
              kExitUsage);
  }
  EXPECT_EQ(Diff(CleanTrace(), CleanTrace(), {"--html", "-", "--json"}).code, kExitUsage);
  EXPECT_THAT(Diff(CleanTrace(), CleanTrace(), {"--html", "-"}).out, HasSubstr("</html>"));
  EXPECT_EQ(Diff(CleanTrace(), CleanTrace(), {"--html", "/no/such/folder/page"}).code, kExitOutput);
}

TEST(ProfDiffTest, BadArgumentsAreRefusedInOneLine) {
  for (const char* percent : {"-1", "x", "1e999", "nan", ""}) {
    const CommandOutcome outcome = Diff(CleanTrace(), CleanTrace(), {"--fail-over", percent});
    EXPECT_EQ(outcome.code, kExitUsage) << percent;
  }
  const TemporaryFile file(CleanTrace().Text());
  const CommandOutcome missing = RunCoppice({"prof", "diff", file.path(), "no/such/file"});
  EXPECT_EQ(missing.code, kExitUsage);
  EXPECT_THAT(missing.err, HasSubstr("no/such/file"));
  EXPECT_THAT(missing.out, IsEmpty());
}

}  // namespace
}  // namespace coppice
