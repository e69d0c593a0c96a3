// Goal: `coppice prof check` finds each fault that its header lists, says where, and finds nothing
// in a session that ran as it should. Method: a clean trace, into which each test plants one fault.

#include "tools/prof/prof_check.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Finding {
  std::string kind;
  int64_t line = 0;
  friend bool operator==(const Finding&, const Finding&) = default;
  friend void PrintTo(const Finding& finding, std::ostream* out) {
    *out << finding.kind << " in line " << finding.line;
  }
};

nlohmann::json ReportOf(const TraceBuilder& trace, std::vector<std::string> options = {}) {
  const TemporaryFile file(trace.Text());
  options.insert(options.begin(), {"prof", "check", file.path(), "--json"});
  const CommandOutcome outcome = RunCoppice(options);
  EXPECT_THAT(outcome.err, IsEmpty());
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(outcome.code, report["count"] == 0 ? kExitOk : kExitMismatch);
  EXPECT_EQ(report["count"], report["findings"].size());
  return report;
}

std::vector<Finding> FindingsOf(const TraceBuilder& trace, std::vector<std::string> options = {}) {
  std::vector<Finding> findings;
  const nlohmann::json report = ReportOf(trace, std::move(options));
  for (const nlohmann::json& finding : report["findings"])
    findings.push_back({finding["kind"], finding["line"]});
  return findings;
}

TEST(ProfCheckTest, FindsNothingInACleanTrace) {
  TraceBuilder trace = CleanTrace();
  trace.Event("end", -1);
  EXPECT_THAT(FindingsOf(trace, {"--strict"}), IsEmpty());
}

TEST(ProfCheckTest, FindsBuffersThatOverlapInTimeAndSpace) {
  TraceBuilder trace = CleanTrace();
  const int64_t line = trace.Node(
      {.bucket = 0,
       .height = 300,
       .live = 300,
       .buffers = {{0, 200, -1, {0, 2, 5, 7}}, {199, 101, -1, {2, 6}}, {0, 200, -1, {2, 5}}}});
  // Buffers 0 and 1 meet at step 5, 1 and 2 at step 2; one of them is named.
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"overlap", line}));
}

TEST(ProfCheckTest, AcceptsBuffersThatShareBytesOneAfterTheOther) {
  TraceBuilder trace = CleanTrace();
  trace.Node({.bucket = 0,
              .height = 200,
              .live = 200,
              .buffers = {{0, 200, -1, {0, 2, 5, 7}}, {0, 200, -1, {2, 5}}}});
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
}

TEST(ProfCheckTest, FindsAPlanAboveItsHeight) {
  TraceBuilder trace = CleanTrace();
  const int64_t line =
      trace.Node({.bucket = 0, .height = 199, .live = 199, .buffers = {{0, 200, -1, {0, 2}}}});
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"overlap", line}));
}

TEST(ProfCheckTest, FindsAPlanOverWhatItWasPlannedAround) {
  TraceBuilder trace = CleanTrace();
  const int64_t line = trace.Node({.bucket = 0,
                                   .height = 400,
                                   .live = 400,
                                   .buffers = {{200, 200, -1, {0, 2}}},
                                   .around = {{0, 200}, {399, 1}}});
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"around", line}));
}

TEST(ProfCheckTest, FindsAReplayOfAnEvictedGraph) {
  TraceBuilder trace = CleanTrace();
  trace.Event("evict", 0, "0");
  const int64_t line = trace.Call(9, 0, 0, "replay");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"no_node", line}));
}

TEST(ProfCheckTest, FindsAReplayOfAGraphThatWasNeverRecorded) {
  TraceBuilder trace = CleanTrace();
  trace.Node({.bucket = 0, .height = 200, .live = 200, .buffers = {{0, 200, -1, {0, 2}}}});
  const int64_t line = trace.Call(9, 0, 3, "replay");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"no_node", line}));
}

TEST(ProfCheckTest, FindsAReplayOfAnotherBucketsGraphOrOfNone) {
  TraceBuilder trace = CleanTrace();
  const int64_t other = trace.Call(9, 1, 0, "replay");
  const int64_t none = trace.Call(10, 1, -1, "replay");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"no_node", other}, Finding{"no_node", none}));
}

TEST(ProfCheckTest, FindsAGraphThatIsEvictedOrRecordedTwice) {
  TraceBuilder trace = CleanTrace();
  trace.Event("evict", 0, "0");
  const int64_t again = trace.Event("evict", 0, "0");
  const int64_t recorded = trace.Event("record", 0, "1");
  EXPECT_THAT(FindingsOf(trace),
              ElementsAre(Finding{"no_node", again}, Finding{"no_node", recorded}));
}

