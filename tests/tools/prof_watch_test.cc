// Goal: `coppice prof watch` shows at every look what `coppice prof summary` says of as much of the
// trace, whatever pieces it comes in, and says what became of a trace that goes another way.
// Method: the command in this process, on files that grow, shrink and vanish while it waits; clock,
// waiting and terminal are the test's.

#include "tools/prof/watch/prof_watch.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include <sys/stat.h>

#include "coppice/graphs/session.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"
#include "tools/prof/watch/file_tail.h"
#include "tools/prof/watch/traced_process.h"
#include "tools/prof/watch/watch_report.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kSecondNs = 1'000'000'000;

void Append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

// Watches, and runs a step each time that it waits; it is told to stop when there is none left.
// Somebody writes the file unless `has_writer` says otherwise.
CommandOutcome Watch(
    const ProfWatchOptions& options,
    std::vector<std::function<void()>> steps = {},
    const Terminal& terminal = {},
    const std::string& processes = "/proc",
    const std::function<bool(const FileTail&)>& has_writer = [](const FileTail&) { return true; }) {
  size_t step = 0;
  bool stopped = false;
  int64_t now_ns = 7 * kSecondNs;
  const WatchWorld world = {.now_ns = [&] { return now_ns; },
                            .wait =
                                [&](int64_t nanoseconds) {
                                  now_ns += nanoseconds;
                                  stopped = step == steps.size();
                                  if (!stopped) steps[step++]();
                                },
                            .terminal = [&] { return terminal; },
                            .processes = processes,
                            .has_writer = has_writer};
  return OutcomeOf(
      "coppice", {},
      [&](int, const char* const*, const Console& console) {
        return WatchSession(options, console, world);
      },
      [&] { return stopped; });
}

std::vector<nlohmann::json> LooksOf(const CommandOutcome& outcome) {
  std::vector<nlohmann::json> looks;
  std::string_view rest = outcome.out;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    looks.push_back(nlohmann::json::parse(rest.substr(0, end), nullptr, false));
    rest.remove_prefix(end + 1);
  }
  return looks;
}

TEST(ProfWatchTest, EveryLookIsTheSummaryOfAsMuchOfTheTrace) {
  TraceBuilder trace = CleanTrace(/*budget=*/99999);
  trace.Event("end", -1);
  const std::string text = trace.Text();
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 20; ++round) {
    const TemporaryFile grown("", "grown");
    std::vector<std::string> prefixes = {""};
    std::vector<std::function<void()>> steps;
    for (size_t at = 0; at < text.size();) {
      const size_t bytes =
          std::min(std::uniform_int_distribution<size_t>(1, 700)(random), text.size() - at);
      steps.emplace_back([&, at, bytes] { Append(grown.path(), text.substr(at, bytes)); });
      at += bytes;
      prefixes.push_back(text.substr(0, text.rfind('\n', at - 1) + 1));
    }
    const CommandOutcome outcome = Watch({.trace = grown.path(), .json = true}, steps);
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    const std::vector<nlohmann::json> looks = LooksOf(outcome);
    ASSERT_EQ(looks.size(), prefixes.size());
    for (size_t i = 0; i < looks.size(); ++i) {
      const nlohmann::json& look = looks[i];
      if (prefixes[i].empty() || std::ranges::count(prefixes[i], '\n') == 0) {
        EXPECT_EQ(look["state"], "empty");
        continue;
      }
      const TemporaryFile whole(prefixes[i], "whole");
      const nlohmann::json summary =
          JsonOf(RunCoppice({"prof", "summary", whole.path(), "--json"}));
      for (const char* figure :
           {"device", "lanes", "events", "last_ns", "calls", "real_elements", "padded_elements",
            "padded_share_pct", "budget_bytes", "total_peak_bytes", "buckets", "graphs_recorded",
            "graphs_evicted", "exec_bytes_estimate", "suspends", "dropped_events"})
        EXPECT_EQ(look[figure], summary[figure]) << figure;
      // Of a session that has ended, what there was before it was torn down.
      const std::string when = look["state"] == "ended" ? "service_end" : "end";
      EXPECT_EQ(look["total_bytes"], summary[fmt::format("total_{}_bytes", when)]);
      EXPECT_EQ(look["bytes"]["nodes"]["bytes"],
                summary["bytes"]["nodes"][fmt::format("{}_bytes", when)]);
      EXPECT_EQ(look["paths"]["record"]["calls"], summary["paths"]["record"]);
    }
    EXPECT_EQ(looks.back()["state"], "ended");
  }
}

