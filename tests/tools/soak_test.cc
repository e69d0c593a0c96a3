// Goal: a soak counts what it was asked for, and finds every call that is wrong, every one that had
// to replay and did not, and memory that grows. Method: the command in this process on the
// emulator, far shorter than its default; drivers that lose launches, instantiate nothing or lose
// memory; growth judged on made-up series.

#include "tools/soak/soak.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/base/units.h"
#include "coppice/runtime/emulator.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr SoakOptions kShort = {.replays = 330, .records = 40, .buckets = 4, .rounds = 0};

// The table that a dishonest driver falls back on, and how often it did not.
DriverTable honest_table;
int64_t driver_calls = 0;
int64_t faults = 0;

// Runs a short soak on a driver that `spoil` changed.
template <typename Spoil>
absl::StatusOr<SoakReport> SoakOn(Spoil spoil, const SoakOptions& options = kShort) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Emulator> emulator, Emulator::Create());
  honest_table = emulator->driver().table();
  driver_calls = 0;
  faults = 0;
  DriverTable table = honest_table;
  spoil(table);
  const Driver driver(table, DriverKind::kEmulator);
  COPPICE_ASSIGN_OR_RETURN(const Context context, Context::Create(driver));
  return RunSoak(context, options, nullptr);
}

CommandOutcome RunSoakCommand(SoakOptions options) {
  options.device = DeviceChoice::kHost;
  return OutcomeOf("coppice", {}, [&](int, const char* const*, const Console& console) {
    return SoakCommand(options, console);
  });
}

TEST(SoakTest, CountsWhatItWasAskedFor) {
  const CommandOutcome outcome =
      RunSoakCommand({.replays = 330, .records = 40, .buckets = 4, .rounds = 20, .json = true});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(json["section"], "soak");
  EXPECT_EQ(json["device"], "host");
  EXPECT_EQ(json["buckets"], 4);
  EXPECT_GE(json["replays"], 330);  // The churn replays as well.
  EXPECT_EQ(json["records"], 40);
  EXPECT_EQ(json["evictions"], 40);
  EXPECT_EQ(json["rounds"], 20);
  EXPECT_EQ(json["strays"], 0);
  EXPECT_EQ(json["mismatches"], 0);
  // Each bucket of both programs is met eight times before the counting begins.
  EXPECT_EQ(json["checked"], json["replays"].get<int64_t>() + json["records"].get<int64_t>() +
                                 json["without_graph"].get<int64_t>() + 8 * (4 + 8));
  EXPECT_EQ(json["flat"], true);
  ASSERT_EQ(json["memory"].size(), 21U);
  EXPECT_EQ(json["memory"][0]["replays"], 0);
  EXPECT_EQ(json["memory"][0]["records"], 0);
  EXPECT_EQ(json["memory"][9]["replays"], 270);
  EXPECT_EQ(json["memory"][9]["records"], 0);
  EXPECT_EQ(json["memory"][9]["rounds"], 0);
  EXPECT_EQ(json["memory"][20]["replays"], json["replays"]);
  EXPECT_EQ(json["memory"][20]["records"], 40);
  EXPECT_EQ(json["memory"][20]["rounds"], 20);
  for (const nlohmann::json& point : json["memory"]) {
    EXPECT_GT(point["own_bytes"], 0);
    EXPECT_GT(point["driver_free_bytes"], 0);
    EXPECT_GT(point["host_rss_bytes"], 0);
  }
}

TEST(SoakTest, TableSaysThatMemoryIsFlat) {
  const CommandOutcome outcome =
      RunSoakCommand({.replays = 20, .records = 5, .buckets = 2, .rounds = 3});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("over 2 buckets"));
  EXPECT_THAT(outcome.out, HasSubstr("flat"));
}

TEST(SoakTest, ProgressEndsAtTheWholeWork) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Emulator> emulator, Emulator::Create());
  COPPICE_ASSERT_OK_AND_ASSIGN(const Context context, Context::Create(emulator->driver()));
  int64_t last = 0;
  ASSERT_OK(RunSoak(context, kShort, [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    EXPECT_EQ(total, kShort.replays + kShort.records);
    last = done;
    return true;
  }));
  EXPECT_EQ(last, kShort.replays + kShort.records);
}

// But for the process's, as a sanitizer holds on to what was freed; the heap's shows a leak.
std::vector<std::string> GrowthOf(const SoakReport& report) {
  std::vector<std::string> growth = FindGrowth(report.memory, /*cuda=*/false);
  std::erase_if(growth, [](const std::string& line) { return line.starts_with("the process's"); });
  return growth;
}

