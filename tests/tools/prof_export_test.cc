// Goal: what `coppice prof export` writes says what the trace says, and no more; its totals are the
// summary's. Method: traces written by hand, read back as JSON, as text, or as bytes by rules of
// the format; tests/tools/prof_export_readers_test.py has other people's readers.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <random>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/test_share.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/exported_trace.h"
#include "tests/tools/text_stream.h"
#include "tests/tools/trace_builder.h"
#include "tools/prof/export/export_command.h"
#include "tools/prof/export/memory_history.h"
#include "tools/prof/export/pickle_writer.h"
#include "tools/prof/export/text_formats.h"
#include "tools/prof/export/traced_session.h"
#include "tools/prof/export/viz_snapshot.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::array kExportForms = {"memory-viz", "chrome",       "perfetto",
                                     "rmm-csv",    "nsys-sidecar", "dot"};

ExportedValue VizOf(const TraceBuilder& trace, std::vector<std::string> options = {}) {
  options.insert(options.begin(), {"memory-viz", "--json"});
  return ExportedJson(trace, std::move(options));
}

ExportedValue ReportFor(const TraceBuilder& trace, const char* command = "summary") {
  const TemporaryFile file(trace.Text());
  return JsonOf(RunCoppice({"prof", command, file.path(), "--json"}));
}

// The bytes in use at most, by events that begin with `begin` and end with `end`; that each of
// these ends one is checked, and that none overlap.
int64_t PeakBytes(const ExportedValue& events, const std::string& begin, const std::string& end) {
  std::map<int64_t, int64_t> live;
  int64_t sum = 0;
  int64_t peak = 0;
  for (const ExportedValue& event : events) {
    const int64_t address = event["addr"];
    const int64_t bytes = event["size"];
    if (event["action"] == begin) {
      const auto next = live.lower_bound(address);
      EXPECT_TRUE(next == live.end() || next->first >= address + bytes) << event;
      EXPECT_TRUE(next == live.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= address)
          << event;
      live[address] = bytes;
      sum += bytes;
    } else if (event["action"] == end) {
      EXPECT_EQ(live[address], bytes) << event;
      live.erase(address);
      sum -= bytes;
    }
    peak = std::max(peak, sum);
  }
  return peak;
}

// "action offset+bytes", of blocks in the plan windows' range, without the first of a pair of
// frees.
std::vector<std::string> StepsIn(const ExportedValue& events, int64_t base) {
  std::vector<std::string> steps;
  for (const ExportedValue& event : events) {
    const int64_t offset = event["addr"].get<int64_t>() - base;
    const std::string action = event["action"];
    if (action == "free_requested" || action.starts_with("segment")) continue;
    if (offset < 0 || offset >= int64_t{1} << 40) continue;
    steps.push_back(fmt::format("{} {}+{}", action == "alloc" ? "alloc" : "free", offset,
                                event["size"].get<int64_t>()));
  }
  return steps;
}

int64_t PlanAddress() {
  return AddressOf(MemoryKind::kPlan);
}

std::vector<std::string> HeldBy(const TraceBuilder& trace) {
  return StepsIn(VizOf(trace)["device_traces"][0], PlanAddress());
}

// Two lanes, whose calls hold what lies at the same offset.
TraceBuilder TwoLaneTrace() {
  TraceBuilder trace(/*lanes=*/2);
  trace.Program("decode", "int8");
  for (const int lane : {0, 1}) {
    trace.Bucket(0, 8, lane);
    trace.Node({.bucket = lane, .height = 4096, .live = 4096, .buffers = {{0, 4096, 0, {0, 2}}}});
  }
  trace.Event("bytes", -1, R"("nodes",8192,8192)");
  trace.Event("bytes", -1, R"("spare",4096,12288)");
  for (const int lane : {0, 1}) {
    trace.Event("record", lane, fmt::format("{}", lane));
    trace.Call(1, lane, lane, "record", "new_bucket", lane);
    trace.Event("outputs", lane, fmt::format("1,{}", lane));
  }
  trace.Event("bytes", -1, R"("spare",0,8192)");
  trace.Line(R"({{"mark":0,"name":"warm \"up\""}})");
  trace.Event("mark", -1, "0");
  return trace;
}