TEST(ProfCheckTest, FindsAUseOfOutputsThatExpired) {
  TraceBuilder trace = CleanTrace();
  trace.Call(9, 0, 0, "replay");
  trace.Event("outputs", 0, "9,0");
  trace.Event("expire", 0, "9,10");
  trace.Call(10, 1, 1, "replay");
  const int64_t line = trace.Event("use", 0, "11,9,0,0,0");
  trace.Call(11, 0, -1, "eager", "user_disabled");
  trace.Event("release", 0, "9");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"stale", line}));
}

TEST(ProfCheckTest, FindsAUseOfOutputsThatNobodyLeases) {
  TraceBuilder trace = CleanTrace();
  const int64_t line = trace.Event("use", 0, "9,6,0,0,0");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"not_leased", line}));
}

TEST(ProfCheckTest, FindsOutputsThatAreReleasedTwice) {
  TraceBuilder trace = CleanTrace();
  const int64_t line = trace.Event("release", 0, "6");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"not_leased", line}));
}

TEST(ProfCheckTest, FindsATotalThatIsNotTheSumOfTheKinds) {
  TraceBuilder trace = CleanTrace();
  const int64_t line = trace.Event("bytes", -1, R"("staging",500,17883)");
  const nlohmann::json report = ReportOf(trace);
  ASSERT_EQ(report["count"], 1);
  EXPECT_EQ(report["findings"][0]["kind"], "conservation");
  EXPECT_EQ(report["findings"][0]["line"], line);
  EXPECT_EQ(report["findings"][0]["numbers"]["sum"], 17884);
  EXPECT_EQ(report["findings"][0]["numbers"]["difference"], -1);
}

TEST(ProfCheckTest, FindsOutputsThatAreLeasedAtTheEnd) {
  TraceBuilder trace = CleanTrace();
  trace.Event("outputs", 0, "8,-1");
  EXPECT_THAT(FindingsOf(trace), IsEmpty());  // The session still runs.
  const int64_t line = trace.Event("end", -1);
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"leak", line}));
}

TEST(ProfCheckTest, FindsAGraphAboveWhatIsMapped) {
  TraceBuilder trace = CleanTrace();
  trace.Event("bytes", -1, R"("nodes",12287,17383)");
  const int64_t line = trace.Call(9, 0, 0, "replay");
  trace.Call(10, 0, 0, "replay");  // Said once per graph.
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"unmapped", line}));
}

TEST(ProfCheckTest, WhatNoCallNeedsMayBeUnmapped) {
  TraceBuilder trace(/*lanes=*/2);
  trace.Program("decode");
  for (const int lane : {0, 1}) {
    trace.Bucket(0, 8, lane);
    trace.Node({.bucket = lane, .height = 4096, .live = 4096, .buffers = {{0, 4096, -1, {0, 1}}}});
  }
  trace.Event("bytes", -1, R"("nodes",4096,4096)");
  trace.Event("record", 0, "0");
  trace.Call(1, 0, 0, "replay", "none", /*lane=*/0);
  trace.Event("record", 1, "1");
  trace.Call(1, 1, 1, "replay", "none", /*lane=*/1);
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
}

TEST(ProfCheckTest, FindsATotalAboveTheBudget) {
  TraceBuilder trace = CleanTrace(/*budget=*/17384);
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
  const int64_t line = trace.Event("bytes", -1, R"("spare",1,17385)");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"over_budget", line}));
}

TEST(ProfCheckTest, FindsTimeThatRunsBackwardsWithinALane) {
  TraceBuilder trace = CleanTrace();
  const int64_t line =
      trace.Line(R"([5,"call",0,9,0,-1,"eager","user_disabled",0,0,0,[6],-1,"borrow"])");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"time", line}));
}

TEST(ProfCheckTest, MergesLanesByTimeAndNotByTheOrderOfTheFile) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"([900000,"call",0,9,0,0,"replay","none",1,1,0,[6],-1,"borrow"])");
  trace.Line(R"([700000,"suspend",-1])");
  trace.Line(R"([800000,"resume",-1])");
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
  trace.Line(R"([850000,"suspend",-1])");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(testing::Field(&Finding::kind, "suspended")));
}

