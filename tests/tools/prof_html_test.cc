// Goal: `coppice prof html` says in one document what `prof summary`, `buckets`, `map` and `why`
// say, thins what a screen cannot show and says so, escapes what a trace holds, and writes the same
// page for the same trace; what it says of changes is what came of them. Method: the document of a
// small trace beside what those commands print, with limits that it passes; pages as text; a run of
// the decoder, whose calls are made again here too. prof_html_page_test.py looks at pages in a
// browser.

#include "tools/prof/html/prof_html.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/padding/policy_document.h"

#include "tests/support/status_matchers.h"
#include "tests/support/text_count.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"
#include "tools/prof/html/report_document.h"
#include "tools/prof/html/report_page.h"
#include "tools/prof/html/whatif_ladders.h"
#include "tools/prof/html/whatif_view.h"
#include "tools/prof/whatif/whatif_report.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Document = nlohmann::ordered_json;

Document DocumentOf(const TraceBuilder& trace, const ReportLimits& limits = {}) {
  const TemporaryFile file(trace.Text());
  const absl::StatusOr<ReportFacts> facts = ReadReportFacts(file.path());
  EXPECT_THAT(facts, IsOk());
  return facts.ok() ? BuildReport(*facts, limits) : Document();
}

// What another subcommand says of the same trace.
Document WhatSays(const std::string& command,
                  const TraceBuilder& trace,
                  std::vector<std::string> options = {}) {
  const TemporaryFile file(trace.Text());
  options.insert(options.begin(), {"prof", command, file.path(), "--json"});
  const CommandOutcome outcome = RunCoppice(options);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  return Document::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

// Evictions, a failed recording, a suspension, two lanes' worth of reasons.
TraceBuilder EventfulTrace() {
  TraceBuilder trace = CleanTrace(/*budget=*/99999);
  trace.Failure("cuMemAlloc_v2", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "it broke its capture");
  trace.Event("fail", 0, "1,0");
  trace.Call(101, 1, -1, "eager", "not_capturable");
  trace.Event("evict", 0, "2");
  trace.Event("statics", -1, "0,2048,4096");
  trace.Call(102, 1, -1, "eager", "evicted");
  trace.Event("statics", -1, "0,0,2048");
  trace.Call(103, 1, -1, "eager", "evicted");
  return trace;
}

std::vector<std::string> TitlesOf(const Document& report) {
  std::vector<std::string> titles;
  for (const Document& finding : report["findings"])
    titles.push_back(finding["title"]);
  return titles;
}

TEST(ProfHtmlTest, FiguresAreThoseOfSummary) {
  const TraceBuilder trace = EventfulTrace();
  const Document report = DocumentOf(trace);
  const Document said = WhatSays("summary", trace);
  EXPECT_EQ(report["schema"], kReportSchema);
  for (const char* key :
       {"calls", "paths", "real_elements", "padded_elements", "padded_share_pct", "total_end_bytes",
        "total_service_end_bytes", "total_peak_bytes", "buckets", "graphs_recorded",
        "graphs_evicted", "executables", "exact_replays", "exec_bytes_estimate", "suspends"}) {
    EXPECT_EQ(report["summary"][key], said[key]) << key;
  }
  for (const char* key : {"device", "lanes", "granularity_bytes", "budget_bytes", "ended",
                          "last_ns", "events", "dropped_events"}) {
    EXPECT_EQ(report["session"][key], said[key]) << key;
  }
  for (const Document& kind : report["memory"]["kinds"]) {
    const Document& account = said["bytes"][kind["kind"].get<std::string>()];
    EXPECT_EQ(kind["end_bytes"], account["end_bytes"]);
    EXPECT_EQ(kind["service_end_bytes"], account["service_end_bytes"]);
    EXPECT_EQ(kind["peak_bytes"], account["peak_bytes"]);
    EXPECT_EQ(kind["estimate"], account["estimate"]);
    EXPECT_EQ(kind["what"], account["what"]);
  }
  const Document& statics = report["memory"]["statics"];
  EXPECT_EQ(statics["peak_bytes"], said["statics_peak_bytes"]);
  EXPECT_EQ(statics["service_end_bytes"], said["statics_service_end_bytes"]);
  EXPECT_EQ(statics["end_bytes"], said["statics_end_bytes"]);
  ASSERT_EQ(report["programs"].size(), said["programs"].size());
  EXPECT_EQ(report["programs"][0]["calls"], said["programs"][0]["calls"]);
}

TEST(ProfHtmlTest, RowsOfBucketsAreThoseOfBuckets) {
  const TraceBuilder trace = EventfulTrace();
  const Document report = DocumentOf(trace);
  const Document said = WhatSays("buckets", trace, {"--sort", "id"});
  ASSERT_EQ(report["buckets"].size(), said["buckets"].size());
  for (size_t i = 0; i < said["buckets"].size(); ++i)
    for (const auto& [key, value] : said["buckets"][i].items())
      EXPECT_EQ(report["buckets"][i][key], value) << key;
}

TEST(ProfHtmlTest, CallsOverTimeOfABucketAddUpToItsCalls) {
  const Document report = DocumentOf(CleanTrace());
  for (const Document& row : report["buckets"]) {
    int64_t calls = 0;
    for (const Document& bar : row["calls_over_time"])
      calls += bar.get<int64_t>();
    EXPECT_EQ(calls, row["calls"]);
    EXPECT_LE(row["first_call_ns"], row["last_call_ns"]);
  }
}

TEST(ProfHtmlTest, PlansAreThoseOfMap) {
  const TraceBuilder trace = CleanTrace();
  const Document report = DocumentOf(trace);
  const Document said = WhatSays("map", trace);
  ASSERT_EQ(report["map"]["plans"].size(), said["rows"].size());
  for (size_t i = 0; i < said["rows"].size(); ++i) {
    const Document& plan = report["map"]["plans"][i];
    const Document& row = said["rows"][i];
    EXPECT_EQ(plan["bucket"], row["bucket"]);
    EXPECT_EQ(plan["node"], row["highest"]["node"]);
    EXPECT_EQ(plan["height_bytes"], row["highest"]["height_bytes"]);
    EXPECT_EQ(plan["buffers"].size(), row["highest"]["buffers"].size());
    std::vector<int64_t> used;
    for (const Document& range : row["used"])
      used.insert(used.end(), {range[0].get<int64_t>(), range[1].get<int64_t>()});
    EXPECT_EQ(plan["used"], Document(used));
  }
  EXPECT_EQ(report["map"]["lane_heights_bytes"][0], said["lanes"][0]["height_bytes"]);
}

TEST(ProfHtmlTest, CausesAreThoseOfWhyAndEachHasAdvice) {
  const TraceBuilder trace = EventfulTrace();
  const Document report = DocumentOf(trace);
  const Document said = WhatSays("why", trace);
  EXPECT_EQ(report["why"]["count"], said["count"]);
  ASSERT_EQ(report["why"]["causes"].size(), said["causes"].size());
  int64_t drawn = 0;
  for (size_t i = 0; i < said["causes"].size(); ++i) {
    const Document& cause = report["why"]["causes"][i];
    for (const char* key : {"program", "reason", "count"})
      EXPECT_EQ(cause[key], said["causes"][i][key]) << key;
    EXPECT_EQ(cause["first"]["call"], said["causes"][i]["first"]["call"]);
    EXPECT_THAT(cause["advice"].get<std::string>(), Not(IsEmpty()));
    for (const Document& bar : report["why"]["bars"][i])
      drawn += bar.get<int64_t>();
  }
  EXPECT_EQ(drawn, said["count"]);
  ASSERT_EQ(report["why"]["failures"].size(), 1U);
  EXPECT_EQ(report["why"]["failures"][0]["driver_call"], "cuMemAlloc_v2");
  EXPECT_EQ(report["why"]["failures"][0]["count"], said["failures"][0]["count"]);
}

TEST(ProfHtmlTest, EveryReasonHasAdviceThatIsASentence) {
  for (int i = 0; i < kReasonCount; ++i) {
    const std::string advice = AdviceFor(static_cast<Reason>(i));
    EXPECT_THAT(advice, AllOf(testing::MatchesRegex("[A-Z].*\\."), Not(HasSubstr("..")))) << i;
  }
}

TEST(ProfHtmlTest, FindingsNameWhatCostsAndWhatToDo) {
  TraceBuilder trace = EventfulTrace();
  trace.Event("dropped", 0, "4");
  const Document report = DocumentOf(trace);
  EXPECT_THAT(TitlesOf(report), AllOf(Contains("4 events lost"), Contains("1 recording failed"),
                                      Contains("1 graph evicted, 0 recorded again"),
                                      Contains("2 calls ran without a graph: evicted"),
                                      Contains(HasSubstr("stages are padding"))));
  std::vector<std::string> levels;
  for (const Document& finding : report["findings"]) {
    levels.push_back(finding["level"]);
    EXPECT_THAT(finding["advice"].get<std::string>(), Not(IsEmpty()));
  }
  EXPECT_EQ(levels.front(), "high");
  const std::vector<std::string> order = {"high", "medium", "low", "good"};
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end(), [&](const auto& a, const auto& b) {
    return std::find(order.begin(), order.end(), a) < std::find(order.begin(), order.end(), b);
  }));
}