TEST(ProfExportTest, EveryFormatHasTheTotalsOfTheSummary) {
  for (const TraceBuilder& trace : {CleanTrace(), TwoLaneTrace(), TraceBuilder()}) {
    const ExportedValue summary = ReportFor(trace);
    const int64_t end = summary["total_end_bytes"];
    const int64_t peak = summary["total_peak_bytes"];

    const ExportedValue viz = VizOf(trace);
    int64_t sum = 0;
    for (const ExportedValue& segment : viz["segments"])
      sum += segment["total_size"].get<int64_t>();
    EXPECT_EQ(sum, end);
    EXPECT_EQ(PeakBytes(viz["device_traces"][0], "segment_alloc", "segment_free"), peak);
    EXPECT_EQ(viz["coppice"]["totals"]["total_peak_bytes"], peak);
    for (const auto& [kind, bytes] : viz["coppice"]["totals"]["bytes"].items()) {
      EXPECT_EQ(bytes["end_bytes"], summary["bytes"][kind]["end_bytes"]) << kind;
      EXPECT_EQ(bytes["peak_bytes"], summary["bytes"][kind]["peak_bytes"]) << kind;
    }

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

    for (const char* format : {"nsys-sidecar", "chrome"}) {
      const ExportedValue json = ExportedJson(trace, {format});
      const ExportedValue& totals =
          json[format == std::string("chrome") ? "otherData" : "trace"]["totals"];
      EXPECT_EQ(totals["total_end_bytes"], end);
      EXPECT_EQ(totals["exec_bytes_estimate"], summary["exec_bytes_estimate"]);
      EXPECT_EQ(totals["paths"], summary["paths"]);
    }
    EXPECT_THAT(Exported(trace, {"dot"}),
                HasSubstr(fmt::format("{} bytes at most, {} at the end", peak, end)));
  }
}

TEST(ProfExportTest, RmmRowsAreWhatWasMapped) {
  EXPECT_EQ(Exported(CleanTrace(), {"rmm-csv"}),
            "Thread,Time,Action,Pointer,Size,Stream\n"
            "0,00:00:00.000001,allocate,0x200000000000,4096,0\n"
            "0,00:00:00.000005,allocate,0x100000000000,12288,0\n"
            "0,00:00:00.000007,allocate,0x900000000000,1000,0\n");
  TraceBuilder trace;
  trace.Line(R"([3723000004000,"bytes",-1,"eager",4096,4096])");
  trace.Line(R"([3723000005999,"bytes",-1,"eager",8192,8192])");
  trace.Line(R"([3723000006000,"bytes",-1,"eager",8192,8192])");
  trace.Line(R"([90000000000000,"bytes",-1,"eager",0,0])");
  EXPECT_EQ(Exported(trace, {"rmm-csv"}),
            "Thread,Time,Action,Pointer,Size,Stream\n"
            "0,01:02:03.000004,allocate,0x200000000000,4096,0\n"
            "0,01:02:03.000005,free,0x200000000000,4096,0\n"
            "0,01:02:03.000005,allocate,0x200000000000,8192,0\n"
            "0,01:00:00.000000,free,0x200000000000,8192,0\n");
}