TEST(ProfWatchTest, RatesAreOfTheTimeSinceTheLookBefore) {
  TraceBuilder trace = CleanTrace();
  const std::string before = trace.Text();
  for (int call = 9; call < 15; ++call)
    trace.Call(call, 0, 0, "replay");
  trace.Call(15, 1, -1, "eager", "gate_says_eager");
  const TemporaryFile file(before);
  const std::vector<nlohmann::json> looks =
      LooksOf(Watch({.trace = file.path(), .interval_ns = 2 * kSecondNs, .json = true},
                    {[&] { Append(file.path(), trace.Text().substr(before.size())); }, [] {}}));
  ASSERT_EQ(looks.size(), 3U);
  EXPECT_EQ(looks[0]["paths"]["replay"]["calls_per_second"], nullptr);
  EXPECT_EQ(looks[0]["seconds_since_last"], nullptr);
  EXPECT_EQ(looks[1]["seconds_since_last"], 2);
  EXPECT_EQ(looks[1]["paths"]["replay"]["calls_per_second"], 3);
  EXPECT_EQ(looks[1]["paths"]["eager"]["calls_per_second"], 0.5);
  EXPECT_EQ(looks[2]["paths"]["replay"]["calls_per_second"], 0);
  // Those hit most of late come first; then those hit last.
  EXPECT_EQ(looks[1]["buckets_of_late"][0]["bucket"], "decode 8");
  EXPECT_EQ(looks[1]["buckets_of_late"][0]["calls_per_second"], 3);
  EXPECT_EQ(looks[2]["buckets_of_late"][0]["bucket"], "decode 4");
  EXPECT_EQ(looks[1]["reasons"][0]["reason"], "new_bucket");
  EXPECT_THAT(std::string(looks[1]["reasons"][0]["remedy"]), HasSubstr("warming().Warm"));
}

TEST(ProfWatchTest, StateFollowsSuspensionsAndMarksAreTheLastOnes) {
  TraceBuilder trace;
  trace.Program("decode");
  const std::string running = trace.Text();
  trace.Line(R"({{"mark":0,"name":"request 17"}})");
  trace.Event("mark", -1, "0");
  trace.Event("suspend", -1);
  const std::string suspended = trace.Text();
  trace.Event("resume", -1);
  trace.Line(R"({{"mark":1,"name":"request 18"}})");
  trace.Event("mark", -1, "1");
  const std::string resumed = trace.Text();
  const TemporaryFile file("");
  const std::vector<nlohmann::json> looks =
      LooksOf(Watch({.trace = file.path(), .json = true},
                    {[&] { Append(file.path(), running); },
                     [&] { Append(file.path(), suspended.substr(running.size())); },
                     [&] { Append(file.path(), resumed.substr(suspended.size())); }}));
  ASSERT_EQ(looks.size(), 4U);
  EXPECT_EQ(looks[0]["state"], "empty");
  EXPECT_EQ(looks[1]["state"], "running");
  EXPECT_EQ(looks[2]["state"], "suspended");
  EXPECT_EQ(looks[2]["marks"][0]["name"], "request 17");
  EXPECT_EQ(looks[3]["state"], "running");
  EXPECT_EQ(looks[3]["marks"][0]["name"], "request 18");
  EXPECT_EQ(looks[3]["marks"].size(), 2U);
}

