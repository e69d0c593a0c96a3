// Goal: the benches print what their readers rely on, and count exactly what can be counted
// exactly. Method: the command in this process with few iterations; no figure of time is judged.

#include "tools/bench/bench.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/runtime/emulator.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"
#include "tools/bench/allocation_counter.h"
#include "tools/bench/instant_driver.h"
#include "tools/bench/instruction_counter.h"
#include "tools/bench/reference_loop.h"
#include "tools/support/recording_order.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> NamesOf(const nlohmann::json& list) {
  std::vector<std::string> names;
  for (const nlohmann::json& one : list)
    names.push_back(one["name"]);
  return names;
}

TEST(BenchDispatchTest, ReplayMakesOneDriverCallPerKindOfWorkAndNoAllocation) {
  const nlohmann::json json =
      JsonOf(RunCoppice({"bench", "dispatch", "--json", "--repetitions", "50"}));
  EXPECT_THAT(NamesOf(json["cases"]),
              ElementsAre("all_static", "two_staged", "siblings_1000", "static_200", "two_observed",
                          "traced", "static_recorded", "staged_recorded"));
  EXPECT_THAT(NamesOf(json["wide"]["cases"]),
              ElementsAre("staged_1", "staged_200", "rank8_strided"));
  for (const auto& list : {json["cases"], json["wide"]["cases"]}) {
    for (const nlohmann::json& one : list) {
      const int recorded = one["name"] == "staged_recorded" ? 1 : 0;
      EXPECT_EQ(one["driver_calls"], one["staged"] == 0 ? 1 : 2 + recorded);
      EXPECT_EQ(one["heap_allocs"], 0);
      EXPECT_TRUE(one["overhead_ns_p50"].is_number());
      EXPECT_TRUE(one["instructions"].is_number() || one["instructions"].is_null());
    }
  }
  EXPECT_EQ(json["cases"][2]["siblings"], 1000);
  EXPECT_EQ(json["cases"][3]["inputs"], 200);
  EXPECT_EQ(json["wide"]["cases"][1]["rank"], 2);
  EXPECT_TRUE(json["wide"]["further_staged_input_ns"].is_number());
  EXPECT_TRUE(json["trace_event_ns"].is_number());
  EXPECT_EQ(json["stopped"], false);
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
      JsonOf(RunCoppice({"bench", "record", "--json", "--repetitions", "3", "--device", "host"}));
  EXPECT_EQ(json["nodes"], 100);
  EXPECT_EQ(json["device_syncs"], 0);
  EXPECT_GE(json["maybe_syncs"], 1) << "the first recording maps the plan window";
  EXPECT_GT(json["record_us_p50"], 0);
  EXPECT_GT(json["driver_us_p50"], 0);
  EXPECT_EQ(json["recordings"], 3);
}

TEST(BenchTuneTest, JsonHasTheStableKeysOfEachLimitAndCap) {
  const nlohmann::json report =
      JsonOf(RunCoppice({"bench", "tune", "--sizes", "64,512", "--json"}));
  ASSERT_EQ(report["solves"].size(), 4U);
  EXPECT_EQ(report["solves"][0]["sizes"], 64);
  EXPECT_EQ(report["solves"][0]["max_ratio"], nullptr);
  EXPECT_EQ(report["solves"][0]["waste_pct"], 0);  // A bucket for each size.
  EXPECT_EQ(report["solves"][3]["sizes"], 512);
  EXPECT_EQ(report["solves"][3]["max_ratio"], 1.25);
  EXPECT_GT(report["solves"][3]["waste_pct"], 0);
  EXPECT_GE(report["solves"][3]["ms"], 0);
  EXPECT_GE(report["find_ns"], 0);
  EXPECT_GT(report["reference_ms"], 0);
}