TEST(ProfExportTest, HistoryHoldsOutputsWhereThePlanSaysUntilTheyAreGivenUpOrWrittenOver) {
  EXPECT_THAT(HeldBy(CleanTrace()),
              ElementsAre("alloc 0+4096", "alloc 4096+2048", "free 0+4096", "free 4096+2048"));
  const ExportedValue viz = VizOf(CleanTrace());
  EXPECT_EQ(viz["coppice"]["leases_of_unknown_size"], 1);
  EXPECT_EQ(viz["coppice"]["outputs_without_place"], 0);
  for (const ExportedValue& event : viz["device_traces"][0]) {
    if (event["action"] != "alloc" || event["category"] != "output") continue;
    EXPECT_EQ(event["user_metadata"]["lane"], 0);
    EXPECT_EQ(event["user_metadata"]["output"], 0);
    EXPECT_THAT(event["frames"][0]["name"].get<std::string>(), StartsWith("decode "));
    EXPECT_EQ(event["frames"][0]["filename"], "coppice://decode");
  }
}

TEST(ProfExportTest, HistoryEndsPartsOfALease) {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Bucket(0, 8);
  trace.Node({.bucket = 0,
              .height = 4096,
              .live = 4096,
              .buffers = {{0, 1024, 0, {0, 2}}, {1024, 2048, 1, {0, 2}}, {3072, 64, -1, {0, 1}}}});
  trace.Event("bytes", -1, R"("nodes",4096,4096)");
  trace.Event("record", 0, "0");
  trace.Call(1, 0, 0, "record", "new_bucket");
  trace.Event("outputs", 0, "1,0");
  trace.Event("part", 0, "1,1");
  EXPECT_THAT(HeldBy(trace), ElementsAre("alloc 0+1024", "alloc 1024+2048", "free 1024+2048"));
  const ExportedValue segment = VizOf(trace)["segments"][0];
  ASSERT_EQ(segment["blocks"].size(), 2U);
  EXPECT_EQ(segment["blocks"][0]["state"], "active_allocated");
  EXPECT_EQ(segment["blocks"][0]["size"], 1024);
  EXPECT_EQ(segment["blocks"][1]["state"], "inactive");
  EXPECT_EQ(segment["blocks"][1]["size"], 3072);
  EXPECT_EQ(segment["segment_pool_id"], ExportedValue({0, 1}));
}

TEST(ProfExportTest, HistoryOfASuspendedSessionHoldsNothingUntilItsMemoryIsBack) {
  TraceBuilder trace = TwoLaneTrace();
  trace.Event("suspend", -1);
  trace.Event("bytes", -1, R"("nodes",4096,4096)");
  trace.Event("bytes", -1, R"("nodes",0,0)");
  trace.Event("release", 1, "1");
  trace.Event("resume", -1);
  trace.Event("bytes", -1, R"("nodes",8192,8192)");
  // Windows of two lanes share the range, so that what lies at one offset is told apart.
  EXPECT_THAT(HeldBy(trace), ElementsAre("alloc 0+4096", "alloc 4096+4096", "free 4096+4096",
                                         "free 0+4096", "alloc 0+4096"));
}

TEST(ProfExportTest, HistoryCountsOutputsThatNeverHadMappedBytes) {
  TraceBuilder trace = TwoLaneTrace();
  trace.Event("bytes", -1, R"("nodes",1024,1024)");
  trace.Call(2, 0, 0, "replay");
  trace.Event("outputs", 0, "2,0");
  trace.Event("release", 0, "2");
  EXPECT_EQ(VizOf(trace)["coppice"]["outputs_without_place"], 1);
}

TEST(ProfExportTest, MarksAreAnnotationsAndInstants) {
  const ExportedValue notes = VizOf(TwoLaneTrace())["external_annotations"];
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0]["name"], "warm \"up\"");
  EXPECT_EQ(notes[0]["stage"], "START");
  EXPECT_EQ(notes[1]["stage"], "END");
  const ExportedValue chrome = ExportedJson(TwoLaneTrace(), {"chrome"});
  const ExportedValue& last = chrome["traceEvents"].back();
  EXPECT_EQ(last["name"], "warm \"up\"");
  EXPECT_EQ(last["ph"], "i");
  EXPECT_EQ(last["tid"], 0);
}

