// Goal: `coppice prof summary`, `buckets`, `why` and `marks` count what a trace says, print it as a
// table and as JSON, equal for equal traces, and refuse bad input in one line. Method: the command
// in this process, on a small trace whose figures are known.

#include "tools/prof/prof.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"
#include "tools/prof/remedy.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CommandOutcome RunProf(const std::string& command,
                       const TraceBuilder& trace,
                       const std::vector<std::string>& options) {
  const TemporaryFile file(trace.Text());
  std::vector<std::string> arguments = {"prof", command, file.path()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return RunCoppice(arguments);
}

nlohmann::json JsonOf(const std::string& command,
                      const TraceBuilder& trace,
                      std::vector<std::string> options = {}) {
  options.emplace_back("--json");
  const CommandOutcome outcome = RunProf(command, trace, options);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

std::vector<int64_t> BucketsBy(const std::string& order, const TraceBuilder& trace) {
  std::vector<int64_t> ids;
  const nlohmann::json report = JsonOf("buckets", trace, {"--sort", order});
  for (const nlohmann::json& bucket : report["buckets"])
    ids.push_back(bucket["bucket"]);
  return ids;
}

TEST(ProfTest, SummaryCountsCallsBytesAndGraphs) {
  TraceBuilder trace = CleanTrace(/*budget=*/99999);
  trace.Event("evict", 0, "2");
  trace.Event("bytes", -1, R"("eager",0,13288)");
  trace.Event("dropped", 0, "4");
  const nlohmann::json summary = JsonOf("summary", trace);
  EXPECT_EQ(summary["device"], "Emulated <GPU>");
  EXPECT_EQ(summary["budget_bytes"], 99999);
  EXPECT_EQ(summary["dropped_events"], 4);
  EXPECT_EQ(summary["ended"], false);
  EXPECT_EQ(summary["calls"], 8);
  EXPECT_EQ(summary["paths"]["replay"], 2);
  EXPECT_EQ(summary["paths"]["record"], 3);
  EXPECT_EQ(summary["paths"]["warm_up"], 2);
  EXPECT_EQ(summary["paths"]["eager"], 1);
  EXPECT_EQ(summary["programs"][0]["calls"], 8);  // One had no bucket.
  EXPECT_EQ(summary["padded_share_pct"], 25);     // 6 of 8, in every call.
  EXPECT_EQ(summary["bytes"]["eager"]["end_bytes"], 0);
  EXPECT_EQ(summary["bytes"]["eager"]["peak_bytes"], 4096);
  EXPECT_EQ(summary["bytes"]["nodes"]["end_bytes"], 12288);
  EXPECT_EQ(summary["bytes"]["graphs"]["estimate"], true);
  EXPECT_EQ(summary["bytes"]["nodes"]["estimate"], false);
  EXPECT_EQ(summary["bytes"].size(), static_cast<size_t>(kMemoryKindCount));
  EXPECT_EQ(summary["total_end_bytes"], 13288);
  EXPECT_EQ(summary["total_peak_bytes"], 17384);
  EXPECT_EQ(summary["graphs_recorded"], 3);
  EXPECT_EQ(summary["graphs_evicted"], 1);
  EXPECT_EQ(summary["executables"], 3);
  EXPECT_EQ(summary["exact_replays"], 0);
  EXPECT_EQ(summary["exec_bytes_estimate"], 2000);
  EXPECT_EQ(summary["suspends"], 1);
  EXPECT_EQ(summary["top_buckets"].size(), 2U);
}

TEST(ProfTest, SummaryTakesTheLastBytesByTimeAndNotByLine) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"([900000,"bytes",-1,"nodes",3,8000])");
  trace.Line(R"([800000,"bytes",0,"nodes",70000,90000])");
  const nlohmann::json summary = JsonOf("summary", trace);
  EXPECT_EQ(summary["bytes"]["nodes"]["end_bytes"], 3);
  EXPECT_EQ(summary["bytes"]["nodes"]["peak_bytes"], 70000);
  EXPECT_EQ(summary["total_end_bytes"], 8000);
  EXPECT_EQ(summary["total_peak_bytes"], 90000);
}