TEST(BenchTuneTest, FewerSizesThanBucketsAreRefusedInOneLine) {
  const CommandOutcome outcome = RunCoppice({"bench", "tune", "--sizes", "63"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("coppice bench tune: "));
  EXPECT_THAT(outcome.err, HasSubstr("64 buckets are requested, but only 63 sizes"));
}

TEST(BenchPtxTest, EveryKernelIsRightAndNothingIsFound) {
  const nlohmann::json json = JsonOf(RunCoppice({"bench", "ptx", "--json", "--repetitions", "1"}));
  EXPECT_THAT(NamesOf(json["kernels"]), ElementsAre("elementwise", "softmax", "matmul"));
  for (const nlohmann::json& kernel : json["kernels"]) {
    EXPECT_GT(kernel["lane_instructions"], 1'000'000);
    EXPECT_GT(kernel["lane_instructions_per_second"], 0);
    EXPECT_GT(kernel["checks_ratio"], 0);
    EXPECT_EQ(kernel["findings"], 0);
    EXPECT_EQ(kernel["right"], true);
  }
  EXPECT_EQ(json["matmul_ms"], json["kernels"][2]["checks_off_ms"]);
  EXPECT_GT(json["lines_per_second"], 0);
}

TEST(BenchSuspendTest, GivesBackEveryByteButThoseOfGraphs) {
  const nlohmann::json json =
      JsonOf(RunCoppice({"bench", "suspend", "--device", "host", "--json", "--repetitions", "3"}));
  EXPECT_EQ(json["graphs"], 64);
  EXPECT_EQ(json["batches"].size(), 64U);
  EXPECT_EQ(json["mismatches"], 0);
  EXPECT_GT(json["bytes"], 0);
  EXPECT_EQ(json["left_bytes"], 0);
  EXPECT_EQ(json["driver_bytes"], json["bytes"]);
  EXPECT_GT(json["graph_bytes"], 0);
  for (const char* times : {"suspend_us", "resume_us", "first_replay_us", "replay_us"})
    EXPECT_EQ(json[times].size(), 3U) << times;
}

// A family of those built in: asked after it, the command stops.
TEST(BenchPoolTest, AFamilyIsAtItsBoundInEveryOrder) {
  const CommandOutcome outcome = RunCoppice({"bench", "pool", "--json"}, [] { return true; });
  EXPECT_EQ(outcome.code, kExitStopped);
  const nlohmann::json report = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_EQ(report["families"].size(), 1U);
  const nlohmann::json& family = report["families"][0];
  EXPECT_EQ(family["buckets_at_bound"], family["buckets"]);
  EXPECT_TRUE(family["plan_ms_total"].is_number());
  std::vector<std::string> orders;
  for (const nlohmann::json& one : family["orders"]) {
    orders.push_back(one["order"]);
    EXPECT_EQ(one["height_bytes"], one["bound_bytes"]) << one["order"];
  }
  EXPECT_THAT(orders, ElementsAre("asc", "desc", "random:1", "random:2", "random:3", "random:4",
                                  "random:5"));
  ASSERT_EQ(family["caching_allocator"].size(), 7U);
  EXPECT_GT(family["caching_allocator"][0]["reserved_bytes"],
            family["caching_allocator"][1]["reserved_bytes"]);
  EXPECT_GT(report["reference_ms"], 0);
}

TEST(BenchTest, TextForPeopleNamesWhatWasMeasured) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> texts = {
      {{"dispatch", "--repetitions", "10"}, "each further staged input"},
      {{"record", "--repetitions", "2", "--device", "host"}, "2 of 100 nodes each"},
      {{"tune", "--sizes", "777"}, "1024 buckets"},
      {{"ptx", "--repetitions", "1"}, "parse and decode"},
      {{"plan", "--repetitions", "1"}, "woven"},
      {{"suspend", "--device", "host", "--repetitions", "1"}, "first replay"},
      {{"steps", "--device", "host", "--sizes", "4", "--repetitions", "3"}, "run - launch: "},
      {{"decode", "--device", "host", "--sizes", "1", "--repetitions", "3"}, "eager/replay"}};
  for (auto [arguments, text] : texts) {
    arguments.insert(arguments.begin(), "bench");
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(text));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
}

TEST(BenchTest, RefusesWrongOptionsInOneLine) {
  const std::vector<std::vector<std::string>> wrong = {{"steps", "--sizes", ""},
                                                       {"steps", "--sizes", "0"},
                                                       {"steps", "--sizes", "10001"},
                                                       {"steps", "--sizes", "1 2"},
                                                       {"steps", "--device", "tpu"},
                                                       {"steps", "extra"},
                                                       {"decode", "--sizes", "1,513"},
                                                       {"decode", "--only", ""},
                                                       {"decode", "--only", "launch"},
                                                       {"ptx", "--repetitions", "0"},
                                                       {"record", "--repetitions", "1025"},
                                                       {"pool", "--device", "host"}};
  for (std::vector<std::string> arguments : wrong) {
    arguments.insert(arguments.begin(), "bench");
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << arguments[1] << " " << arguments.back();
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

TEST(BenchTest, MissingCudaIsExitCode3) {
  if (Driver::LoadCuda().ok()) GTEST_SKIP() << "this machine has a CUDA driver";
  for (const char* bench : {"buckets", "record", "steps"}) {
    const CommandOutcome outcome = RunCoppice({"bench", bench, "--device", "cuda", "--json"});
    EXPECT_EQ(outcome.code, kExitDevice);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, HasSubstr("libcuda"));
  }
}

TEST(ReferenceLoopTest, TakesSomeTime) {
  const double before = ThreadMs();
  const double least = ReferenceLoopMs();
  EXPECT_GT(least, 0);
  EXPECT_GE(ThreadMs() - before, 3 * least);  // Three runs.
}

TEST(RecordingOrderTest, ArrangesAndNames) {
  const std::vector<int> ascending = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const char* name : {"asc", "desc", "random:1", "random:2"}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const RecordingOrder order, ParseRecordingOrder(name));
    EXPECT_EQ(NameOf(order), name);
    std::vector<int> arranged = ascending;
    Arrange(order, arranged);
    EXPECT_THAT(arranged, testing::UnorderedElementsAreArray(ascending));
    EXPECT_EQ(arranged == ascending, order.kind == RecordingOrder::Kind::kAscending);
    EXPECT_EQ(arranged.front() == 8 && arranged.back() == 1, std::string(name) == "desc");
  }
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