TEST(ProfHtmlTest, ABudgetThatIsNearlyFullIsAFinding) {
  TraceBuilder trace(/*lanes=*/1, /*budget=*/10000);
  trace.Event("bytes", -1, R"("nodes",9500,9500)");
  EXPECT_THAT(TitlesOf(DocumentOf(trace)), Contains("The budget is 95 % full"));
}

TEST(ProfHtmlTest, ARareBucketThatAloneKeepsManyBytesIsAFinding) {
  const auto titles = [](int calls, bool evicted) {
    TraceBuilder trace;
    trace.Program("f");
    for (const int64_t extent : {8, 9}) {
      const int bucket = static_cast<int>(extent - 8);
      trace.Bucket(0, extent);
      trace.Node({.bucket = bucket,
                  .height = 4096 * (bucket + 1),
                  .live = 4096,
                  .buffers = {{0, 4096 * (bucket + 1), -1, {0, 1}}}});
      trace.Event("record", 0, fmt::format("{}", bucket));
    }
    for (int call = 1; call <= 200; ++call)
      trace.Call(call, 0, 0, "replay");
    for (int call = 201; call < 201 + calls; ++call)
      trace.Call(call, 1, 1, "replay");
    if (evicted) trace.Event("evict", 0, "1");
    return TitlesOf(DocumentOf(trace));
  };
  const auto rare = Contains(HasSubstr("Bucket f 9 is rarely used, but holds 4.98 KiB"));
  EXPECT_THAT(titles(1, false), rare);
  EXPECT_THAT(titles(100, false), Not(rare));
  EXPECT_THAT(titles(1, true), Not(rare)) << "it keeps nothing any more";
}