// A leak of 65 bytes a binding, a bucket or an inclusion would be growth of the heap.
TEST(SoakTest, WhatComesGoes) {
  const auto report =
      SoakOn([](DriverTable&) {}, {.replays = 20, .records = 5, .buckets = 2, .rounds = 1000});
  ASSERT_OK(report);
  EXPECT_EQ(report->rounds, 1000);
  EXPECT_EQ(report->mismatches, 0);
  EXPECT_THAT(GrowthOf(*report), IsEmpty());
}

// Of the allocations that an inclusion makes, the one for its plan among them.
TEST(SoakTest, MemoryThatAnInclusionLeavesBehindIsGrowth) {
  const auto report = SoakOn(
      [](DriverTable& table) {
        table.MemFree = [](CuDeviceAddress address) {
          return ++driver_calls % 1000 == 0 ? CuResult::kSuccess : honest_table.MemFree(address);
        };
      },
      {.replays = 20, .records = 5, .buckets = 2, .rounds = 1000});
  ASSERT_OK(report);
  EXPECT_GE(driver_calls, 2000);
  EXPECT_THAT(GrowthOf(*report), ElementsAre(HasSubstr("the device's")));
}

TEST(SoakTest, EveryLostLaunchIsAMismatch) {
  const auto report = SoakOn([](DriverTable& table) {
    table.GraphLaunch = [](CuGraphExec exec, CuStream stream) {
      if (++driver_calls % 50 != 0) return honest_table.GraphLaunch(exec, stream);
      ++faults;
      return CuResult::kSuccess;
    };
  });
  ASSERT_OK(report);
  EXPECT_GT(faults, 5);
  EXPECT_EQ(report->mismatches, faults);
  EXPECT_EQ(report->strays, 0);
  ASSERT_THAT(report->findings, SizeIs(std::min<int64_t>(faults, 10)));
  EXPECT_THAT(report->findings.front(), HasSubstr("word 0 is 0x"));
}

// A recording that fails twice leaves its bucket without a graph for good: of the four buckets of
// the first round, the second fails, and again in the second round.
TEST(SoakTest, TrafficThatDoesNotReplayIsFound) {
  const auto report = SoakOn([](DriverTable& table) {
    table.GraphInstantiateWithFlags = [](CuGraphExec* exec, CuGraph graph,
                                         unsigned long long flags) {  // NOLINT(google-runtime-int)
      ++driver_calls;
      if (driver_calls == 2 || driver_calls == 5) return CuResult::kStreamCaptureInvalidated;
      return honest_table.GraphInstantiateWithFlags(exec, graph, flags);
    };
  });
  ASSERT_OK(report);
  ASSERT_GT(report->strays, 0);
  EXPECT_LT(report->strays, kShort.replays);
  EXPECT_EQ(report->mismatches, 0);
  EXPECT_THAT(report->findings.front(), HasSubstr("took the path eager"));
}

TEST(SoakTest, ChurnThatRecordsNothingEnds) {
  const auto report = SoakOn([](DriverTable& table) {
    table.GraphInstantiateWithFlags =
        [](CuGraphExec* /*exec*/, CuGraph /*graph*/,
           unsigned long long /*flags*/) {  // NOLINT(google-runtime-int)
          return CuResult::kStreamCaptureInvalidated;
        };
  });
  EXPECT_THAT(report, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("after 0 of 40 recordings"));
}

TEST(SoakTest, LostDeviceMemoryIsGrowth) {
  const auto report = SoakOn([](DriverTable& table) {
    table.MemGetInfo = [](size_t* free_bytes, size_t* total_bytes) {
      const CuResult result = honest_table.MemGetInfo(free_bytes, total_bytes);
      *free_bytes -= static_cast<size_t>(++driver_calls) * kMiB;
      return result;
    };
  });
  ASSERT_OK(report);
  EXPECT_EQ(report->mismatches, 0);
  EXPECT_THAT(GrowthOf(*report), ElementsAre(HasSubstr("the device's")));
  EXPECT_THAT(FindGrowth(report->memory, /*cuda=*/true), ElementsAre(HasSubstr("the device's")));
}

