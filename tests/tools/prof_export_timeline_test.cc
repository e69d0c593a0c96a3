// Goal: what `coppice prof export chrome` puts on its tracks is what the trace says of times,
// slices that a viewer can nest. Method: traces written by hand, read back as JSON.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/tools/exported_trace.h"

namespace coppice {
namespace {

using testing::ElementsAre;

// A call at `time_ns`.
void TimedCall(TraceBuilder& trace,
               int64_t time_ns,
               int call,
               int node,
               const char* path,
               const char* reason,
               int64_t host_ns) {
  trace.Line(R"([{},"call",0,{},0,{},"{}","{}",6,8,0,[6],{},"borrow"])", time_ns, call, node, path,
             reason, host_ns);
}

// "track name begin+duration" in nanoseconds, of slices.
std::vector<std::string> SlicesIn(const ExportedValue& chrome) {
  std::map<int64_t, std::string> tracks;
  std::vector<std::string> slices;
  const auto ns = [](const ExportedValue& us) { return std::llround(us.get<double>() * 1000); };
  for (const ExportedValue& event : chrome["traceEvents"]) {
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    slices.push_back(fmt::format("{} {} {}+{}", tracks[event["tid"]],
                                 event["name"].get<std::string>(), ns(event["ts"]),
                                 ns(event["dur"])));
  }
  return slices;
}

TEST(ProfExportTimelineTest, CallsWhoseHostTimeIsKnownAreSlicesThatEndAtTheirEvent) {
  TraceBuilder trace = NamedTrace();
  TimedCall(trace, 5'000'000, 1, 0, "replay", "none", 700);
  TimedCall(trace, 5'001'000, 2, 0, "replay", "none", -1);
  TimedCall(trace, 5'002'000, 3, -1, "eager", "over_largest_bucket", 0);
  const ExportedValue chrome = ExportedJson(trace, {"chrome"});
  EXPECT_THAT(SlicesIn(chrome), ElementsAre("lane 0 replay 4999300+700",
                                            "lane 0 eager: over_largest_bucket 5002000+0"));
  std::vector<ExportedValue> calls;
  for (const ExportedValue& event : chrome["traceEvents"])
    if (event["ph"] == "X" || event["ph"] == "i") calls.push_back(event["args"]);
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0]["program"], "decode/int8");
  EXPECT_EQ(calls[0]["bucket"], 0);
  EXPECT_EQ(calls[0]["path"], "replay");
  EXPECT_EQ(calls[0]["reason"], "none");
  EXPECT_EQ(calls[0]["kernels"], 2);
  EXPECT_EQ(calls[0]["host_ns"], 700);
  EXPECT_FALSE(calls[1].contains("host_ns"));
  EXPECT_EQ(calls[2]["reason"], "over_largest_bucket");
  EXPECT_FALSE(calls[2].contains("kernels"));
}

TEST(ProfExportTimelineTest, SlicesOfALaneAreApartOrOneWithinTheOther) {
  TraceBuilder trace = NamedTrace();
  TimedCall(trace, 1'000'000, 1, -1, "warm_up", "new_bucket", 9'000'000);  // Longer than there was.
  TimedCall(trace, 2'000'000, 2, -1, "warm_up", "new_bucket", 1'500'000);  // Overlaps the first.
  trace.Line(R"([5000000,"record",0,0])");
  TimedCall(trace, 6'000'000, 3, 0, "record", "new_bucket", 3'500'000);  // Around its recording.
  trace.Line(R"([9000000,"record",0,1])");  // In the background, from 7'000'000 on.
  TimedCall(trace, 9'500'000, 4, 0, "replay", "none", 1'000'000);
  EXPECT_THAT(
      SlicesIn(ExportedJson(trace, {"chrome"})),
      ElementsAre("lane 0 warm_up: new_bucket 0+1000000",
                  "lane 0 warm_up: new_bucket 1000000+1000000",
                  "lane 0 record: new_bucket 2500000+3500000",
                  "lane 0 record decode/int8 8 3000000+2000000",
                  "lane 0 record decode/int8 8 7000000+2000000", "lane 0 replay 9000000+500000"));
}