TEST(ProfHtmlTest, MemoryKeepsItsPeakHoweverItIsThinned) {
  TraceBuilder trace;
  for (int i = 1; i <= 100; ++i) {
    const int bytes = i == 57 ? 9000 : i;
    trace.Event("bytes", 0, fmt::format(R"("nodes",{},{})", bytes, bytes));
  }
  const Document thin = DocumentOf(trace, {.instants = 4});
  EXPECT_LE(thin["memory"]["times_ns"].size(), 12U);
  EXPECT_THAT(thin["memory"]["total_bytes"], Contains(9000));
  EXPECT_EQ(thin["memory"]["total_bytes"].back(), 100);
  EXPECT_EQ(thin["limits"]["memory"]["of"], 100);
  const Document whole = DocumentOf(trace);
  EXPECT_EQ(whole["memory"]["times_ns"].size(), 101U);  // And none at first.
  EXPECT_FALSE(whole["limits"].contains("memory"));
}

TEST(ProfHtmlTest, MemoryIsInTheOrderOfTimeWhateverThatOfLines) {
  TraceBuilder trace;
  trace.Line(R"([900000,"bytes",-1,"nodes",3,8000])");
  trace.Line(R"([800000,"bytes",-1,"nodes",70000,90000])");
  const Document report = DocumentOf(trace);
  EXPECT_THAT(report["memory"]["times_ns"], ElementsAre(0, 800000, 900000));
  EXPECT_THAT(report["memory"]["total_bytes"], ElementsAre(0, 90000, 8000));
}