TEST(ProfTest, SummaryTextSaysWhatIsAnEstimateAndWhatIsMissing) {
  TraceBuilder trace = CleanTrace();
  trace.Event("dropped", 0, "4");
  const CommandOutcome outcome = RunProf("summary", trace, {});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("an estimate"));
  EXPECT_THAT(outcome.out, HasSubstr("dropped 4 events"));
  EXPECT_THAT(outcome.out, HasSubstr("no end"));
}

TEST(ProfTest, BucketsSplitBytesIntoExclusiveAndShared) {
  const nlohmann::json report = JsonOf("buckets", CleanTrace(), {"--sort", "id"});
  ASSERT_EQ(report["buckets"].size(), 2U);
  // Bucket 0 uses [0, 12288), bucket 1 [0, 8192) in two plans.
  const nlohmann::json& first = report["buckets"][0];
  EXPECT_EQ(first["bucket"], 0);
  EXPECT_EQ(first["shared_bytes"], 8192);
  EXPECT_EQ(first["exclusive_bytes"], 4096);
  EXPECT_EQ(first["height_bytes"], 12288);
  EXPECT_EQ(first["calls"], 4);
  EXPECT_EQ(first["replays"], 2);
  EXPECT_EQ(first["warm_ups"], 1);
  EXPECT_EQ(first["record_ns"], 2000000);
  const nlohmann::json& second = report["buckets"][1];
  EXPECT_EQ(second["shared_bytes"], 8192);
  EXPECT_EQ(second["exclusive_bytes"], 0);
  EXPECT_EQ(second["height_bytes"], 8192);
  EXPECT_EQ(second["bound_bytes"], 8192);
  EXPECT_EQ(second["graphs_recorded"], 2);
  EXPECT_EQ(second["exec_bytes_estimate"], 2000);
  EXPECT_EQ(report["calls_without_bucket"], 1);
}

TEST(ProfTest, BucketsOfDifferentLanesShareNothing) {
  TraceBuilder trace(/*lanes=*/2);
  trace.Program("decode");
  for (const int lane : {0, 1}) {
    trace.Bucket(0, 8, lane);
    trace.Node({.bucket = lane, .height = 4096, .live = 4096, .buffers = {{0, 4096, -1, {0, 1}}}});
  }
  const nlohmann::json report = JsonOf("buckets", trace);
  for (const nlohmann::json& bucket : report["buckets"]) {
    EXPECT_EQ(bucket["exclusive_bytes"], 4096);
    EXPECT_EQ(bucket["shared_bytes"], 0);
  }
}

TEST(ProfTest, BucketsSortByEachKey) {
  const TraceBuilder trace = CleanTrace();
  EXPECT_THAT(BucketsBy("id", trace), ElementsAre(0, 1));
  EXPECT_THAT(BucketsBy("calls", trace), ElementsAre(0, 1));
  EXPECT_THAT(BucketsBy("height", trace), ElementsAre(0, 1));
  EXPECT_THAT(BucketsBy("exec", trace), ElementsAre(1, 0));
  EXPECT_THAT(BucketsBy("record", trace), ElementsAre(1, 0));
  EXPECT_THAT(BucketsBy("shared", trace), ElementsAre(0, 1));  // Equal: by place.
  for (int i = 0; i < kBucketOrderCount; ++i)
    EXPECT_EQ(BucketsBy(NameOf(static_cast<BucketOrder>(i)), trace).size(), 2U);
}

TEST(ProfTest, ProgramFilterKeepsOnlyThatProgram) {
  TraceBuilder trace = CleanTrace();
  trace.Program("prefill", "int8");
  trace.Bucket(1, 16);
  trace.Call(9, 2, -1, "warm_up", "new_bucket");
  for (const char* name : {"prefill", "prefill/int8"}) {
    const nlohmann::json buckets = JsonOf("buckets", trace, {"--program", name})["buckets"];
    ASSERT_EQ(buckets.size(), 1U);
    EXPECT_EQ(buckets[0]["bucket"], 2);
    EXPECT_EQ(JsonOf("why", trace, {"--program", name})["count"], 1);
  }
  const CommandOutcome outcome = RunProf("buckets", trace, {"--program", "prefil"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("decode, prefill/int8"));
}

TEST(ProfTest, WhyLogsWhatDidNotReplayInOrderOfTimeAndCountsReasons) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"([5,"call",0,9,0,-1,"eager","gate_says_eager",0,0,0,[6],-1,"borrow"])");
  const nlohmann::json report = JsonOf("why", trace);
  EXPECT_EQ(report["count"], 7);
  EXPECT_EQ(report["calls"][0]["reason"], "gate_says_eager");
  EXPECT_EQ(report["calls"][6]["reason"], "over_largest_bucket");
  EXPECT_EQ(report["calls"][6]["bucket"], nullptr);
  const nlohmann::json& top = report["causes"][0];
  EXPECT_EQ(top["program"], "decode");
  EXPECT_EQ(top["reason"], "new_bucket");
  EXPECT_EQ(top["count"], 4);
  EXPECT_EQ(top["first"]["call"], 1);
  EXPECT_EQ(report["causes"].size(), 4U);
}