TEST(ProfCheckTest, FindsCallNumbersThatComeTwice) {
  TraceBuilder trace = CleanTrace();
  trace.Call(9, 0, 0, "replay");
  const int64_t line = trace.Call(9, 0, 0, "replay");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"calls", line}));
}

TEST(ProfCheckTest, ACallNumberLeftOutIsAFindingWhereStrict) {
  TraceBuilder trace = CleanTrace();
  const int64_t line = trace.Call(10, 0, 0, "replay");
  trace.Event("end", -1);
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
  EXPECT_THAT(FindingsOf(trace, {"--strict"}), ElementsAre(Finding{"incomplete", line}));
}

TEST(ProfCheckTest, FindsOutputsThatAreOverwrittenWithoutAWord) {
  TraceBuilder trace = CleanTrace();
  trace.Call(9, 0, 0, "replay");
  trace.Event("outputs", 0, "9,0");
  const int64_t line = trace.Call(10, 1, 1, "replay");
  trace.Call(11, 1, 1, "replay");  // They were gone already.
  trace.Event("release", 0, "9");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"overwritten", line}));
}

TEST(ProfCheckTest, AcceptsAWordOfTheOverwritingAfterTheCall) {
  TraceBuilder trace = CleanTrace();
  trace.Call(9, 0, 0, "replay");
  trace.Event("outputs", 0, "9,0");
  trace.Call(10, 1, 1, "replay");
  trace.Event("expire", 0, "9,10");
  trace.Event("release", 0, "9");
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
}

TEST(ProfCheckTest, AcceptsAPlanAroundAPartOfTheBufferThatAnOutputLiesIn) {
  TraceBuilder trace = CleanTrace();
  trace.Node({.bucket = 1,
              .height = 5000,
              .live = 5000,
              .buffers = {{4000, 1000, -1, {0, 1}}},
              .around = {{0, 4000}}});
  trace.Event("record", 0, "3");
  trace.Call(9, 0, 0, "replay");
  trace.Event("outputs", 0, "9,0");
  trace.Event("use", 0, "10,9,0,0,0");
  trace.Call(10, 1, 3, "replay");
  trace.Event("release", 0, "9");
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
}

TEST(ProfCheckTest, FindsACallWhileSuspended) {
  TraceBuilder trace = CleanTrace();
  trace.Event("suspend", -1);
  const int64_t line = trace.Call(9, 0, -1, "eager", "user_disabled");
  trace.Event("resume", -1);
  trace.Call(10, 0, -1, "eager", "user_disabled");
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"suspended", line}));
}

TEST(ProfCheckTest, JudgesNothingThatDependsOnDroppedEvents) {
  TraceBuilder trace = CleanTrace();
  trace.Node({.bucket = 0, .height = 200, .live = 200, .buffers = {{0, 200, 0, {0, 2}}}});
  trace.Event("dropped", 0, "7");
  trace.Event("release", 0, "9");
  trace.Call(12, 0, 3, "replay");
  trace.Event("dropped", -1, "2");
  trace.Event("bytes", -1, R"("staging",500,99999)");
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
  const int64_t line = trace.Event("use", 0, "13,12,0,0,0");  // Of this one, nothing was lost.
  EXPECT_THAT(FindingsOf(trace), ElementsAre(Finding{"not_leased", line}));
}

TEST(ProfCheckTest, StrictMakesFindingsOfGaps) {
  TraceBuilder trace = CleanTrace();
  const int64_t line = trace.Event("dropped", 0, "7");
  EXPECT_THAT(FindingsOf(trace), IsEmpty());
  EXPECT_THAT(FindingsOf(trace, {"--strict"}),
              ElementsAre(Finding{"incomplete", line}, Finding{"incomplete", line}));
}

TEST(ProfCheckTest, TextNamesFileLineAndKindAndCountsWhatItLeavesOut) {
  TraceBuilder trace = CleanTrace();
  const int64_t first = trace.Event("release", 0, "6");
  for (int i = 0; i < 3; ++i)
    trace.Event("release", 0, "6");
  const TemporaryFile file(trace.Text());
  const CommandOutcome outcome = RunCoppice({"prof", "check", file.path(), "--limit", "1"});
  EXPECT_EQ(outcome.code, kExitMismatch);
  EXPECT_THAT(outcome.out, HasSubstr(fmt::format("{}:{}: not_leased: ", file.path(), first)));
  EXPECT_THAT(outcome.out, HasSubstr("and 3 more"));
  EXPECT_THAT(outcome.out, HasSubstr("the trace has no end"));
}

}  // namespace
}  // namespace coppice