TEST(ProfHtmlTest, SuspensionsAndMarksAreThere) {
  TraceBuilder trace;
  trace.Line(R"({{"mark":0,"name":"warm"}})");
  trace.Event("suspend", -1);
  trace.Event("resume", -1);
  trace.Event("mark", -1, "0");
  trace.Event("suspend", -1);
  const Document report = DocumentOf(trace);
  EXPECT_EQ(report["memory"]["suspensions_ns"], Document({{1000, 2000}, {4000, 4000}}));
  EXPECT_THAT(report["memory"]["moments"], Contains(Document({3000, "mark", "warm"})));
}

TEST(ProfHtmlTest, CallsOverTheLimitAreSampledAndThoseThatDidNotReplayStay) {
  TraceBuilder trace;
  trace.Program("f");
  trace.Bucket(0, 8);
  trace.Node({.bucket = 0, .height = 64, .live = 64, .buffers = {{0, 64, -1, {0, 1}}}});
  for (int call = 1; call <= 400; ++call) {
    if (call % 100 == 0) {
      trace.Call(call, 0, -1, "eager", "user_disabled");
    } else {
      trace.Call(call, 0, 0, "replay");
    }
  }
  const Document report = DocumentOf(trace, {.calls = 40, .listed = 3});
  const Document& timeline = report["timeline"];
  ASSERT_EQ(timeline["steps_ns"].size(), 40U);
  EXPECT_EQ(std::count(timeline["path"].begin(), timeline["path"].end(),
                       static_cast<int>(RunKind::kEager)),
            4);
  EXPECT_EQ(report["limits"]["calls"], Document({{"shown", 40}, {"of", 400}}));
  EXPECT_EQ(report["limits"]["listed"], Document({{"shown", 3}, {"of", 4}}));
  EXPECT_EQ(report["summary"]["calls"], 400);  // Sums count everything.
  for (const Document& step : timeline["steps_ns"])
    EXPECT_GE(step.get<int64_t>(), 0);
}

TEST(ProfHtmlTest, BuffersOverTheLimitAreTheLargestOnes) {
  TraceBuilder trace;
  trace.Program("f");
  trace.Bucket(0, 8);
  trace.Node({.bucket = 0,
              .height = 1024,
              .live = 1024,
              .buffers = {{0, 8, -1, {0, 1}}, {8, 512, -1, {0, 9}}, {520, 16, -1, {0, 1}}}});
  const Document report = DocumentOf(trace, {.buffers = 0});
  ASSERT_EQ(report["map"]["plans"][0]["buffers"].size(), 1U);
  EXPECT_EQ(report["map"]["plans"][0]["buffers"][0][0], 1);
  EXPECT_EQ(report["limits"]["buffers"], Document({{"shown", 1}, {"of", 3}}));
}

TEST(ProfHtmlTest, PathsSayWhoReadsWhomAndHowLongOutputsAreKept) {
  TraceBuilder trace;
  trace.Program("f");
  trace.Bucket(0, 8);
  trace.Node({.bucket = 0, .height = 64, .live = 64, .buffers = {{0, 64, 0, {0, 1}}}});
  trace.Node({.bucket = 0,
              .height = 128,
              .live = 128,
              .buffers = {{64, 64, 0, {0, 1}}},
              .around = {{0, 64}}});
  trace.Call(1, 0, 0, "replay");
  trace.Event("outputs", 0, "1,0");
  trace.Event("use", 0, "2,1,0,0,0");
  trace.Call(2, 0, 1, "replay");
  trace.Event("release", 0, "1");
  const Document paths = DocumentOf(trace)["paths"];
  EXPECT_EQ(paths["reads"], Document::array({Document::array({0, 1, 1})}));
  EXPECT_EQ(paths["graphs"][0]["root"], true);
  EXPECT_EQ(paths["graphs"][1]["root"], false);
  EXPECT_EQ(paths["graphs"][0]["leases"], 1);
  EXPECT_EQ(paths["graphs"][0]["kept_ns"], 3000);
  EXPECT_EQ(paths["graphs"][0]["output_bytes"], 64);
  EXPECT_EQ(paths["graphs"][1]["around_bytes"], 64);
}