TEST(ProfTest, WhyNamesTheDriverCallTheCodeAndTheProgramOfAFailure) {
  TraceBuilder trace = CleanTrace();
  trace.Failure("cuCtxSynchronize", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not under capture");
  trace.Failure("", "FAILED_PRECONDITION", "no");
  trace.Event("fail", 0, "0,0");
  trace.Call(9, 0, -1, "eager", "capture_invalidated");
  trace.Event("fail", 0, "0,0");
  trace.Call(10, 0, -1, "eager", "not_capturable");
  trace.Call(11, 0, -1, "eager", "gate_says_eager");
  trace.Event("fail", 0, "1,1");
  trace.Call(12, 1, -1, "eager", "byte_limit");
  trace.Call(13, 0, -1, "eager", "not_capturable");
  const nlohmann::json report = JsonOf("why", trace);
  const nlohmann::json synchronizes = {{"driver_call", "cuCtxSynchronize"},
                                       {"code", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                       {"message", "not under capture"}};
  ASSERT_EQ(report["failures"].size(), 2U);
  EXPECT_EQ(report["failures"][0]["program"], "decode");
  EXPECT_EQ(report["failures"][0]["failure"], synchronizes);
  EXPECT_EQ(report["failures"][0]["count"], 2);
  EXPECT_EQ(report["failures"][0]["first"]["bucket"], 0);
  EXPECT_EQ(report["failures"][1]["failure"]["driver_call"], "");
  EXPECT_EQ(report["failures"][1]["failure"]["code"], "FAILED_PRECONDITION");
  ASSERT_EQ(report["calls"].size(), 11U);
  EXPECT_EQ(report["calls"][0]["failure"], nullptr);
  EXPECT_EQ(report["calls"][6]["failure"], synchronizes);
  EXPECT_EQ(report["calls"][7]["failure"], synchronizes);
  EXPECT_EQ(report["calls"][8]["failure"], nullptr);  // The gate has reasons of its own.
  EXPECT_EQ(report["calls"][9]["failure"]["message"], "no");
  EXPECT_EQ(report["calls"][10]["failure"], synchronizes);

  const std::string text = RunProf("why", trace, {}).out;
  EXPECT_THAT(text, testing::ContainsRegex("decode +8 +2 .*cuCtxSynchronize "
                                           "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: not under"));
  EXPECT_THAT(text, HasSubstr("capture_invalidated  cuCtxSynchronize CUDA_ERROR_STREAM_CAPTURE"));
}

// What stood in the way of the call, the other reasons being as they are.
std::string ObstacleOf(const TraceBuilder& trace, int64_t call) {
  const nlohmann::json report = JsonOf("why", trace);
  for (const nlohmann::json& each : report["calls"])
    if (each["call"] == call) return each["obstacle"];
  return "no such call";
}

TEST(ProfTest, WhyNamesTheLeasesThatACallFoundInItsWay) {
  TraceBuilder trace = CleanTrace();
  EXPECT_EQ(ObstacleOf(trace, 6), "leased: call 5 of decode 8");
  EXPECT_EQ(ObstacleOf(trace, 2), "");
  for (int call = 9; call < 15; ++call)
    trace.Event("outputs", 0, fmt::format("{},1", call));
  trace.Event("release", 0, "13");
  trace.Event("expire", 0, "12,15");
  trace.Call(15, 1, -1, "eager", "other_live_regions");
  trace.Event("outputs", 0, "8,1");
  trace.Call(16, 1, -1, "eager", "other_live_regions");
  EXPECT_EQ(ObstacleOf(trace, 15),
            "leased: call 14 of decode 4, call 11 of decode 4, call 10 of decode 4, call 9 of "
            "decode 4");
  EXPECT_THAT(ObstacleOf(trace, 16), testing::EndsWith(", and 1 more"));
  EXPECT_THAT(RunProf("why", trace, {}).out, HasSubstr("leased: call 5 of decode 8"));
}

TEST(ProfTest, WhyNamesTheLimitsAndSizesThatACallMet) {
  TraceBuilder trace = CleanTrace(/*budget=*/20480);
  trace.Event("evict", 0, "2");
  trace.Event("call", 0, R"(9,1,-1,"eager","evicted",6,8,0,[6],-1,"borrow")");
  trace.Event("call", 0, R"(10,1,-1,"eager","graph_limit",6,8,0,[6],-1,"borrow")");
  trace.Event("call", 0, R"(11,1,-1,"eager","byte_limit",6,8,0,[6],-1,"borrow")");
  trace.Event("call", 0, R"(12,-1,-1,"eager","over_largest_bucket",6,8,0,[100],-1,"borrow")");
  EXPECT_THAT(ObstacleOf(trace, 9), testing::StartsWith("evicted at 0.0000"));
  EXPECT_EQ(ObstacleOf(trace, 10), "2 graphs on the lane");
  EXPECT_EQ(ObstacleOf(trace, 11), "16.98 KiB in use, budget 20.00 KiB");
  EXPECT_EQ(ObstacleOf(trace, 12), "batch=100");
}

TEST(ProfTest, WhyNamesTheLargestBucketThatACallWasOver) {
  TraceBuilder trace;
  trace.Line(R"({{"program":0,"name":"mix","variant":"","symbols":["batch","rows"],"scalars":[],)"
             R"("spec":{{}},)"
             R"("policies":[{{"version":1,"buckets":[4,8]}},)"
             R"({{"version":1,"ladder":"pow2","maximum":64}}],"joint":[]}})");
  trace.Event("call", 0, R"(1,-1,-1,"eager","over_largest_bucket",6,8,0,[9,64],-1,"borrow")");
  trace.Line(R"({{"policy":0,"document":{{"version":1,"buckets":[4,16]}}}})");
  trace.Event("policy", -1, "0,0,0");
  trace.Event("call", 0, R"(2,-1,-1,"eager","over_largest_bucket",6,8,0,[17,65],-1,"borrow")");
  EXPECT_EQ(ObstacleOf(trace, 1), "batch=9 over the largest bucket, 8, rows=64");
  EXPECT_EQ(ObstacleOf(trace, 2),
            "batch=17 over the largest bucket, 16, rows=65 over the largest bucket, 64");
  trace.Line(R"([1,"policy",-1,0,0,0])");  // Behind the first call in the file, before it in time.
  EXPECT_EQ(ObstacleOf(trace, 1), "batch=9, rows=64");
}

TEST(ProfTest, PolicySaysSoWhereThereIsNothingToPad) {
  TraceBuilder trace;
  EXPECT_THAT(RunProf("policy", trace, {}).out,
              HasSubstr("no call of these programs has a size that can be padded"));
}

TEST(ProfTest, EveryReasonHasARemedy) {
  EXPECT_STREQ(RemedyOf(Reason::kNone), "");
  for (int reason = 1; reason < kReasonCount; ++reason)
    EXPECT_GT(std::string(RemedyOf(static_cast<Reason>(reason))).size(), 20U) << reason;
}

TEST(ProfTest, SummaryTellsServiceFromWhatTearingDownLeft) {
  TraceBuilder trace = CleanTrace();
  trace.Event("bytes", -1, R"("nodes",0,5096)");
  trace.Event("bytes", -1, R"("eager",0,1000)");
  trace.Event("end", -1);
  const nlohmann::json summary = JsonOf("summary", trace);
  EXPECT_EQ(summary["bytes"]["nodes"]["service_end_bytes"], 12288);
  EXPECT_EQ(summary["bytes"]["nodes"]["end_bytes"], 0);
  EXPECT_EQ(summary["total_service_end_bytes"], 17384);
  EXPECT_EQ(summary["total_end_bytes"], 1000);
  EXPECT_THAT(RunProf("summary", trace, {}).out,
              testing::ContainsRegex("total +16.98 KiB +16.98 KiB +1000 B"));
}

TEST(ProfTest, SummaryHasTheStaticsThatTheApplicationHolds) {
  TraceBuilder trace = CleanTrace();
  EXPECT_THAT(RunProf("summary", trace, {}).out, testing::Not(HasSubstr("statics")));
  trace.Program("other");
  trace.Event("statics", -1, "0,2048,2048");
  trace.Event("statics", -1, "1,1024,2560");
  trace.Event("statics", -1, "1,0,2048");
  trace.Event("call", 0, R"(9,-1,-1,"eager","user_disabled",6,8,0,[6],-1,"borrow")");
  trace.Event("statics", -1, "0,0,0");
  const nlohmann::json summary = JsonOf("summary", trace);
  EXPECT_EQ(summary["statics_peak_bytes"], 2560);
  EXPECT_EQ(summary["statics_service_end_bytes"], 2048);
  EXPECT_EQ(summary["statics_end_bytes"], 0);
  EXPECT_EQ(summary["total_peak_bytes"], 17384) << "they are no part of it";
  EXPECT_EQ(summary["programs"][0]["statics_peak_bytes"], 2048);
  EXPECT_EQ(summary["programs"][1]["statics_peak_bytes"], 1024);
  EXPECT_THAT(RunProf("summary", trace, {}).out,
              testing::ContainsRegex("statics +2.50 KiB +2.00 KiB +0 B  held by the application"));
}

TEST(ProfTest, AGraphEndsTheFailuresOfItsBucket) {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Bucket(0, 8);
  trace.Failure("cuCtxSynchronize", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not under capture");
  trace.Event("fail", 0, "0,0");
  trace.Node({.bucket = 0, .height = 64, .live = 64, .buffers = {{0, 64, 0, {0, 1}}}});
  trace.Event("record", 0, "0");
  trace.Call(1, 0, 0, "record", "new_bucket");
  trace.Call(2, 0, -1, "eager", "byte_limit");
  EXPECT_EQ(JsonOf("why", trace)["calls"][1]["failure"], nullptr);
}

TEST(ProfTest, WhyPrintsAsManyLinesAsAsked) {
  const nlohmann::json report = JsonOf("why", CleanTrace(), {"--limit", "2"});
  EXPECT_EQ(report["count"], 6);
  EXPECT_EQ(report["calls"].size(), 2U);
  const CommandOutcome outcome = RunProf("why", CleanTrace(), {"--limit", "2"});
  EXPECT_THAT(outcome.out, HasSubstr("and 4 more"));
}

TEST(ProfTest, EqualTracesGiveEqualOutput) {
  for (const char* command : {"summary", "buckets", "why", "check"}) {
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{}, std::vector<std::string>{"--json"}}) {
      const CommandOutcome once = RunProf(command, CleanTrace(), options);
      const CommandOutcome again = RunProf(command, CleanTrace(), options);
      EXPECT_EQ(once.out, again.out);
      EXPECT_EQ(once.code, kExitOk);
    }
  }
}

TEST(ProfTest, EveryViewReadsATraceOfAHeaderAlone) {
  for (const char* command : {"summary", "buckets", "why", "check"})
    EXPECT_EQ(RunProf(command, TraceBuilder(), {}).code, kExitOk) << command;
  EXPECT_EQ(RunProf("map", TraceBuilder(), {"--ascii"}).code, kExitOk);
}

TEST(ProfTest, BadInputIsOneLineAndExitCodeTwo) {
  TraceBuilder broken = CleanTrace();
  const int64_t line = broken.Line("nonsense");
  for (const char* command : {"summary", "buckets", "why", "check"}) {
    const CommandOutcome outcome = RunProf(command, broken, {});
    EXPECT_EQ(outcome.code, kExitUsage) << command;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("_trace:{}: ", line)));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  }
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"prof"},
                                             {"prof", "summary"},
                                             {"prof", "summary", ""},
                                             {"prof", "buckets", "t", "--sort", "colour"},
                                             {"prof", "map", "t", "--bucket", "x"},
                                             {"prof", "why", "t", "--limit", "0"}}) {
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

// Two marks among the events of two lanes, whose lines are in no order of time.
TraceBuilder MarkedTrace() {
  TraceBuilder trace(/*lanes=*/2);
  trace.Program("decode");
  trace.Bucket(0, 8);
  trace.Node({.bucket = 0, .height = 4096, .live = 4096, .buffers = {}, .around = {}});
  trace.Line(R"([5000,"call",1,1,-1,-1,"eager","user_disabled",0,0,0,[6],-1,"borrow"])");
  trace.Line(R"([1000,"bytes",-1,"eager",4096,4096])");
  trace.Line(R"({{"mark":0,"name":"warm"}})");
  trace.Line(R"([2000,"mark",-1,0])");
  trace.Line(R"([2500,"bytes",-1,"nodes",4096,8192])");
  trace.Line(R"([2600,"bytes",-1,"eager",0,4096])");
  trace.Line(R"({{"mark":1,"name":"traffic"}})");
  trace.Line(R"([4000,"mark",-1,1])");
  trace.Line(R"([6000,"mark",-1,0])");
  trace.Line(R"([1500,"call",0,1,0,-1,"warm_up","new_bucket",6,8,0,[6],-1,"borrow"])");
  trace.Line(R"([2000,"record",0,0])");
  trace.Line(R"([3000,"call",0,2,0,0,"record","new_bucket",6,8,0,[6],-1,"borrow"])");
  trace.Line(R"([4000,"call",0,3,0,0,"replay","none",6,8,0,[6],-1,"borrow"])");
  trace.Line(R"([4500,"evict",0,0])");
  trace.Line(R"([9000,"end",-1])");
  return trace;
}

TEST(ProfTest, MarksAreInOrderOfTimeWithWhatHappenedUpToTheNext) {
  const nlohmann::json report = JsonOf("marks", MarkedTrace());
  const nlohmann::json& phases = report["phases"];
  ASSERT_EQ(phases.size(), 4U);
  const auto expect = [&](size_t i, const nlohmann::json& mark, const std::vector<int64_t>& row) {
    EXPECT_EQ(phases[i]["mark"], mark);
    std::vector<int64_t> found;
    for (const char* key :
         {"time_ns", "calls", "replays", "graphs_recorded", "graphs_evicted", "total_peak_bytes"}) {
      found.push_back(phases[i][key].get<int64_t>());
    }
    EXPECT_EQ(found, row) << i;
  };
  expect(0, nullptr, {0, 1, 0, 0, 0, 4096});
  expect(1, "warm", {2000, 1, 0, 1, 0, 8192});
  expect(2, "traffic", {4000, 2, 1, 0, 1, 4096});  // As much as there was at its mark,
  expect(3, "warm", {6000, 0, 0, 0, 0, 4096});     // since nothing changed behind it.
  EXPECT_EQ(report["ended"], true);
}

TEST(ProfTest, SummarySaysHowManyBucketsItLeavesOut) {
  TraceBuilder trace;
  trace.Program("f");
  for (int i = 0; i < 13; ++i)
    trace.Bucket(0, 1 + i);
  EXPECT_THAT(RunProf("summary", trace, {}).out,
              HasSubstr("  ... and 3 more; see coppice prof buckets\n"));
  EXPECT_THAT(RunProf("summary", CleanTrace(), {}).out, testing::Not(HasSubstr("more; see")));
}

TEST(ProfTest, MarksTableHasALinePerMarkUpToTheLimit) {
  const CommandOutcome all = RunProf("marks", MarkedTrace(), {});
  EXPECT_EQ(all.code, kExitOk);
  EXPECT_THAT(all.out, HasSubstr("(the beginning)"));
  EXPECT_LT(all.out.find("warm"), all.out.find("traffic"));
  EXPECT_LT(all.out.find("traffic"), all.out.rfind("warm"));
  const CommandOutcome few = RunProf("marks", MarkedTrace(), {"--limit", "2"});
  EXPECT_THAT(few.out, HasSubstr("... and 2 more; give --limit"));
  EXPECT_THAT(few.out, testing::Not(HasSubstr("traffic")));
}

TEST(ProfTest, TraceWithoutMarksIsOnePhase) {
  const nlohmann::json report = JsonOf("marks", CleanTrace());
  ASSERT_EQ(report["phases"].size(), 1U);
  EXPECT_EQ(report["phases"][0]["calls"], 8);
  EXPECT_THAT(RunProf("marks", CleanTrace(), {}).out, HasSubstr("no mark was set"));
}

TEST(ProfTest, MarksOfWhatIsNoTraceAreAUsageError) {
  const TemporaryFile file("nothing\n");
  EXPECT_EQ(RunCoppice({"prof", "marks", file.path()}).code, kExitUsage);
}

}  // namespace
}  // namespace coppice