TEST(ProfExportTest, PlanHasADevicePerBucketWithTheHighestOfItsPlans) {
  const ExportedValue viz = VizOf(CleanTrace(), {"--mode", "plan"});
  ASSERT_EQ(viz["device_traces"].size(), 2U);
  EXPECT_THAT(StepsIn(viz["device_traces"][0], PlanAddress()),
              ElementsAre("alloc 4096+8192", "alloc 0+4096", "free 4096+8192"));
  // Around bytes of another call's outputs, which stay; so do outputs at the end.
  EXPECT_THAT(StepsIn(viz["device_traces"][1], PlanAddress()),
              ElementsAre("alloc 0+4096", "alloc 4096+2048", "alloc 6144+2048", "free 6144+2048"));
  const ExportedValue& around = viz["device_traces"][1][1];
  EXPECT_EQ(around["category"], "around");
  const ExportedValue buckets = ReportFor(CleanTrace(), "buckets")["buckets"];
  for (const ExportedValue& device : viz["coppice"]["devices"]) {
    const ExportedValue& events = viz["device_traces"][device["device"].get<size_t>()];
    EXPECT_EQ(PeakBytes(events, "alloc", "free_completed"), device["bound_bytes"]);
    EXPECT_EQ(PeakBytes(events, "segment_alloc", "segment_free"), device["height_bytes"]);
    const auto bucket = std::ranges::find_if(
        buckets, [&](const ExportedValue& one) { return one["bucket"] == device["bucket"]; });
    ASSERT_NE(bucket, buckets.end());
    EXPECT_EQ((*bucket)["height_bytes"], device["height_bytes"]);
    EXPECT_EQ((*bucket)["bound_bytes"], device["bound_bytes"]);
  }
}

TEST(ProfExportTest, PlanEndsWhatABufferInPlaceTakesOver) {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Bucket(0, 8);
  trace.Node({.bucket = 0,
              .height = 128,
              .live = 128,
              .buffers = {{0, 128, -1, {0, 3}}, {0, 64, 0, {2, 5}}, {64, 64, -1, {2, 3, 4, 5}}}});
  EXPECT_THAT(StepsIn(VizOf(trace, {"--mode", "plan"})["device_traces"][0], PlanAddress()),
              ElementsAre("alloc 0+128", "free 0+128", "alloc 0+64", "alloc 64+64", "free 64+64",
                          "alloc 64+64", "free 64+64"));
}

TEST(ProfExportTest, PlanEndsWhatACallGivesAway) {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Bucket(0, 8);
  trace.Line(R"({{"node":0,"bucket":0,"height":192,"live":128,"method":"size","graph_nodes":1,)"
             R"("exec_bytes":1,"record_ns":1,"reason":"new_bucket","around":[],)"
             R"("donated":[[0,64,2]],"buffers":[[64,64,-1,[0,1]],[0,64,0,[2,3]]]}})");
  const ExportedValue viz = VizOf(trace, {"--mode", "plan"});
  EXPECT_THAT(StepsIn(viz["device_traces"][0], PlanAddress()),
              ElementsAre("alloc 0+64", "alloc 64+64", "free 64+64", "free 0+64", "alloc 0+64"));
  EXPECT_EQ(viz["device_traces"][0][1]["category"], "donated");
}

TEST(ProfExportTest, SnapshotsWithCategoriesHaveUnknownOnes) {
  for (const char* mode : {"history", "plan", "path"}) {
    const std::string text = Exported(CleanTrace(), {"memory-viz", "--json", "--mode", mode});
    EXPECT_THAT(text, HasSubstr(R"("category":"unknown")")) << mode;
  }
  EXPECT_THAT(Exported(TraceBuilder(), {"memory-viz", "--json"}), Not(HasSubstr("category")));
}

