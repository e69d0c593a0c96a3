// Goal: the benches print what their readers rely on, and count exactly what can be counted
// exactly. Method: the command in this process with few iterations; no figure of time is judged.

#include "tools/bench/bench.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/runtime/emulator.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"
#include "tools/bench/allocation_counter.h"
#include "tools/bench/instant_driver.h"
#include "tools/bench/instruction_counter.h"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(BenchDispatchTest, ReportsEveryCaseWithTheStableKeys) {
  const nlohmann::json json =
      JsonOf(RunCoppice({"bench", "dispatch", "--json", "--iterations", "50"}));
  ASSERT_EQ(json["cases"].size(), 5U);
  for (const nlohmann::json& one : json["cases"]) {
    EXPECT_EQ(one["inputs"], one["name"] == "static_200" ? 200 : 8);
    EXPECT_EQ(one["siblings"], one["name"] == "siblings_1000" ? 1000 : 1);
    EXPECT_EQ(one["scalars"], 4);
    EXPECT_EQ(one["outputs"], 4);
    EXPECT_TRUE(one["overhead_ns_p50"].is_number());
    EXPECT_TRUE(one["instructions"].is_number() || one["instructions"].is_null());
  }
  EXPECT_EQ(json["cases"][0]["name"], "all_static");
  EXPECT_EQ(json["cases"][0]["staged"], 0);
  EXPECT_EQ(json["cases"][1]["name"], "two_staged");
  EXPECT_EQ(json["cases"][1]["staged"], 2);
  EXPECT_EQ(json["cases"][2]["name"], "siblings_1000");
  EXPECT_EQ(json["cases"][3]["name"], "static_200");
  EXPECT_EQ(json["cases"][4]["name"], "two_observed");
  const nlohmann::json& wide = json["wide"];
  ASSERT_EQ(wide["cases"].size(), 3U);
  EXPECT_EQ(wide["cases"][0]["name"], "staged_1");
  EXPECT_EQ(wide["cases"][1]["name"], "staged_200");
  EXPECT_EQ(wide["cases"][1]["staged"], 200);
  EXPECT_EQ(wide["cases"][1]["rank"], 2);
  EXPECT_EQ(wide["cases"][2]["name"], "rank8_strided");
  EXPECT_EQ(wide["cases"][2]["rank"], 8);
  EXPECT_TRUE(wide["further_staged_input_ns"].is_number());
  EXPECT_EQ(json["guards"]["count"], 6);
  EXPECT_GT(json["guards"]["operations"], 6);
  EXPECT_TRUE(json["guards"]["ns_p50"].is_number());
  EXPECT_TRUE(json["trace"]["event_ns_p50"].is_number());
  EXPECT_TRUE(json["trace"]["event_off_ns_p50"].is_number());
}

TEST(BenchDispatchTest, ReplayMakesOneDriverCallOrTwoAndNoAllocation) {
  const nlohmann::json json =
      JsonOf(RunCoppice({"bench", "dispatch", "--json", "--iterations", "1"}));
  for (const nlohmann::json& one : json["cases"])
    EXPECT_EQ(one["driver_calls"], one["staged"] == 2 ? 2 : 1);
  for (const nlohmann::json& one : json["cases"])
    EXPECT_EQ(one["heap_allocs"], 0);
  for (const nlohmann::json& one : json["wide"]["cases"]) {
    EXPECT_EQ(one["driver_calls"], 2);
    EXPECT_EQ(one["heap_allocs"], 0);
  }
}

TEST(BenchDispatchTest, TableNamesEveryCase) {
  const CommandOutcome outcome = RunCoppice({"bench", "dispatch", "--iterations", "10"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("all_static"));
  EXPECT_THAT(outcome.out, HasSubstr("two_staged"));
  EXPECT_THAT(outcome.out, HasSubstr("siblings_1000"));
  EXPECT_THAT(outcome.out, HasSubstr("static_200"));
  EXPECT_THAT(outcome.out, HasSubstr("rank8_strided"));
  EXPECT_THAT(outcome.out, HasSubstr("a further staged input"));
  EXPECT_THAT(outcome.out, HasSubstr("6 guards"));
  EXPECT_THAT(outcome.out, HasSubstr("an event of a trace"));
}

TEST(BenchDispatchTest, ProbeRunsOneKindOfCallAndPrintsNothing) {
  for (const char* probe : {"all_static:run:3", "two_staged:raw:3"}) {
    const CommandOutcome outcome = RunCoppice({"bench", "dispatch", "--probe", probe});
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  for (const char* probe : {"all_static", "all_static:run", "all_static:run:0", "none:run:3",
                            "all_static:walk:3", ":"}) {
    EXPECT_EQ(RunCoppice({"bench", "dispatch", "--probe", probe}).code, kExitUsage) << probe;
  }
}

TEST(BenchRecordTest, RecordsAHundredKernelsWithoutADeviceWideSync) {
  const nlohmann::json json =
      JsonOf(RunCoppice({"bench", "record", "--json", "--iterations", "3", "--device", "host"}));
  EXPECT_EQ(json["nodes"], 100);
  EXPECT_EQ(json["device_syncs"], 0);
  EXPECT_GE(json["maybe_syncs"], 1) << "the first recording maps the plan window";
  EXPECT_GT(json["record_us_p50"], 0);
  EXPECT_GT(json["driver_us_p50"], 0);
  EXPECT_EQ(json["recordings"], 3);
}

TEST(BenchRecordTest, TableNamesTheDevice) {
  const CommandOutcome outcome =
      RunCoppice({"bench", "record", "--iterations", "2", "--device", "host"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 of 100 nodes each"));
}

TEST(AllocationCounterTest, CountsOperatorNewOfThisThread) {
  const int64_t before = AllocationCount();
  // Volatile, so that the compiler may not leave the allocation out.
  int* volatile one = new int(1);
  EXPECT_EQ(AllocationCount() - before, 1);
  delete one;
  EXPECT_EQ(AllocationCount() - before, 1);
}

TEST(InstructionCounterTest, GrowsWithTheWork) {
  const std::optional<InstructionCounter> counter = InstructionCounter::Open();
  if (!counter) GTEST_SKIP() << "this machine lets nobody count instructions";
  const int64_t before = counter->Read();
  volatile int sum = 0;
  for (int i = 0; i < 1000; ++i)
    sum = sum + i;
  EXPECT_GE(counter->Read() - before, 1000);
}

TEST(InstantDriverTest, PassesLaunchesThroughUntilSwitched) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Emulator> emulator, Emulator::Create());
  InstantDriver instant(emulator->driver());
  const DriverTable& table = instant.driver().table();
  EXPECT_EQ(instant.driver().kind(), DriverKind::kEmulator);
  EXPECT_NE(table.GraphLaunch(nullptr, nullptr), CuResult::kSuccess);
  instant.Switch(true);
  EXPECT_EQ(table.GraphLaunch(nullptr, nullptr), CuResult::kSuccess);
  EXPECT_EQ(table.LaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CuResult::kSuccess);
  instant.Switch(false);
  EXPECT_NE(table.GraphLaunch(nullptr, nullptr), CuResult::kSuccess);
}

}  // namespace
}  // namespace coppice
