// Goal: what `coppice prof export` and `coppice prof json` write says what the trace says, and no
// more; its totals are the summary's. Method: traces written by hand, read back as JSON or as text.
// python/tests/prof_export_test.py has what is made of `prof json`.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/command_outcome.h"
#include "tests/tools/exported_trace.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::array kExportForms = {"chrome", "dot"};

// What `coppice prof json` prints, line by line.
std::vector<ExportedValue> LinesOf(const TraceBuilder& trace) {
  const TemporaryFile file(trace.Text());
  const CommandOutcome outcome = RunCoppice({"prof", "json", file.path()});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  std::vector<ExportedValue> lines;
  for (size_t begin = 0; begin < outcome.out.size();) {
    const size_t end = outcome.out.find('\n', begin);
    lines.push_back(ExportedValue::parse(outcome.out.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

TEST(ProfExportTest, EveryFormatHasTheTotalsOfTheSummary) {
  for (const TraceBuilder& trace : {CleanTrace(), TraceBuilder()}) {
    const TemporaryFile file(trace.Text());
    const ExportedValue summary = JsonOf(RunCoppice({"prof", "summary", file.path(), "--json"}));
    const int64_t end = summary["total_end_bytes"];
    const int64_t peak = summary["total_peak_bytes"];

    const ExportedValue chrome = ExportedJson(trace, {"chrome"});
    std::map<std::string, std::pair<int64_t, int64_t>> counters;  // End and peak.
    for (const ExportedValue& event : chrome["traceEvents"]) {
      if (event["ph"] != "C") continue;
      auto& [last, most] = counters[event["name"]];
      last = event["args"]["bytes"];
      most = std::max(most, last);
    }
    EXPECT_EQ(counters["bytes of all kinds"], std::pair(end, peak));
    for (const auto& [kind, bytes] : summary["bytes"].items()) {
      EXPECT_EQ(counters["bytes " + kind],
                std::pair(bytes["end_bytes"].get<int64_t>(), bytes["peak_bytes"].get<int64_t>()));
    }

    for (const ExportedValue& origin : {chrome["otherData"], LinesOf(trace)[0]}) {
      const ExportedValue& totals = origin["totals"];
      EXPECT_EQ(totals["total_end_bytes"], end);
      EXPECT_EQ(totals["total_peak_bytes"], peak);
      EXPECT_EQ(totals["exec_bytes_estimate"], summary["exec_bytes_estimate"]);
      EXPECT_EQ(totals["paths"], summary["paths"]);
    }
    EXPECT_THAT(Exported(trace, {"dot"}),
                HasSubstr(fmt::format("{} bytes at most, {} at the end", peak, end)));
  }
}

TEST(ProfExportTest, JsonNamesThingsWhereTheyOccur) {
  TraceBuilder trace = NamedTrace();
  trace.Event("call", 0, R"(1,0,0,"replay","none",6,8,0,[6],1500,"copy_out")");
  trace.Event("use", 0, "2,1,0,1,64");
  trace.Failure("cuCtxSynchronize", "CUDA_ERROR_UNKNOWN", "not under capture");
  trace.Event("fail", 0, "0,0");
  trace.Line(R"({{"mark":7,"name":"warm"}})");
  trace.Event("mark", -1, "7");
  trace.Event("end", -1);
  const std::vector<ExportedValue> lines = LinesOf(trace);
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[0]["events"], 5);
  const ExportedValue& node = lines[1];
  EXPECT_EQ(node["label"], "decode/int8 8");
  EXPECT_EQ(node["kernels"], ExportedValue({"Attend", "Sample"}));
  EXPECT_EQ(node["buffers"][0], ExportedValue({{"label", "logits"},
                                               {"named", true},
                                               {"offset", 0},
                                               {"bytes", 1024},
                                               {"output", 0},
                                               {"lifetime", {{1, 3}}}}));
  EXPECT_EQ(node["buffers"][1]["label"], "#1");
  EXPECT_EQ(node["buffers"][2]["output"], nullptr);
  const ExportedValue& call = lines[3];
  EXPECT_EQ(call["event"], "call");
  EXPECT_EQ(call["label"], "decode/int8 8");
  EXPECT_EQ(call["path"], "replay");
  EXPECT_EQ(call["extents"], ExportedValue({6}));
  EXPECT_EQ(call["host_ns"], 1500);
  EXPECT_EQ(call["outputs"], "copy_out");
  EXPECT_EQ(lines[4]["offset_bytes"], 64);
  EXPECT_EQ(lines[5]["code"], "CUDA_ERROR_UNKNOWN");
  EXPECT_EQ(lines[6]["name"], "warm");
  EXPECT_EQ(lines[7]["event"], "end");
}

TEST(ProfExportTest, JsonHasEventsInOrderOfTime) {
  TraceBuilder trace(/*lanes=*/2);
  trace.Line(R"([2000,"bytes",0,"eager",4096,4096])");
  trace.Line(R"([1000,"bytes",1,"eager",0,0])");
  const std::vector<ExportedValue> lines = LinesOf(trace);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1]["time_ns"], 1000);
  EXPECT_EQ(lines[2]["total_bytes"], 4096);
}

TEST(ProfExportTest, MarksAreInstants) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"({{"mark":0,"name":"warm \"up\""}})");
  trace.Event("mark", -1, "0");
  const ExportedValue chrome = ExportedJson(trace, {"chrome"});
  const ExportedValue& last = chrome["traceEvents"].back();
  EXPECT_EQ(last["name"], "warm \"up\"");
  EXPECT_EQ(last["ph"], "i");
  EXPECT_EQ(last["tid"], 0);
}