TEST(ProfExportTest, PathIsTheLongestChainOfCallsThatBuildOnEachOther) {
  const ExportedValue viz = VizOf(CleanTrace(), {"--mode", "path"});
  const ExportedValue& calls = viz["coppice"]["calls"];
  ASSERT_EQ(calls.size(), 2U);  // Call 6 reads what call 5 made.
  EXPECT_EQ(calls[0]["call"], 5);
  EXPECT_EQ(calls[1]["call"], 6);
  EXPECT_EQ(calls[1]["first_step"], 3);
  EXPECT_EQ(viz["coppice"]["calls_left_out"], 0);
  // The output of call 5 is there while call 6 runs, whose plan goes around it.
  EXPECT_THAT(StepsIn(viz["device_traces"][0], PlanAddress()),
              ElementsAre("alloc 4096+8192", "alloc 0+4096", "free 4096+8192", "alloc 4096+2048",
                          "alloc 6144+2048", "free 6144+2048"));
}

TEST(ProfExportTest, PathEndsAtTheCallThatIsAskedFor) {
  const ExportedValue viz = VizOf(CleanTrace(), {"--mode", "path", "--call", "4", "--lane", "0"});
  ASSERT_EQ(viz["coppice"]["calls"].size(), 1U);
  EXPECT_EQ(viz["coppice"]["calls"][0]["node"], 1);
  for (const char* call : {"1", "8", "77"}) {  // Two without a graph, and none.
    const CommandOutcome outcome =
        RunExport(CleanTrace(), {"memory-viz", "--json", "--mode", "path", "--call", call});
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("call {} on lane 0", call)));
  }
  EXPECT_THAT(RunExport(TraceBuilder(), {"memory-viz", "--json", "--mode", "path"}).err,
              HasSubstr("no call of the trace has a graph"));
}

