// Goal: whatever is in a trace, every part of `coppice prof` gives a right answer or says in one
// line what is wrong, soon, and in little memory. Method: changed copies of traces,
// each drawn from a seed of its own; COPPICE_MUTATIONS says how many, in place of 400. What a
// reader cannot survive ends the program, and leaves the trace in the folder of temporary files.

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/test_share.h"
#include "tests/tools/drawn_traffic.h"
#include "tests/tools/process_limits.h"
#include "tests/tools/text_stream.h"
#include "tests/tools/trace_builder.h"
#include "tests/tools/trace_mutator.h"
#include "tools/prof/export/export_command.h"
#include "tools/prof/export/prof_json.h"
#include "tools/prof/html/prof_html.h"
#include "tools/prof/prof.h"
#include "tools/prof/watch/prof_watch.h"
#include "tools/prof/watch/watch_state.h"
#include "tools/prof/whatif/whatif_command.h"

namespace coppice {
namespace {

// In which everything happens.
std::string FullTrace() {
  TraceBuilder trace = CleanTrace(/*budget=*/1 << 20);
  trace.Line(R"({{"program":1,"name":"prefill","variant":"int8","symbols":["batch","length"],)"
             R"("scalars":["layers"],"spec":{{}},"policies":[],"joint":[]}})");
  trace.Line(R"({{"bucket":2,"program":1,"lane":0,"extents":[4,128],"scalars":[-7]}})");
  trace.Line(R"({{"node":3,"bucket":2,"height":8192,"live":6144,"method":"size","graph_nodes":3,)"
             R"("exec_bytes":1000,"record_ns":5000,"reason":"new_bucket","around":[[0,1024]],)"
             R"("donated":[[1024,512,2]],"kernels":[["attend",[64,1,1],[256,1,1],8192],)"
             R"(["add",[1,2,3],[32,1,1],0]],"buffers":[[2048,2048,0,[0,3],"y"],)"
             R"([4096,1024,1,[1,2,4,5],""],[5120,512,-1,[2,3],"scores"]]}})");
  trace.Event("record", 0, "3");
  for (int call = 9; call < 13; ++call)
    trace.Event("call", 0,
                fmt::format(R"({},2,3,"replay","none",6,8,1,[3,100],1500,"borrow")", call));
  trace.Event("use", 0, "13,12,0,1,64");
  trace.Line(R"({{"policy":0,"document":{{"maximum":8,"buckets":[4,8]}}}})");
  trace.Event("policy", -1, "1,0,0");
  trace.Event("statics", -1, "1,2048,6000");
  trace.Event("request", -1, "17,5000000,95000000,128,10");
  trace.Event("outputs", 0, "12,3");
  trace.Event("part", 0, "12,1");
  trace.Failure("cuCtxSynchronize", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not under capture");
  trace.Event("fail", 0, "2,0");
  trace.Event("call", 0, R"(13,2,-1,"eager","not_capturable",6,8,1,[3,100],-1,"copy_out")");
  trace.Event("call", 0, R"(14,-1,-1,"eager","user_disabled",6,8,1,[3,100],-1,"borrow")");
  trace.Line(R"({{"mark":0,"name":"request 17"}})");
  trace.Event("mark", -1, "0");
  trace.Event("evict", 0, "2");
  trace.Event("dropped", 0, "4");
  trace.Event("bytes", -1, R"("nodes",0,0)");
  trace.Event("end", -1);
  return trace.Text();
}

// Of a session, so that its calls can be made again.
std::string SessionTrace(uint64_t seed) {
  const TemporaryFile file("", "session");
  DrawnTraffic traffic = DrawTraffic(seed);
  traffic.paths.resize(12);
  EXPECT_OK(RunTraffic(traffic, {}, file.path()));
  return file.Read();
}

struct Answer {
  ExitCode code = kExitOk;
  std::string out;
  std::string err;
};

Answer AnswerOf(const std::function<ExitCode(const Console&)>& run) {
  const TextStream out;
  const TextStream err;
  Answer answer;
  answer.code = run({.out = out.stream(), .err = err.stream()});
  answer.out = out.Text();
  answer.err = err.Text();
  return answer;
}

struct Reader {
  std::string name;
  bool json = false;  // It prints JSON.
  std::function<ExitCode(const std::string& path, const Console&)> run;
};

using ProfPart = ExitCode (*)(const ProfOptions&, const Console&);

void AddPart(const std::string& name, ProfPart part, std::vector<Reader>& readers) {
  for (const bool json : {false, true}) {
    readers.push_back({name, json, [=](const std::string& path, const Console& console) {
                         return part({.trace = path, .other = path, .json = json}, console);
                       }});
  }
}

std::vector<Reader> AllReaders() {
  std::vector<Reader> readers;
  AddPart("summary", &ProfSummary, readers);
  AddPart("buckets", &ProfBuckets, readers);
  AddPart("why", &ProfWhy, readers);
  AddPart("marks", &ProfMarks, readers);
  AddPart("check", &ProfCheck, readers);
  AddPart("diff", &ProfDiff, readers);
  AddPart("policy", &ProfPolicy, readers);
  AddPart("drop", &ProfDrop, readers);
  for (const bool ascii : {false, true}) {
    for (const std::optional<int64_t> bucket :
         {std::optional<int64_t>(), std::optional<int64_t>(1)})
      readers.push_back({"map", !ascii, [=](const std::string& path, const Console& console) {
                           return ProfMap({.trace = path,
                                           .json = !ascii,
                                           .bucket = bucket,
                                           .out = ascii ? "" : "/dev/null",
                                           .ascii = ascii},
                                          console);
                         }});
  }
  readers.push_back({"html", true, [](const std::string& path, const Console& console) {
                       return ProfHtml({.trace = path, .json = true, .out = "/dev/null"}, console);
                     }});
  for (const ExportFormat format : {ExportFormat::kChrome, ExportFormat::kDot}) {
    const bool json = format == ExportFormat::kChrome;
    readers.push_back({NameOf(format), json, [=](const std::string& path, const Console& console) {
                         return ProfExport({.format = format, .trace = path}, console);
                       }});
  }
  readers.push_back({"json", false, [](const std::string& path, const Console& console) {
                       return ProfJson({.trace = path}, console);
                     }});
  for (const bool json : {false, true}) {
    readers.push_back({"watch", json, [=](const std::string& path, const Console& console) {
                         const WatchWorld world = {.now_ns = [] { return int64_t{0}; },
                                                   .wait = [](int64_t) {},
                                                   .terminal = [] { return Terminal(); }};
                         return WatchSession({.trace = path, .once = true, .json = json}, console,
                                             world);
                       }});
  }
  const std::vector<WhatIfChanges> changes = {
      {},           {.drops = {"p0:16"}},        {.policies = {"pow2"}},
      {.lanes = 2}, {.budget_bytes = 64 * kMiB}, {.suspend_idle_ns = 1, .copy_outputs = true}};
  for (size_t i = 0; i < changes.size(); ++i) {
    const bool json = i % 2 == 0;
    readers.push_back({"whatif", json, [=](const std::string& path, const Console& console) {
                         return WhatIfCommand(
                             {.trace = path, .changes = changes[i], .json = json, .quiet = true},
                             console);
                       }});
  }
  return readers;
}

// What is behind `answer` if it is not as it should be; empty if it is.
std::string Fault(const Reader& reader, const Answer& answer) {
  if (answer.code != kExitOk && answer.code != kExitMismatch && answer.code != kExitUsage)
    return fmt::format("exit code {}", static_cast<int>(answer.code));
  if (answer.code == kExitUsage) {
    const bool one_line = std::ranges::count(answer.err, '\n') == 1 && answer.err.ends_with('\n');
    const bool remedy = answer.err.find("; ") != std::string::npos;
    return one_line && remedy && answer.out.empty() ? "" : "the error is '" + answer.err + "'";
  }
  if (!answer.err.empty()) return "an answer, and the error '" + answer.err + "'";
  if (reader.json && !nlohmann::json::accept(answer.out)) return "it prints no JSON";
  return {};
}

// Sums of a trace that comes in pieces are those of the trace as a whole.
std::string FaultInPieces(const std::string& path, const std::string& text, TraceMutator& mutator) {
  WatchState state;
  const auto add = [&](const PoolTrace& trace, const TracedEvent& event) {
    state.Add(trace, event);
  };
  TraceStream stream(path, add);
  absl::Status status;
  for (size_t at = 0; at < text.size() && status.ok();) {
    const size_t bytes = std::min(1 + mutator.Draw(2000), text.size() - at);
    status = stream.Take(std::string_view(text).substr(at, bytes));
    if (status.ok() && mutator.Draw(4) == 0) state.Look(stream.trace(), 1.0);
    at += bytes;
  }
  if (status.ok()) status = stream.Finish().status();
  const absl::StatusOr<TraceSummary> summary = SummarizeTrace(path);
  if (status != summary.status())
    return fmt::format("in pieces '{}', as a whole '{}'", status.ToString(),
                       summary.status().ToString());
  return {};
}

TEST(ProfHostileTest, ChangedTracesAreAnsweredOrRefusedInOneLine) {
  // Of fewer copies it may be that hardly one is a trace.
  const int64_t cases = std::max<int64_t>(Mutations(400), 120);
  const std::vector<std::string> seeds = {FullTrace(), FullTrace(), SessionTrace(1),
                                          SessionTrace(2), CleanTrace(/*budget=*/40000).Text()};
  for (const std::string& seed : seeds) {
    const TemporaryFile file(seed, "hostile");
    ASSERT_OK(SummarizeTrace(file.path()));
  }
  const std::vector<Reader> readers = AllReaders();
  int64_t answered = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const uint64_t seed = TestSeed() + static_cast<uint64_t>(i);
    TraceMutator mutator(seed);
    const std::string text = mutator.Mutate(seeds[mutator.Draw(seeds.size())]);
    SCOPED_TRACE(fmt::format("COPPICE_TEST_SEED={} COPPICE_MUTATIONS=1", seed));
    const TemporaryFile file(text, "hostile");
    // Most readers read a trace in the same way, and say the same of one that is none.
    const bool is_trace = SummarizeTrace(file.path()).ok();
    if (is_trace) ++answered;
    LimitTime();
    for (const Reader& reader : readers) {
      if (mutator.Draw(is_trace ? 3 : readers.size()) > 0) continue;
      const Answer answer =
          AnswerOf([&](const Console& console) { return reader.run(file.path(), console); });
      ASSERT_EQ(Fault(reader, answer), "") << reader.name << "\n" << text;
    }
    ASSERT_EQ(FaultInPieces(file.path(), text, mutator), "") << text;
    // A sanitizer's own memory is beside that.
    if (kPlainBuild) {
      ASSERT_LT(MostBytesOfProcess(), kGiB) << text;
    }
  }
  EndTimeLimit();
  EXPECT_GT(answered, cases / 4);
}

TEST(ProfHostileTest, LongLinesAreReadOrRefusedInLittleMemory) {
  // A quarter of the longest line: time that grows with the square shows at that.
  constexpr size_t kBytes = (kPlainBuild ? 2 * kMiB : kMiB / 4) - 4096;
  const auto line = [](const std::string& begins, std::string_view piece, std::string_view ends) {
    std::string text = CleanTrace().Text() + begins;
    text.reserve(text.size() + kBytes + ends.size() + 1);
    for (size_t bytes = 0; bytes + piece.size() <= kBytes; bytes += piece.size())
      text += piece;
    return text.append(ends) + '\n';
  };
  const auto is_read = [](const std::string& text) {
    const TemporaryFile file(text, "hostile");
    LimitTime();
    const bool read = SummarizeTrace(file.path()).ok();
    EndTimeLimit();
    return read;
  };
  const std::string node =
      R"({"node":9,"bucket":0,"height":0,"live":0,"method":"","graph_nodes":0,"exec_bytes":0,)"
      R"("record_ns":0,"reason":"none","around":[],"kernels":[],"buffers":[)";
  for (const char* piece :
       {"{},", "[],", "0,", "\"\",", "[[],[]],", "{\"\":{}},", "{\"\":0},", "[[[[[[]]]]]],"}) {
    EXPECT_FALSE(is_read(line(node, piece, "0]}"))) << piece;
  }
  const std::string program = R"({"program":1,"name":"","variant":"","symbols":[)";
  const std::string spec = R"("spec":{},"policies":[],"joint":[]})";
  EXPECT_TRUE(is_read(line(node, R"([0,1,-1,[0,1],""],)", R"([0,1,-1,[0,1],""]]})")));
  EXPECT_TRUE(is_read(line(program, "\"\",", R"(""],"scalars":[],)" + spec)));
  EXPECT_TRUE(is_read(
      line(program + R"(],"scalars":[],"spec":{},"joint":[],"policies":[)", "{},", "{}]}")));
  EXPECT_TRUE(is_read(
      line(program + R"(],"scalars":[],"policies":[],"joint":[],"spec":{"":[)", "{},", "{}]}}")));
  EXPECT_TRUE(
      is_read(line(R"({"bucket":2,"program":0,"lane":0,"scalars":[],"extents":[)", "0,", "0]}")));
  if (kPlainBuild) {
    EXPECT_LT(MostBytesOfProcess(), kGiB);
  }
}

TEST(ProfHostileTest, LinesLongerThan8MiBAreRefused) {
  const TemporaryFile file(CleanTrace().Text() + std::string(9 * kMiB, ' '), "hostile");
  EXPECT_THAT(SummarizeTrace(file.path()).status().ToString(),
              testing::HasSubstr("longer than 8 MiB"));
}

}  // namespace
}  // namespace coppice