TEST(ProfWatchTest, TimesAreThoseOfRequestsAndOfCallsThatWereTimed) {
  TraceBuilder trace = CleanTrace();
  trace.Event("call", 0, R"(9,0,0,"replay","none",6,8,0,[6],40,"borrow")");
  trace.Event("call", 0, R"(10,0,0,"replay","none",6,8,0,[6],-1,"borrow")");
  trace.Event("call", 0, R"(11,0,0,"replay","none",6,8,0,[6],60,"borrow")");
  trace.Event("request", -1, "1,50,100,128,11");
  trace.Event("request", -1, "2,70,70,128,1");  // No token follows the first.
  const TemporaryFile file(trace.Text());
  const nlohmann::json look =
      LooksOf(Watch({.trace = file.path(), .once = true, .json = true})).front();
  EXPECT_EQ(look["host"]["replay"]["count"], 2);
  EXPECT_EQ(look["host"]["replay"]["p50_ns"], 40);
  EXPECT_EQ(look["host"]["replay"]["most_ns"], 60);
  EXPECT_EQ(look["host"]["eager"], nullptr);
  EXPECT_EQ(look["first_token"]["count"], 2);
  EXPECT_EQ(look["first_token"]["p99_ns"], 70);
  EXPECT_EQ(look["further_token"]["count"], 1);
  EXPECT_EQ(look["further_token"]["p50_ns"], 5);
  EXPECT_THAT(
      Watch({.trace = file.path(), .once = true}).out,
      AllOf(HasSubstr("p50 50 ns"), HasSubstr("by the application's clock"), Not(HasSubstr("p99"))))
      << "of so few there is no tail";
  const TemporaryFile without(CleanTrace().Text(), "without");
  EXPECT_THAT(Watch({.trace = without.path(), .once = true}).out,
              Not(HasSubstr("by the application's clock")));
}

TEST(ProfWatchTest, StaticsAreShownWhereThereAreAny) {
  TraceBuilder trace = CleanTrace();
  const auto look = [&] {
    const TemporaryFile file(trace.Text());
    return LooksOf(Watch({.trace = file.path(), .once = true, .json = true})).front();
  };
  const auto lines = [&] {
    const TemporaryFile file(trace.Text());
    return Watch({.trace = file.path(), .once = true}).out;
  };
  EXPECT_FALSE(look().contains("statics_bytes"));
  EXPECT_THAT(lines(), Not(HasSubstr("statics")));
  trace.Event("statics", -1, "0,4096,4096");
  trace.Event("statics", -1, "0,2048,2048");
  EXPECT_EQ(look()["statics_bytes"], 2048);
  EXPECT_EQ(look()["statics_peak_bytes"], 4096);
  EXPECT_THAT(lines(), HasSubstr("2.00 KiB, at most 4.00 KiB: held by the application"));
}

TEST(ProfWatchTest, AStopEndsItWithItsOwnCode) {
  const TemporaryFile file(CleanTrace().Text());
  const CommandOutcome outcome = Watch({.trace = file.path()});
  EXPECT_EQ(outcome.code, kExitStopped);
  EXPECT_THAT(outcome.out, HasSubstr("running"));
  EXPECT_EQ(Watch({.trace = file.path(), .once = true}, {[] { ADD_FAILURE(); }}).code, kExitOk);
}