TEST(SoakTest, WrongOptionsAreRefusedInOneLine) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"soak", "--replays", "0"},
                                             {"soak", "--records", "-1"},
                                             {"soak", "--buckets", "1025"},
                                             {"soak", "--seed", "one"},
                                             {"soak", "--device", "gpu"},
                                             {"soak", "more"}}) {
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << arguments.back();
    EXPECT_THAT(outcome.err, StartsWith("coppice soak: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(SoakAnswerTest, IsTheChainInWords) {
  const auto mix = [](uint32_t newer, uint32_t older, uint32_t added) {
    return (newer ^ (older * 8192U + older / 524288U)) * 2654435761U + added;
  };
  constexpr uint32_t kSalt = 99;
  // Values by step and word; a step reads the older value backwards.
  std::vector<std::vector<uint32_t>> values = {{1, 0xFFFFFFFF, 7}};
  for (uint32_t step = 0; step < 6; ++step) {
    const std::vector<uint32_t> newer = values.back();
    const std::vector<uint32_t> older = values[step < 3 ? 0 : step - 2];
    std::vector<uint32_t> next;
    for (size_t i = 0; i < 3; ++i)
      next.push_back(mix(newer[i], older[2 - i], kSalt + 0x7F4A7C15U * (step + 1)));
    values.push_back(next);
  }
  EXPECT_EQ(SoakAnswer(values.front(), kSalt), values.back());
}

TEST(SoakAnswerTest, DependsOnEveryBitAndTheSalt) {
  const std::vector<uint32_t> input = {5, 6, 7};
  const std::vector<uint32_t> answer = SoakAnswer(input, 1);
  EXPECT_NE(SoakAnswer(input, 2), answer);
  for (size_t word = 0; word < input.size(); ++word) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<uint32_t> other = input;
      other[word] ^= 1U << bit;
      EXPECT_NE(SoakAnswer(other, 1), answer) << word << " " << bit;
    }
  }
}

// Twenty-one points, of which `figure` of the last is larger by `growth`.
std::vector<SoakMemory> Points(int64_t SoakMemory::*figure, int64_t growth) {
  std::vector<SoakMemory> points(21, {.own_bytes = 100 * kMiB,
                                      .driver_free_bytes = 100 * kMiB,
                                      .host_rss_bytes = 100 * kMiB,
                                      .host_heap_bytes = 100 * kMiB});
  points.back().*figure += growth;
  return points;
}

TEST(FindGrowthTest, EachFigureMayGrowByWhatTheHeaderSays) {
  struct Case {
    int64_t SoakMemory::*figure;
    int64_t slack;  // Signed as the figure.
    bool cuda;
    const char* name;
  };
  for (const Case& each : {Case{&SoakMemory::own_bytes, 0, true, "the session's"},
                           Case{&SoakMemory::driver_free_bytes, 0, false, "the device's"},
                           Case{&SoakMemory::driver_free_bytes, -2 * kMiB, true, "the device's"},
                           Case{&SoakMemory::host_rss_bytes, 8 * kMiB, true, "the process's"},
                           Case{&SoakMemory::host_rss_bytes, 8 * kMiB, false, "the process's"},
                           Case{&SoakMemory::host_heap_bytes, 8 * kMiB, true, "the heap's"},
                           Case{&SoakMemory::host_heap_bytes, 64 * kKiB, false, "the heap's"}}) {
    const int64_t more = each.figure == &SoakMemory::driver_free_bytes ? -1 : 1;
    EXPECT_THAT(FindGrowth(Points(each.figure, each.slack), each.cuda), IsEmpty()) << each.name;
    EXPECT_THAT(FindGrowth(Points(each.figure, each.slack + more), each.cuda),
                ElementsAre(StartsWith(each.name)));
    EXPECT_THAT(FindGrowth(Points(each.figure, -more * 50 * kMiB), each.cuda), IsEmpty());
  }
}

TEST(FindGrowthTest, APeakInBetweenIsNoGrowthAndASlowOneIs) {
  std::vector<SoakMemory> peak = Points(&SoakMemory::own_bytes, 0);
  peak[10].own_bytes += kMiB;
  EXPECT_THAT(FindGrowth(peak, true), IsEmpty());
  std::vector<SoakMemory> slope = Points(&SoakMemory::own_bytes, 0);
  for (size_t i = 0; i < slope.size(); ++i)
    slope[i].own_bytes += static_cast<int64_t>(i);
  EXPECT_THAT(FindGrowth(slope, true), SizeIs(1));
}

}  // namespace
}  // namespace coppice