// A graph of two kernels, calls that were timed, requests.
TraceBuilder TimedTrace() {
  TraceBuilder trace;
  trace.Program("f");
  trace.Bucket(0, 8);
  for (const int node : {0, 1}) {
    trace.Line(R"({{"node":{},"bucket":0,"height":64,"live":64,"method":"size","graph_nodes":2,)"
               R"("exec_bytes":1,"record_ns":1,"reason":"new_bucket","around":[],)"
               R"("kernels":[["Scale",[8,2,1],[64,1,1],512],["Add",[8,1,1],[32,4,2],0]],)"
               R"("buffers":[[0,32,0,[0,1],"y"],[32,32,-1,[0,1],""]]}})",
               node);
  }
  for (int call = 1; call <= 100; ++call)
    trace.Event("call", 0,
                fmt::format(R"({},0,{},"replay","none",6,8,0,[6],{},"borrow")", call, call % 2,
                            call % 4 == 0 ? call * 1000 : -1));
  trace.Event("request", -1, "7,5000,25000,12,11");
  trace.Event("request", -1, "8,9000,9000,12,1");
  return trace;
}

TEST(ProfHtmlTest, KernelsOfAGraphAreThereInTheirOrderAndOnceForAllThatLaunchTheSame) {
  const Document report = DocumentOf(TimedTrace());
  const Document& kernels = report["kernels"];
  EXPECT_EQ(kernels["names"], Document({"Scale", "Add"}));
  EXPECT_EQ(kernels["lists"], Document::parse(R"([[[0,"8x2","64",512],[1,"8","32x4x2",0]]])"));
  EXPECT_EQ(kernels["nodes"], Document::parse("[[0,0],[1,0]]"));
  EXPECT_EQ(report["timeline"]["node"][0], 1);
  const Document few = DocumentOf(TimedTrace(), {.launches = 1});
  EXPECT_EQ(few["limits"]["kernels"], Document({{"shown", 0}, {"of", 2}}));
}

TEST(ProfHtmlTest, BuffersHaveTheirLabels) {
  const Document report = DocumentOf(TimedTrace());
  const Document& buffers = report["map"]["plans"][0]["buffers"];
  EXPECT_EQ(buffers[0][5], "y");
  EXPECT_EQ(buffers[1].size(), 5U);
}

TEST(ProfHtmlTest, HostTimesHavePercentilesOfThoseThatWereTaken) {
  const Document report = DocumentOf(TimedTrace());
  ASSERT_EQ(report["times"]["paths"].size(), 1U);
  const Document& replay = report["times"]["paths"][0];
  EXPECT_EQ(replay["path"], "replay");
  EXPECT_EQ(replay["calls"], 100);
  EXPECT_EQ(replay["count"], 25);
  EXPECT_EQ(replay["p50_ns"], 52000);
  EXPECT_EQ(replay["p90_ns"], 92000);
  EXPECT_EQ(replay["max_ns"], 100000);
  EXPECT_EQ(report["timeline"]["host_ns"][3], 4000);
  EXPECT_TRUE(DocumentOf(CleanTrace())["times"]["paths"].empty());
}

TEST(ProfHtmlTest, BinsOfDurationsHoldAllOfThem) {
  const Document durations = DurationsOf({0, 1, 1024, 1500, 4096});
  EXPECT_EQ(durations["first_bin"], 0);
  EXPECT_EQ(durations["bins"].size(), 49U);  // Four per doubling, up to the one from 4096 on.
  EXPECT_EQ(durations["bins"][0], 2);
  EXPECT_EQ(durations["bins"][40], 1);
  EXPECT_EQ(durations["bins"][48], 1);
  EXPECT_EQ(DurationsOf({})["count"], 0);
}