TEST(ProfWatchTest, AFileThatIsCutShortOrWrittenAnewIsReadFromItsBeginning) {
  const std::string text = CleanTrace().Text();
  const std::string longer = [] {
    TraceBuilder trace(/*lanes=*/2, /*budget=*/7);
    for (int i = 0; i < 100; ++i)
      trace.Program("another");
    return trace.Text();
  }();
  ASSERT_GT(longer.size(), text.size());
  for (const std::string& anew : {std::string(), text.substr(0, 150), longer}) {
    const TemporaryFile file(text);
    const CommandOutcome outcome =
        Watch({.trace = file.path(), .json = true},
              {[&] { std::ofstream(file.path(), std::ios::binary | std::ios::trunc) << anew; }});
    EXPECT_EQ(outcome.code, kExitStopped);
    EXPECT_THAT(outcome.err, HasSubstr("cut short or rewritten"));
    const std::vector<nlohmann::json> looks = LooksOf(outcome);
    ASSERT_EQ(looks.size(), 2U);
    EXPECT_EQ(looks[1]["calls"], 0);
    EXPECT_EQ(looks[1]["seconds_since_last"], nullptr);
    EXPECT_EQ(looks[1]["lanes"], anew.empty() ? 0 : anew == longer ? 2 : 1);
  }
}

TEST(ProfWatchTest, AnotherFileInItsPlaceIsReadAndOneThatIsMovedAwayIsReadFurther) {
  TraceBuilder trace = CleanTrace();
  const std::string text = trace.Text();
  trace.Call(9, 0, 0, "replay");
  const std::string call = trace.Text().substr(text.size());
  const TemporaryFile file(text);
  const TemporaryFile moved("", "moved");
  const CommandOutcome outcome = Watch({.trace = file.path(), .json = true},
                                       {[&] {
                                          std::filesystem::rename(file.path(), moved.path());
                                          Append(moved.path(), call);
                                        },
                                        [&] { Append(file.path(), TraceBuilder(2).Text()); }});
  EXPECT_THAT(outcome.err, HasSubstr("moved or removed"));
  EXPECT_THAT(outcome.err, HasSubstr("another file replaced the trace"));
  const std::vector<nlohmann::json> looks = LooksOf(outcome);
  ASSERT_EQ(looks.size(), 3U);
  EXPECT_EQ(looks[1]["calls"], 9);
  EXPECT_EQ(looks[2]["calls"], 0);
  EXPECT_EQ(looks[2]["lanes"], 2);
}