TEST(ProfExportTest, LongPathsKeepTheirLastCalls) {
  TraceBuilder trace;
  trace.Program("decode");
  trace.Bucket(0, 8);
  std::vector<TraceBuilder::Place> buffers;
  for (int i = 0; i < 9'000; ++i)
    buffers.push_back({i * 64, 64, i == 0 ? 0 : -1, {0, 2}});
  trace.Node({.bucket = 0, .height = 576'000, .live = 576'000, .buffers = buffers});
  for (int call = 1; call <= 20; ++call) {
    if (call > 1) trace.Event("use", 0, fmt::format("{},{}", call, call - 1));
    trace.Call(call, 0, 0, "replay");
    trace.Event("outputs", 0, fmt::format("{},0", call));
  }
  const ExportedValue viz = VizOf(trace, {"--mode", "path"});
  EXPECT_EQ(viz["coppice"]["calls_left_out"], 11);
  EXPECT_EQ(viz["coppice"]["calls"][0]["call"], 12);
  EXPECT_LE(viz["device_traces"][0].size(), 250'000U);
}

// One number or line of a trace is another.
std::string ChangeTrace(std::string text, std::mt19937_64& random) {
  static constexpr std::array<const char*, 10> kNumbers = {
      "0", "1", "2", "3", "5", "7", "2048", "4096", "6000", "1099511627776"};
  const auto draw = [&](size_t end) {
    return std::uniform_int_distribution<size_t>(0, end - 1)(random);
  };
  const size_t at = draw(text.size());
  const size_t line = text.rfind('\n', at) + 1;
  const size_t end = text.find('\n', at) + 1;
  if (line == 0 || draw(3) > 0) {
    const size_t begin = text.find_first_of("0123456789", at);
    const size_t size =
        begin == std::string::npos
            ? 0
            : std::min(text.find_first_not_of("0123456789", begin), text.size()) - begin;
    if (size > 0) text.replace(begin, size, kNumbers[draw(kNumbers.size())]);
    return text;
  }
  const std::string taken = text.substr(line, end - line);
  if (draw(2) == 0) text.erase(line, end - line);
  if (draw(2) == 0) {
    const size_t to = text.find('\n', draw(text.size()));
    if (to != std::string::npos) text.insert(to + 1, taken);
  }
  return text;
}

TEST(ProfExportTest, WhateverATraceSaysBlocksDoNotOverlapAndFreesEndAllocations) {
  std::mt19937_64 random(/*seed=*/20);
  const int64_t cases = 1'000 / TestShare();
  const std::array<std::string, 2> seeds = {CleanTrace().Text(), TwoLaneTrace().Text()};
  int64_t read = 0;
  for (int64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE(i);
    std::string text = seeds[static_cast<size_t>(i % 2)];
    for (int64_t times = 1 + i % 4; times > 0; --times)
      text = ChangeTrace(std::move(text), random);
    const TemporaryFile file(text);
    const absl::StatusOr<TracedSession> session = ReadTracedSession(file.path());
    if (!session.ok()) continue;
    ++read;
    std::vector<VizSnapshot> snapshots = {HistorySnapshot(*session), PlanSnapshot(*session)};
    if (absl::StatusOr<VizSnapshot> path = PathSnapshot(*session, {}); path.ok())
      snapshots.push_back(*std::move(path));
    for (const VizSnapshot& snapshot : snapshots) {
      const ExportedValue viz = ExportedValue::parse(JsonTextOf(snapshot));
      for (const ExportedValue& events : viz["device_traces"]) {
        PeakBytes(events, "alloc", "free_completed");
        PeakBytes(events, "segment_alloc", "segment_free");
      }
      ASSERT_FALSE(HasFailure()) << text;
    }
    ASSERT_TRUE(ExportedValue::accept(ChromeTraceOf(*session)));
    ASSERT_TRUE(ExportedValue::accept(NsysSidecarOf(*session)));
    PerfettoTraceOf(*session);
    RmmCsvOf(*session);
    GraphTreeOf(*session);
  }
  EXPECT_GT(read, cases / 4);
}

TEST(ProfExportTest, PicklesHaveTheirOpcodesByTheSizeOfWhatTheyWrite) {
  PickleWriter writer;
  writer.BeginList();
  for (const int64_t number : {int64_t{255}, int64_t{65535}, int64_t{65536}, int64_t{-1},
                               int64_t{1} << 31, int64_t{1} << 39, int64_t{-1} << 40}) {
    writer.Item();
    writer.Int(number);
  }
  for (int i = 0; i < 2; ++i) {
    writer.Item();
    writer.Text("ab");
  }
  writer.EndList();
  using std::string_literals::operator""s;
  EXPECT_EQ(writer.Finish(),
            "\x80\x02]("
            "K\xff"
            "M\xff\xff"
            "J\0\0\1\0"
            "J\xff\xff\xff\xff"
            "\x8a\5\0\0\0\x80\0"
            "\x8a\6\0\0\0\0\x80\0"
            "\x8a\6\0\0\0\0\0\xff"
            "X\2\0\0\0ab"
            "q\0"
            "h\0"
            "e."s);
}

TEST(ProfExportTest, PicklesBreakListsAfterAThousandItems) {
  PickleWriter writer;
  writer.BeginList();
  for (int i = 0; i < 2'500; ++i) {
    writer.Item();
    writer.Bool(true);
  }
  writer.EndList();
  const std::string bytes = writer.Finish();
  EXPECT_EQ(std::ranges::count(bytes, 'e'), 3);
  EXPECT_EQ(std::ranges::count(bytes, '('), 3);
  EXPECT_EQ(bytes.find('e'), bytes.find('(') + 1001);
}

TEST(ProfExportTest, PlansAndPathsCallBuffersByTheirNames) {
  TraceBuilder trace = NamedTrace();
  trace.Call(1, 0, 0, "replay");
  trace.Event("outputs", 0, "1,0");
  for (const char* mode : {"plan", "path"}) {
    const ExportedValue viz = VizOf(trace, {"--mode", mode});
    std::map<std::string, std::string> frames;  // The innermost, by what the metadata say.
    for (const ExportedValue& event : viz["device_traces"][0]) {
      if (event["action"] != "alloc") continue;
      frames[event["user_metadata"]["buffer"]] = event["frames"][0]["name"];
      EXPECT_EQ(event["frames"].back()["name"], "decode/int8 8");
      EXPECT_EQ(event["frames"][0]["filename"], "coppice://decode/int8");
    }
    EXPECT_EQ(frames, (std::map<std::string, std::string>{
                          {"hidden", "hidden"}, {"logits", "logits"}, {"#1", "decode/int8 8"}}))
        << mode;
    // An output that stays is a block with the same frames.
    EXPECT_EQ(viz["segments"][0]["blocks"][0]["frames"][0]["name"], "logits") << mode;
  }
}

TEST(ProfExportTest, HistoryCallsOutputsByTheirNamesInFiftyBytesPerEvent) {
  TraceBuilder trace = NamedTrace();
  trace.Event("bytes", -1, R"("nodes",4096,4096)");
  for (int call = 1; call <= 3'000; ++call) {
    trace.Call(call, 0, 0, "replay");
    trace.Event("outputs", 0, fmt::format("{},0", call));
    trace.Event("part", 0, fmt::format("{},1", call));
    trace.Event("release", 0, fmt::format("{}", call));
  }
  std::map<std::string, int> frames;
  const ExportedValue viz = VizOf(trace);
  for (const ExportedValue& event : viz["device_traces"][0]) {
    if (event["action"] != "alloc") continue;
    ++frames[fmt::format("{}: {}", event["user_metadata"]["buffer"].get<std::string>(),
                         event["frames"][0]["name"].get<std::string>())];
  }
  EXPECT_EQ(frames,
            (std::map<std::string, int>{{"logits: logits", 3'000}, {"#1: decode/int8 8", 3'000}}));
  const auto written = static_cast<int64_t>(viz["device_traces"][0].size());
  EXPECT_LE(static_cast<int64_t>(Exported(trace, {"memory-viz"}).size()), 50 * written);
}

TEST(ProfExportTest, SidecarHasARowPerGraph) {
  TraceBuilder trace = CleanTrace();
  trace.Event("evict", 0, "2");
  const ExportedValue sidecar = ExportedJson(trace, {"nsys-sidecar"});
  ASSERT_EQ(sidecar["graphs"].size(), 3U);
  const ExportedValue& first = sidecar["graphs"][0];
  EXPECT_EQ(first["node"], 0);
  EXPECT_EQ(first["label"], "decode 8");
  EXPECT_EQ(first["bucket"], 0);
  EXPECT_EQ(first["extents"], ExportedValue({8}));
  EXPECT_EQ(first["launches"], 3);
  EXPECT_EQ(first["evicted_ns"], nullptr);
  EXPECT_EQ(first["recorded_ns"], 6000);
  EXPECT_TRUE(sidecar["graphs"][2]["evicted_ns"].is_number());
}

TEST(ProfExportTest, SidecarNamesKernelsInTheOrderOfTheirNodes) {
  const ExportedValue sidecar = ExportedJson(NamedTrace(), {"nsys-sidecar"});
  EXPECT_EQ(sidecar["graphs"][0]["kernels"], ExportedValue({"Attend", "Sample"}));
  EXPECT_THAT(sidecar["graphs"][1]["kernels"], IsEmpty());
}

TEST(ProfExportTest, DotHasAnEdgeWhereACallReadsAnothersOutputs) {
  TraceBuilder trace = CleanTrace();
  trace.Event("evict", 0, "1");
  const std::string dot = Exported(trace, {"dot"});
  EXPECT_THAT(dot, HasSubstr("  node0 -> node2 [label=\"1\"];\n"));
  EXPECT_EQ(dot.find("->"), dot.rfind("->"));
  EXPECT_THAT(dot, HasSubstr("node0 [label=\"decode 8\\lnode 0, 3 calls\\lplan of 12.00 KiB, 0 B "
                             "of them around it\\l\"];"));
  EXPECT_THAT(dot, HasSubstr("node 1, 1 calls\\lplan of 6.00 KiB, 0 B of them around it\\l\", "
                             "style=dashed];"));
  EXPECT_THAT(dot, HasSubstr("bucket1 [label=\"decode 4\\l1 calls without a graph\\l\", "
                             "shape=ellipse];"));
}

TEST(ProfExportTest, WithoutAFileItGoesToStandardOutput) {
  for (const char* format : kExportForms)
    EXPECT_EQ(RunExport(CleanTrace(), {format}).out, Exported(CleanTrace(), {format})) << format;
}

TEST(ProfExportTest, BytesThatAreNoTextAreNotForATerminal) {
  const int controller = posix_openpt(O_RDWR | O_NOCTTY);
  if (controller < 0 || grantpt(controller) != 0 || unlockpt(controller) != 0)
    GTEST_SKIP() << "there are no terminals";
  const int file = open(ptsname(controller), O_RDWR | O_NOCTTY);
  ASSERT_GE(file, 0);
  std::FILE* const terminal = fdopen(file, "w");
  const TextStream err;
  const Console console = {.out = terminal, .err = err.stream(), .stop = nullptr};
  const TemporaryFile trace(CleanTrace().Text());
  for (const char* format : {"memory-viz", "perfetto"}) {
    ProfExportOptions options;
    options.trace = trace.path();
    options.format = *ParseExportFormat(format);
    EXPECT_EQ(ProfExport(options, console), kExitUsage);
    EXPECT_THAT(err.Text(), HasSubstr(std::string(format) + " is no text for a terminal; give -o"));
  }
  std::fclose(terminal);
  close(controller);
}

TEST(ProfExportTest, EqualTracesGiveEqualFiles) {
  for (const char* format : kExportForms)
    EXPECT_EQ(Exported(CleanTrace(), {format}), Exported(CleanTrace(), {format})) << format;
}

TEST(ProfExportTest, MisuseIsOneLineAndExitCodeTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"colour"}, "memory-viz, chrome, perfetto, rmm-csv, nsys-sidecar, dot"},
      {{"chrome", "--json"}, "--json and --mode with memory-viz only"},
      {{"dot", "--mode", "plan"}, "--json and --mode with memory-viz only"},
      {{"memory-viz", "--json", "--mode", "tree"}, "give history, plan or path"},
      {{"memory-viz", "--json", "--call", "3"}, "give --mode path"},
      {{"memory-viz", "--json", "--mode", "path", "--lane", "0"}, "give --call with it"},
      {{"memory-viz", "--json", "--mode", "path", "--call", "-3"}, "is no number of a call"},
      {{"memory-viz", "--json", "--mode", "path", "--call", "9", "--lane", "7"}, "on lane 7"}};
  for (const auto& [arguments, wanted] : cases) {
    const CommandOutcome outcome = RunExport(CleanTrace(), arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(wanted));
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(RunCoppice({"prof", "export"}).code, kExitUsage);
  EXPECT_EQ(RunCoppice({"prof", "export", "chrome"}).code, kExitUsage);
  EXPECT_EQ(RunCoppice({"prof", "export", "chrome", "no such file"}).code, kExitUsage);
}

TEST(ProfExportTest, BrokenTracesAreRefusedBeforeAnythingIsWritten) {
  TraceBuilder broken = CleanTrace();
  const int64_t line = broken.Line("nonsense");
  const TemporaryFile out("as before", "out");
  for (const char* format : kExportForms) {
    const CommandOutcome outcome = RunExport(broken, {format, "-o", out.path()});
    EXPECT_EQ(outcome.code, kExitUsage) << format;
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("_trace:{}: ", line)));
    EXPECT_EQ(out.Read(), "as before");
  }
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