TEST(ProfHtmlTest, RequestsSayTimesToTheFirstTokenAndPerFurtherToken) {
  const Document requests = DocumentOf(TimedTrace())["requests"];
  EXPECT_EQ(requests["count"], 2);
  EXPECT_EQ(requests["first_token"]["max_ns"], 9000);
  EXPECT_EQ(requests["per_output_token"]["count"], 1) << "one token has no further one";
  EXPECT_EQ(requests["per_output_token"]["p50_ns"], 2000);
  EXPECT_EQ(requests["rows"][0][0], 7);
  const Document thin = DocumentOf(TimedTrace(), {.requests = 1});
  EXPECT_EQ(thin["requests"]["rows"][0][0], 8) << "the slowest to begin";
  EXPECT_EQ(thin["limits"]["requests"], Document({{"shown", 1}, {"of", 2}}));
}

TEST(ProfHtmlTest, ATraceWithoutEventsIsAReport) {
  const Document report = DocumentOf(TraceBuilder());
  EXPECT_EQ(report["summary"]["calls"], 0);
  EXPECT_THAT(TitlesOf(report), Contains("The trace has no calls"));
  EXPECT_THAT(PageOf(report), HasSubstr("</html>"));
}

TEST(ProfHtmlTest, TextsOfATraceEndNoElement) {
  TraceBuilder trace;
  trace.Program("</script><img src=x onerror=alert(1)>");
  trace.Program("<!--");
  const std::string page = PageOf(DocumentOf(trace));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cimg src=x"));
  EXPECT_THAT(page, HasSubstr("\\u003c!--"));
}

TEST(ProfHtmlTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(ScriptSafeJson(Document({{"name", "a\xff<b"}})),
            "{\"name\":\"a\xEF\xBF\xBD\\u003cb\"}");
}