TEST(ProfWatchTest, WhatIsNoTraceIsRefusedInOneLine) {
  const TemporaryFile text("root:x:0\n");
  const TemporaryFile later(TraceBuilder().Text(), "later");
  const std::vector<CommandOutcome> outcomes = {
      Watch({.trace = text.path()}), Watch({.trace = "/no/such/file"}), Watch({.trace = "/"}),
      Watch({.trace = later.path()}, {[&] { Append(later.path(), "[1,\"no\",0]\n"); }})};
  for (const CommandOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  EXPECT_THAT(outcomes[3].err, HasSubstr("later:2: "));
}

TEST(ProfWatchTest, APipeIsReadAsItIsWritten) {
  const TemporaryFile place("", "pipe");
  std::filesystem::remove(place.path());
  ASSERT_EQ(mkfifo(place.path().c_str(), 0600), 0);
  int writer = -1;
  const auto write_text = [&](const std::string& text) {
    if (writer < 0) writer = open(place.path().c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(write(writer, text.data(), text.size()), std::ssize(text));
  };
  TraceBuilder trace = CleanTrace();
  trace.Event("end", -1);
  const std::string text = trace.Text();
  const CommandOutcome outcome =
      Watch({.trace = place.path(), .json = true},
            {[&] { write_text(text.substr(0, 1000)); }, [&] { write_text(text.substr(1000)); }});
  close(writer);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  const std::vector<nlohmann::json> looks = LooksOf(outcome);
  ASSERT_EQ(looks.size(), 3U);
  EXPECT_EQ(looks[0]["state"], "empty");
  EXPECT_EQ(looks[2]["calls"], 8);
}

TEST(ProfWatchTest, APipeHasAWriterUntilTheLastOneCloses) {
  const TemporaryFile place("", "pipe");
  std::filesystem::remove(place.path());
  ASSERT_EQ(mkfifo(place.path().c_str(), 0600), 0);
  COPPICE_ASSERT_OK_AND_ASSIGN(const FileTail tail, FileTail::Open(place.path()));
  EXPECT_TRUE(tail.has_writer()) << "there may come one";
  const int writer = open(place.path().c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  EXPECT_TRUE(tail.has_writer());
  close(writer);
  EXPECT_FALSE(tail.has_writer());
  int reads = 0;
  const CommandOutcome outcome =
      Watch({.trace = place.path()}, {[] {}, [] {}}, {}, "/proc", [&](const FileTail& watched) {
        EXPECT_TRUE(watched.is_pipe());
        return ++reads < 2;
      });
  EXPECT_EQ(outcome.code, kExitMismatch) << "none comes back, be it empty";
  EXPECT_THAT(outcome.out, HasSubstr("no trace was written"));
}

// A folder as /proc, in which the process 42 has files open.
class Processes {
 public:
  Processes() : folder_(std::filesystem::path(testing::TempDir()) / "coppice_watched_processes") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "42" / "fd");
    std::filesystem::create_directories(folder_ / "42" / "fdinfo");
  }
  ~Processes() { std::filesystem::remove_all(folder_); }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void Open(int descriptor, const std::string& path, const char* flags) const {
    const std::string name = fmt::format("{}", descriptor);
    std::filesystem::create_symlink(path, folder_ / "42" / "fd" / name);
    std::ofstream(folder_ / "42" / "fdinfo" / name)
        << "pos:\t0\nflags:\t" << flags << "\nmnt_id:\t1\n";
  }
  void Close(int descriptor) const {
    std::filesystem::remove(folder_ / "42" / "fd" / fmt::format("{}", descriptor));
  }

  std::string path() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

TEST(ProfWatchTest, TheTraceOfAProcessIsTheOneThatItWrites) {
  const Processes processes;
  const TemporaryFile trace(CleanTrace().Text(), "trace");
  const TemporaryFile other(CleanTrace().Text(), "other");
  const TemporaryFile text("{\"schema\":\"something else\"}\n", "text");
  processes.Open(1, text.path(), "0100001");
  processes.Open(3, other.path(), "0100000");  // Only read.
  processes.Open(4, "socket:[12]", "02");
  const auto none = FindTracedProcess(42, processes.path());
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no trace open for writing"));
  processes.Open(5, trace.path(), "0100001");
  processes.Open(6, trace.path(), "0100002");  // The same file again.
  const auto found = FindTracedProcess(42, processes.path());
  ASSERT_OK(found);
  EXPECT_EQ(found->name, trace.path());
  processes.Open(7, other.path(), "0100001");
  const auto several = FindTracedProcess(42, processes.path());
  EXPECT_THAT(std::string(several.status().message()), HasSubstr(trace.path()));
  EXPECT_THAT(std::string(several.status().message()), HasSubstr(other.path()));
  const auto nobody = FindTracedProcess(43, processes.path());
  EXPECT_THAT(std::string(nobody.status().message()), HasSubstr("no such process"));
}

TEST(ProfWatchTest, AProcessIsWatchedUntilItIsGone) {
  const Processes processes;
  TraceBuilder trace = CleanTrace();
  const std::string text = trace.Text();
  trace.Call(9, 0, 0, "replay");
  const TemporaryFile file(text);
  processes.Open(5, file.path(), "0100001");
  const auto go = [&] {
    Append(file.path(), trace.Text().substr(text.size()));
    processes.Close(5);
  };
  const CommandOutcome outcome =
      Watch({.trace = "42", .json = true}, {[] {}, go}, {}, processes.path());
  EXPECT_EQ(outcome.code, kExitMismatch) << outcome.err;
  const std::vector<nlohmann::json> looks = LooksOf(outcome);
  ASSERT_EQ(looks.size(), 3U);
  EXPECT_EQ(looks[0]["trace"], file.path() + " of process 42");
  EXPECT_EQ(looks[1]["state"], "running");
  EXPECT_EQ(looks[2]["state"], "gone");
  EXPECT_EQ(looks[2]["calls"], 9);
}

TEST(ProfWatchTest, AFileIsWatchedUntilItsWriterIsGone) {
  const std::string text = CleanTrace().Text();
  TraceBuilder ended = CleanTrace();
  ended.Event("end", -1);
  const TemporaryFile file("");
  bool written = false;
  const auto has_writer = [&](const FileTail&) { return written; };
  // One that has not begun may get one.
  const auto begin = [&] {
    written = true;
    Append(file.path(), text);
  };
  const auto leave = [&] { written = false; };
  const CommandOutcome outcome =
      Watch({.trace = file.path(), .json = true}, {[] {}, begin, leave}, {}, "/proc", has_writer);
  EXPECT_EQ(outcome.code, kExitMismatch) << outcome.err;
  const std::vector<nlohmann::json> looks = LooksOf(outcome);
  ASSERT_EQ(looks.size(), 4U);
  EXPECT_EQ(looks[1]["state"], "empty");
  EXPECT_EQ(looks[2]["state"], "running");
  EXPECT_EQ(looks[3]["state"], "gone");
  EXPECT_EQ(looks[3]["calls"], 8);
  EXPECT_EQ(Watch({.trace = file.path(), .once = true}, {}, {}, "/proc", has_writer).code, kExitOk);
  Append(file.path(), ended.Text().substr(text.size()));
  EXPECT_EQ(Watch({.trace = file.path()}, {}, {}, "/proc", has_writer).code, kExitOk);
}

TEST(ProfWatchTest, ASessionHoldsItsTraceAsLongAsItWritesIt) {
  const TestDevice device;
  const TemporaryFile file("");
  const auto has_writer = [&file] {
    const absl::StatusOr<FileTail> tail = FileTail::Open(file.path());
    EXPECT_OK(tail);
    return tail.ok() && tail->has_writer();
  };
  EXPECT_FALSE(has_writer());
  COPPICE_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Session> session,
                               Session::Create(device.context(), {.trace = {.path = file.path()}}));
  EXPECT_TRUE(has_writer());
  EXPECT_TRUE(has_writer()) << "asking takes nothing";
  session.reset();
  EXPECT_FALSE(has_writer());
}

TEST(ProfWatchTest, OurOwnTraceIsFoundByOurNumber) {
  const TemporaryFile file(CleanTrace().Text());
  const int writer = open(file.path().c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  const auto found = FindTracedProcess(getpid());
  close(writer);
  ASSERT_OK(found);
  EXPECT_EQ(std::filesystem::weakly_canonical(found->name),
            std::filesystem::weakly_canonical(file.path()));
}

// What the command prints at a look at this trace, in so many columns.
std::vector<std::string> Lines(const TraceBuilder& trace, int64_t columns) {
  const TemporaryFile file(trace.Text());
  const std::string out = Watch({.trace = file.path(), .once = true}, {}, {.columns = columns}).out;
  std::vector<std::string> lines;
  for (std::string_view rest = out; !rest.empty();) {
    const size_t end = rest.find('\n');
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return lines;
}

TEST(ProfWatchTest, LinesFitAnyWidthAndShowWhatThereIs) {
  TraceBuilder trace = CleanTrace(/*budget=*/40000);
  trace.Line(R"({{"mark":0,"name":"request 17"}})");
  trace.Event("mark", -1, "0");
  trace.Event("statics", -1, "0,4096,4096");
  trace.Event("request", -1, "1,50,100,128,11");
  trace.Program("a program whose name is rather long for a terminal of forty columns");
  trace.Bucket(1, 123456);
  trace.Call(9, 2, -1, "warm_up", "new_bucket");
  for (const int64_t columns : {1, 10, 20, 40, 80, 200}) {
    std::string all;
    for (const std::string& line : Lines(trace, columns)) {
      EXPECT_LE(ColumnsOf(line), std::max<int64_t>(columns, 20)) << line;
      all += line + "\n";
    }
    if (columns < 40) continue;
    for (const char* part :
         {"running", "replay", "nodes", "12.00 KiB", "new_bucket", "warming().Warm", "decode 8",
          "request 17", "padding", "3 kept of 3 recorded", "statics", "1st token"})
      EXPECT_THAT(all, HasSubstr(part)) << columns;
  }
}

TEST(ProfWatchTest, BarsAreOfTheBudgetAndMarkThePeak) {
  TraceBuilder trace(/*lanes=*/1, /*budget=*/4096);
  trace.Event("bytes", -1, R"("nodes",2048,2048)");
  trace.Event("bytes", -1, R"("nodes",1024,1024)");
  std::string bar;
  for (const std::string& line : Lines(trace, 78))
    if (line.find("nodes") != std::string::npos) bar = line;
  // 44 cells: a quarter is full, and the half was.
  EXPECT_THAT(bar, HasSubstr(" " + std::string(11, '#') + std::string(10, '.') + "|" +
                             std::string(22, '.') + " "));
  EXPECT_THAT(bar, HasSubstr("25.0 %"));
}

TEST(ProfWatchTest, NamesGiveTheTerminalNoOrders) {
  TraceBuilder trace;
  trace.Program("evil \\u001b[2J\\u009b \\u202e name");
  trace.Bucket(0, 8);
  trace.Call(1, 0, -1, "warm_up", "new_bucket");
  const TemporaryFile file(trace.Text());
  const CommandOutcome outcome = Watch({.trace = file.path(), .once = true});
  EXPECT_THAT(outcome.out, HasSubstr("evil ?[2J? ? name"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\033")));
}

TEST(ProfWatchTest, OnATerminalALookTakesThePlaceOfTheOneBefore) {
  const TemporaryFile file(CleanTrace().Text());
  const Terminal terminal = {.there = true, .coloured = false, .columns = 80, .rows = 50};
  const CommandOutcome outcome = Watch({.trace = file.path()}, {[] {}}, terminal);
  const size_t up = outcome.out.find("\033[J\r\033[");
  ASSERT_NE(up, std::string::npos);
  const std::string first = outcome.out.substr(0, up);
  EXPECT_THAT(outcome.out, HasSubstr(fmt::format("\r\033[{}A", std::ranges::count(first, '\n'))));
  // Elsewhere they follow each other.
  const std::string appended = Watch({.trace = file.path()}, {[] {}}).out;
  EXPECT_THAT(appended, Not(HasSubstr("\033")));
  EXPECT_THAT(appended, HasSubstr("\n\n"));
}

TEST(ProfWatchTest, ALowTerminalGetsWhatMattersMost) {
  const TemporaryFile file(CleanTrace().Text());
  const Terminal terminal = {.there = true, .coloured = false, .columns = 80, .rows = 8};
  const std::string out = Watch({.trace = file.path(), .once = true}, {}, terminal).out;
  EXPECT_EQ(std::ranges::count(out, '\n'), 7);
  EXPECT_THAT(out, HasSubstr("more lines"));
  EXPECT_THAT(out, HasSubstr("replay"));
}

TEST(ProfWatchTest, MisuseIsOneLineAndExitCodeTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"prof", "watch"},
                                             {"prof", "watch", ""},
                                             {"prof", "watch", "/no/such/file"},
                                             {"prof", "watch", "99999999999"},
                                             {"prof", "watch", "f", "--interval", "0"}}) {
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  TraceBuilder trace = CleanTrace();
  trace.Event("end", -1);
  const TemporaryFile file(trace.Text());
  const CommandOutcome outcome = RunCoppice({"prof", "watch", file.path()});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("ended"));
}

}  // namespace
}  // namespace coppice