TEST(ProfExportTest, DotHasAnEdgeWhereACallReadsAnothersOutputs) {
  TraceBuilder trace = CleanTrace();
  trace.Event("evict", 0, "1");
  const std::string dot = Exported(trace, {"dot"});
  EXPECT_THAT(dot, HasSubstr("  node0 -> node2 [label=\"1\"];\n"));
  EXPECT_EQ(dot.find("->"), dot.rfind("->"));
  EXPECT_THAT(dot, HasSubstr("node0 [label=\"decode 8\\lnode 0, 3 calls\\lplan of 12.00 KiB, "
                             "around 0 B of live outputs\\l\"];"));
  EXPECT_THAT(dot, HasSubstr("node 1, 1 call\\lplan of 6.00 KiB, around 0 B of live outputs"
                             "\\l\", style=dashed];"));
  EXPECT_THAT(dot, HasSubstr("bucket1 [label=\"decode 4\\l1 call without a graph\\l\", "
                             "shape=ellipse];"));
}

TEST(ProfExportTest, WithoutAFileItGoesToStandardOutput) {
  for (const char* format : kExportForms)
    EXPECT_EQ(RunExport(CleanTrace(), {format}).out, Exported(CleanTrace(), {format})) << format;
}

TEST(ProfExportTest, EqualTracesGiveEqualFiles) {
  for (const char* format : kExportForms)
    EXPECT_EQ(Exported(CleanTrace(), {format}), Exported(CleanTrace(), {format})) << format;
  EXPECT_EQ(LinesOf(CleanTrace()), LinesOf(CleanTrace()));
}

TEST(ProfExportTest, FormatsThatPythonWritesAreNamed) {
  for (const char* format : {"memory-viz", "colour"}) {
    const CommandOutcome outcome = RunExport(CleanTrace(), {format});
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.err, HasSubstr("python -m coppice.prof export"));
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(RunCoppice({"prof", "export"}).code, kExitUsage);
  EXPECT_EQ(RunCoppice({"prof", "export", "chrome"}).code, kExitUsage);
  EXPECT_EQ(RunCoppice({"prof", "export", "chrome", "no such file"}).code, kExitUsage);
}

TEST(ProfExportTest, BrokenTracesAreRefusedBeforeAnythingIsWritten) {
  TraceBuilder broken = CleanTrace();
  const std::string wanted = fmt::format("_trace:{}: ", broken.Line("nonsense"));
  const TemporaryFile out("as before", "out");
  for (const char* format : kExportForms) {
    const CommandOutcome outcome = RunExport(broken, {format, "-o", out.path()});
    EXPECT_EQ(outcome.code, kExitUsage) << format;
    EXPECT_THAT(outcome.err, HasSubstr(wanted));
    EXPECT_EQ(out.Read(), "as before");
  }
  const TemporaryFile file(broken.Text());
  const CommandOutcome as_json = RunCoppice({"prof", "json", file.path()});
  EXPECT_EQ(as_json.code, kExitUsage);
  EXPECT_THAT(as_json.err, HasSubstr(wanted));
  EXPECT_THAT(as_json.out, IsEmpty());
}

TEST(ProfExportTest, FilesThatCannotBeWrittenAreExitCodeFour) {
  for (const char* format : kExportForms) {
    const CommandOutcome outcome = RunExport(CleanTrace(), {format, "-o", "/no/such/folder/file"});
    EXPECT_EQ(outcome.code, kExitOutput) << format;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  const TemporaryFile trace(CleanTrace().Text());
  const CommandOutcome over =
      RunCoppice({"prof", "export", "chrome", trace.path(), "-o", trace.path()});
  EXPECT_EQ(over.code, kExitUsage);
  EXPECT_THAT(over.err, HasSubstr("written over an input"));
}

}  // namespace
}  // namespace coppice