TEST(ProfHtmlTest, ThePolicyForbidsTheNetworkAndNamesEveryScript) {
  EXPECT_EQ(PolicyDigest("abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
  const std::string page = PageOf(DocumentOf(CleanTrace()));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-eval")));
  EXPECT_EQ(CountOf(page, "<script>"), CountOf(page, "'sha256-") - 1);  // One is of the style.
  EXPECT_EQ(CountOf(page, "{{"), 0);
}

TEST(ProfHtmlTest, ThePageHoldsTheLicenceOfItsCharts) {
  const std::string page = PageOf(DocumentOf(CleanTrace()));
  EXPECT_THAT(page, HasSubstr("Chart.js Contributors"));
  EXPECT_THAT(page, HasSubstr("THE SOFTWARE IS PROVIDED \"AS IS\""));
}

TEST(ProfHtmlTest, EqualTracesGiveEqualFiles) {
  const std::string text = EventfulTrace().Text();
  std::vector<std::string> pages;
  for (const char* name : {"a", "another"}) {
    const TemporaryFile trace(text, name);
    const TemporaryFile page("", std::string(name) + ".html");
    const CommandOutcome outcome = RunCoppice({"prof", "html", trace.path(), "-o", page.path()});
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, IsEmpty());
    pages.push_back(page.Read());
  }
  EXPECT_EQ(pages[0], pages[1]);
  EXPECT_THAT(pages[0], testing::StartsWith("<!DOCTYPE html>"));
}

TEST(ProfHtmlTest, JsonIsTheDocumentThatThePageShows) {
  EXPECT_EQ(WhatSays("html", CleanTrace()), DocumentOf(CleanTrace()));
}

TEST(ProfHtmlTest, PageHasANameBesideTheTraceUnlessOneIsGiven) {
  const TemporaryFile trace(CleanTrace().Text(), "t.trace");
  const TemporaryFile page("", "t.html");
  const CommandOutcome named = RunCoppice({"prof", "html", trace.path()});
  EXPECT_EQ(named.code, kExitOk) << named.err;
  EXPECT_EQ(named.out, "wrote " + page.path() + "\n");
  EXPECT_EQ(RunCoppice({"prof", "html", trace.path(), "-o", "-"}).out, page.Read());
}

// A run of the decoder, whose calls can be made again.
class DecoderTrace {
 public:
  DecoderTrace() : file_("", "decoder.trace") {
    const CommandOutcome run = RunCoppice({"run", "--requests", "8", "--verify", "none", "--quiet",
                                           "--device", "host", "--trace-out", file_.path()});
    EXPECT_EQ(run.code, kExitOk) << run.err;
  }
  const std::string& path() const { return file_.path(); }
  std::string Text() const { return file_.Read(); }

 private:
  const TemporaryFile file_;
};

Document ReportWithWhatIf(const std::string& trace) {
  const CommandOutcome outcome = RunCoppice({"prof", "html", trace, "--json", "--what-if"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  return Document::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

TEST(ProfHtmlTest, FiguresOfAChangeAreThoseOfItsRepetition) {
  const DecoderTrace trace;
  const Document said = ReportWithWhatIf(trace.path())["what_if"];
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReportFacts facts, ReadReportFacts(trace.path()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WhatIf> whatif,
                               OpenWhatIf(trace.path(), facts));
  COPPICE_ASSERT_OK_AND_ASSIGN(const WhatIfOutcome same, whatif->Repeat({}));
  EXPECT_EQ(said["outcomes"][0]["figures"], ToJson(same.figures));
  Document left_out;
  const std::vector<WhatIfLadder> ladders =
      LaddersOf(facts, same.figures.total_peak, ReportLimits(), left_out);
  ASSERT_EQ(said["ladders"].size(), ladders.size());
  int failed = 0;
  for (size_t i = 0; i < ladders.size(); ++i) {
    ASSERT_EQ(said["ladders"][i]["steps"].size(), ladders[i].steps.size());
    for (size_t j = 0; j < ladders[i].steps.size(); ++j) {
      const Document& step = said["ladders"][i]["steps"][j];
      SCOPED_TRACE(step.dump());
      EXPECT_EQ(step["change"], Describe(ladders[i].steps[j].changes));
      const Document& outcome = said["outcomes"][step["outcome"].get<size_t>()];
      const absl::StatusOr<WhatIfOutcome> repeated = whatif->Repeat(ladders[i].steps[j].changes);
      EXPECT_EQ(repeated.ok(), !outcome.contains("error"));
      if (repeated.ok())
        EXPECT_EQ(outcome["figures"], ToJson(repeated->figures));
      else
        EXPECT_NE(outcome["error"], "");
      failed += repeated.ok() ? 0 : 1;
    }
  }
  EXPECT_LT(failed, static_cast<int>(said["outcomes"].size()) / 2);
}

TEST(ProfHtmlTest, EveryLadderOfChangesBeginsWithNone) {
  const DecoderTrace trace;
  const Document said = ReportWithWhatIf(trace.path())["what_if"];
  std::vector<std::string> kinds;
  for (const Document& ladder : said["ladders"]) {
    kinds.push_back(ladder["kind"]);
    EXPECT_EQ(ladder["steps"][0]["outcome"], 0);
    EXPECT_EQ(ladder["steps"][0]["change"], "nothing");
    EXPECT_GT(ladder["steps"].size(), 1U);
    EXPECT_LE(ladder["steps"].size(), 10U);
  }
  EXPECT_THAT(kinds,
              AllOf(Contains("policy"), Contains("budget"), Contains("drop"), Contains("outputs")));
}

// The steps of the ladder with this label.
std::vector<std::string> StepsOf(const std::string& trace, const std::string& label) {
  const absl::StatusOr<ReportFacts> facts = ReadReportFacts(trace);
  EXPECT_THAT(facts, IsOk());
  Document left_out;
  std::vector<std::string> steps;
  for (const WhatIfLadder& ladder : LaddersOf(*facts, 4096, ReportLimits(), left_out))
    for (const WhatIfStep& step : ladder.steps)
      if (ladder.label == label) steps.push_back(step.label);
  return steps;
}

TEST(ProfHtmlTest, OtherPoliciesAreOthersThanTheLastOne) {
  const DecoderTrace trace;
  const std::string label = "padding of decode, batch";
  EXPECT_THAT(StepsOf(trace.path(), label), AllOf(Contains("pow2"), Contains("learned")));
  std::string text = trace.Text();
  const size_t end = text.rfind('\n', text.size() - 2) + 1;
  text.insert(end, fmt::format("{{\"policy\":0,\"document\":{}}}\n[{},\"policy\",-1,1,0,0]\n",
                               WritePolicyDocument({.policy = *PaddingPolicy::Pow2(32)}),
                               text.substr(end + 1, text.find(',', end) - end - 1)));
  const TemporaryFile changed(text, "changed.trace");
  EXPECT_THAT(StepsOf(changed.path(), label), AllOf(Contains("vllm"), Not(Contains("pow2"))));
}

TEST(ProfHtmlTest, ChangesAreInThePageOnlyIfAskedFor) {
  const DecoderTrace trace;
  const std::string without = RunCoppice({"prof", "html", trace.path(), "-o", "-"}).out;
  const std::string with = RunCoppice({"prof", "html", trace.path(), "-o", "-", "--what-if"}).out;
  for (const char* part : {"id=\"what-if\"", "href=\"#what-if\">What if</a>", "\"what_if\":"}) {
    EXPECT_THAT(without, Not(HasSubstr(part)));
    EXPECT_THAT(with, HasSubstr(part));
  }
  EXPECT_THAT(without, HasSubstr("coppice prof html TRACE --what-if"));
  EXPECT_EQ(with, RunCoppice({"prof", "html", trace.path(), "-o", "-", "--what-if"}).out);
}

TEST(ProfHtmlTest, CallsAreMadeAgainUpToALimitThatIsNamed) {
  const DecoderTrace trace;
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReportFacts facts, ReadReportFacts(trace.path()));
  const size_t calls = facts.calls.size();
  EXPECT_THAT(OpenWhatIf(trace.path(), facts, {.what_if_calls = calls}), IsOk());
  const auto refused = OpenWhatIf(trace.path(), facts, {.what_if_calls = calls - 1});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr(std::to_string(calls - 1)), HasSubstr("--what-if")));
}

TEST(ProfHtmlTest, SizesBeyondTheLimitAreSaid) {
  const DecoderTrace trace;
  COPPICE_ASSERT_OK_AND_ASSIGN(const ReportFacts facts, ReadReportFacts(trace.path()));
  Document left_out = Document::object();
  const std::vector<WhatIfLadder> all = LaddersOf(facts, 4096, ReportLimits(), left_out);
  EXPECT_TRUE(left_out.empty());
  const std::vector<WhatIfLadder> fewer = LaddersOf(facts, 4096, {.what_if_policies = 1}, left_out);
  EXPECT_EQ(left_out["what_if_policies"]["shown"], 1);
  EXPECT_LT(fewer.size(), all.size());
}

TEST(ProfHtmlTest, ErrorsAreOneLineWithTheirCode) {
  const TemporaryFile trace(CleanTrace().Text());
  const TemporaryFile broken("no trace\n", "broken");
  const std::string page = trace.path() + ".html";
  const auto fails = [](const std::vector<std::string>& arguments, ExitCode code) {
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(CountOf(outcome.err, "\n"), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("; "));
  };
  fails({"prof", "html", trace.path(), "-o", "-", "--json"}, kExitUsage);
  fails({"prof", "html", broken.path(), "-o", page}, kExitUsage);
  fails({"prof", "html", trace.path() + ".none", "-o", page}, kExitUsage);
  fails({"prof", "html", trace.path(), "-o", trace.path()}, kExitUsage);
  fails({"prof", "html", trace.path(), "-o", page, "--what-if"}, kExitUsage);
  fails({"prof", "html", trace.path(), "-o", page + "/none/report.html"}, kExitOutput);
  EXPECT_FALSE(std::filesystem::exists(page));
}

}  // namespace
}  // namespace coppice
