// Goal: `coppice bench pool` reports heights that do not depend on the order of recording, beside a
// caching allocator's that do. Method: the command in this process, on a small family whose figures
// follow by hand, and on one built-in family through a folder; no figure of time is judged.

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/base/units.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/built_in_programs.h"
#include "tests/tools/command_outcome.h"
#include "tools/bench/bench.h"
#include "tools/bench/reference_loop.h"
#include "tools/support/recording_order.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class BenchPoolTest : public testing::Test {
 protected:
  BenchPoolTest()
      : folder_(testing::TempDir() + "/coppice_bench_pool_test_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~BenchPoolTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& family,
             const std::string& name,
             const std::vector<Buffer>& buffers) const {
    std::filesystem::create_directories(folder_ + "/" + family);
    std::ofstream file(folder_ + "/" + family + "/" + name + ".csv");
    file << "id,lower,upper,size\n";
    for (size_t i = 0; i < buffers.size(); ++i)
      file << fmt::format("{},{},{},{}\n", i, buffers[i].lifetime[0].lower,
                          buffers[i].lifetime[0].upper, buffers[i].bytes);
  }

  nlohmann::json Report() const {
    const CommandOutcome outcome = RunCoppice({"bench", "pool", "--families", folder_, "--json"});
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    EXPECT_THAT(outcome.err, IsEmpty());
    return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }

  const std::string folder_;
};

Buffer Live(int64_t lower, int64_t upper, int64_t bytes) {
  return {.lifetime = {{.lower = lower, .upper = upper}}, .bytes = bytes};
}

TEST_F(BenchPoolTest, JsonHasTheStableKeysAndEveryOrder) {
  Write("family", "000", {Live(0, 2, 1000), Live(1, 3, 1000)});
  Write("random", "one", {Live(0, 2, 1000)});
  const nlohmann::json report = Report();
  ASSERT_EQ(report["families"].size(), 1U);
  const nlohmann::json& family = report["families"][0];
  EXPECT_EQ(family["name"], "family");
  EXPECT_EQ(family["buckets"], 1);
  EXPECT_EQ(family["buffers"], 2);
  EXPECT_EQ(family["buckets_at_bound"], 1);
  EXPECT_TRUE(family["plan_ms_total"].is_number());
  std::vector<std::string> orders;
  for (const nlohmann::json& one : family["orders"]) {
    orders.push_back(one["order"]);
    EXPECT_EQ(one["height_bytes"], 2048);  // Sizes are rounded up to 256 bytes.
    EXPECT_EQ(one["bound_bytes"], 2048);
  }
  EXPECT_THAT(orders, ElementsAre("asc", "desc", "random:1", "random:2", "random:3", "random:4",
                                  "random:5"));
  ASSERT_EQ(family["caching_allocator"].size(), 7U);
  EXPECT_EQ(family["caching_allocator"][1]["order"], "desc");
  EXPECT_EQ(family["caching_allocator"][1]["reserved_bytes"], 2 * kMiB);
  ASSERT_EQ(report["programs"].size(), 1U);
  EXPECT_EQ(report["programs"][0]["name"], "one");
  EXPECT_EQ(report["programs"][0]["buffers"], 1);
  EXPECT_EQ(report["programs"][0]["height_bytes"], 1024);
  EXPECT_EQ(report["programs"][0]["bound_bytes"], 1024);
  EXPECT_TRUE(report["programs"][0]["plan_ms"].is_number());
  EXPECT_GT(report["reference_ms"], 0);
}

TEST_F(BenchPoolTest, AscendingMeansByWhatABucketNeeds) {
  // A caching allocator serves 12 and 30 MiB from one segment only if 30 MiB comes first.
  Write("family", "000_large", {Live(0, 1, 30 * kMiB)});
  Write("family", "001_small", {Live(0, 1, 12 * kMiB)});
  const nlohmann::json family = Report()["families"][0];
  EXPECT_EQ(family["caching_allocator"][0]["reserved_bytes"], 42 * kMiB);
  EXPECT_EQ(family["caching_allocator"][1]["reserved_bytes"], 30 * kMiB);
  for (const nlohmann::json& one : family["orders"])
    EXPECT_EQ(one["height_bytes"], 30 * kMiB) << one["order"];
}

TEST_F(BenchPoolTest, APublishedFamilyIsAtItsBoundInEveryOrder) {
  const auto buckets = UnpackBuiltIn("llama8b_prefill28");
  for (const size_t at : {0, 3, 9, 17, 25})  // 16, 64, 256, 1024 and 4096 tokens.
    Write("prefill", fmt::format("{:02}", at), buckets.at(at));
  const nlohmann::json family = Report()["families"][0];
  EXPECT_EQ(family["buckets_at_bound"], 5);
  std::set<int64_t> heights;
  for (const nlohmann::json& one : family["orders"]) {
    heights.insert(one["height_bytes"].get<int64_t>());
    EXPECT_EQ(one["height_bytes"], one["bound_bytes"]) << one["order"];
  }
  EXPECT_EQ(heights.size(), 1U);
  EXPECT_GT(family["caching_allocator"][0]["reserved_bytes"],
            family["caching_allocator"][1]["reserved_bytes"]);
}

TEST_F(BenchPoolTest, TheTablesNameFamiliesProgramsAndTheReference) {
  Write("family", "000", {Live(0, 2, 1000)});
  Write("train", "gpt", {Live(0, 2, 1000)});
  const CommandOutcome outcome = RunCoppice({"bench", "pool", "--families", folder_});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("family +1 +1 +1.00 KiB +1.0000 +1 of 1 "));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("gpt +1 +1.00 KiB +1.00 KiB +1.0000 "));
  EXPECT_THAT(outcome.out, HasSubstr("reference loop "));
}

TEST_F(BenchPoolTest, AFolderThatHoldsNoFamiliesIsRefusedInOneLine) {
  const CommandOutcome outcome = RunCoppice({"bench", "pool", "--families", folder_});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("coppice bench pool: " + folder_));
  EXPECT_EQ(RunCoppice({"bench", "pool", "--families", ""}).code, kExitUsage);
}

TEST_F(BenchPoolTest, WhatNoPoolCanHoldIsRefused) {
  Write("family", "000", {Live(0, 1, INT64_MAX - 1)});
  const CommandOutcome outcome = RunCoppice({"bench", "pool", "--families", folder_});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("coppice bench pool: family: "));
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

TEST(ReferenceLoopTest, TakesSomeTime) {
  const double before = ThreadMs();
  const double least = ReferenceLoopMs();
  EXPECT_GT(least, 0);
  EXPECT_GE(ThreadMs() - before, 3 * least);  // Three runs.
}

}  // namespace
}  // namespace coppice