TEST(ProfExportTimelineTest, RequestsAreSlicesInAsManyRowsAsWereServedAtOnce) {
  TraceBuilder trace;
  trace.Line(R"([5000000,"request",-1,7,1000000,4000000,100,4])");
  trace.Line(R"([6000000,"request",-1,8,2500000,2500000,50,1])");
  trace.Line(R"([9000000,"request",-1,9,1000000,4000000,10,2])");
  trace.Line(R"([9500000,"request",-1,10,1000000,9500001,10,2])");  // Began before the session.
  const ExportedValue chrome = ExportedJson(trace, {"chrome"});
  EXPECT_THAT(SlicesIn(chrome),
              ElementsAre("requests request 1000000+4000000", "requests 2 request 3500000+2500000",
                          "requests request 5000000+4000000"));
  std::map<int, ExportedValue> requests;
  for (const ExportedValue& event : chrome["traceEvents"])
    if (event["name"] == "request") requests[event["args"]["request"]] = event;
  EXPECT_EQ(requests[7]["args"]["ttft_ms"], 1);
  EXPECT_EQ(requests[7]["args"]["tpot_ms"], 1);
  EXPECT_EQ(requests[7]["args"]["input_tokens"], 100);
  EXPECT_EQ(requests[7]["args"]["output_tokens"], 4);
  EXPECT_EQ(requests[8]["args"]["ttft_ms"], 2.5);
  EXPECT_FALSE(requests[8]["args"].contains("tpot_ms"));  // It wrote one token.
  EXPECT_EQ(requests[10]["ph"], "i");
  EXPECT_EQ(requests[10]["ts"], 9500);
  EXPECT_EQ(requests[10]["tid"], requests[7]["tid"]);
}

TEST(ProfExportTimelineTest, RequestsThatFindNoRowAreInstants) {
  TraceBuilder trace;
  for (int i = 0; i < 70; ++i)
    trace.Line(R"([{},"request",-1,{},1000,5000,10,2])", 9000 + i, i);
  const ExportedValue chrome = ExportedJson(trace, {"chrome"});
  EXPECT_EQ(SlicesIn(chrome).size(), 64U);
  EXPECT_EQ(
      std::ranges::count(chrome["traceEvents"], "i",
                         [](const ExportedValue& event) { return event["ph"].get<std::string>(); }),
      6);
}

TEST(ProfExportTimelineTest, PoliciesAreInstantsWithTheNameOfTheirLadder) {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Line(R"({{"policy":0,"document":{{"version":1,"ladder":"pow2","maximum":64}}}})");
  trace.Line(R"({{"policy":1,"document":{{"version":1,"buckets":[8,16,64],"learned":{{"waste_pct":)"
             R"("5","mass":"10","limit":64}}}}}})");
  trace.Event("policy", -1, "0,0,0");
  trace.Event("policy", -1, "0,0,1");
  std::vector<std::string> names;
  const ExportedValue chrome = ExportedJson(trace, {"chrome"});
  for (const ExportedValue& event : chrome["traceEvents"]) {
    if (event["ph"] != "i") continue;
    names.push_back(event["name"]);
    EXPECT_EQ(event["args"]["label"], "decode");
    EXPECT_EQ(event["args"]["symbol"], "batch");
  }
  EXPECT_THAT(names, ElementsAre("policy pow2", "policy learned: 3 buckets up to 64"));
}

TEST(ProfExportTimelineTest, RecordingsAreSlicesThatDoNotOverlap) {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Bucket(0, 8);
  for (int i = 0; i < 2; ++i)
    trace.Node({.bucket = 0, .height = 64, .live = 64, .buffers = {{0, 64, 0, {0, 1}}}});
  trace.Line(R"([5000000,"record",0,0])");  // Two milliseconds each.
  trace.Line(R"([6000001,"record",0,1])");
  std::vector<std::string> slices;
  const ExportedValue chrome = ExportedJson(trace, {"chrome"});
  for (const ExportedValue& event : chrome["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["name"], "record decode 8");
    EXPECT_EQ(event["args"]["record_ns"], 2'000'000);
    slices.push_back(fmt::format("{} {}", event["ts"].get<double>(), event["dur"].get<double>()));
  }
  EXPECT_THAT(slices, ElementsAre("3000 2000", "5000 1000.001"));
}

TEST(ProfExportTimelineTest, OtherCallsAreInstantsNamedByPathAndReason) {
  const ExportedValue chrome = ExportedJson(CleanTrace(), {"chrome"});
  std::vector<std::string> names;
  for (const ExportedValue& event : chrome["traceEvents"])
    if (event["ph"] == "i" && event["args"].contains("call")) names.push_back(event["name"]);
  EXPECT_THAT(names, ElementsAre("warm_up: new_bucket", "record: new_bucket", "warm_up: new_bucket",
                                 "record: new_bucket", "replay", "record: other_live_regions",
                                 "replay", "eager: over_largest_bucket"));
}

}  // namespace
}  // namespace coppice
