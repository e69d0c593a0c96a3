// Goal: what `coppice run` reports is derived from what the run found out. Method: reports written
// by hand.

#include "tools/run/run_report.h"

#include <map>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace coppice {
namespace {

// The last lines, by their labels.
std::map<std::string, std::string> InShort(const std::string& table) {
  std::map<std::string, std::string> lines;
  std::istringstream last(table.substr(table.find("\nin short\n") + 1));
  std::string line;
  std::getline(last, line);
  while (std::getline(last, line)) {
    const std::string label = line.substr(2, line.find(' ', 2) - 2);
    lines[label] = line.substr(line.find_first_not_of(' ', 2 + label.size()));
  }
  return lines;
}

TEST(ReportTest, WarmUpsCountAsEagerAndReplayShareLeavesThemOut) {
  RunReport report;
  report.stats.calls = 100;
  report.stats.runs = {90, 3, 5, 2};  // Replay, record, warm-up, eager.
  report.stats.real_elements = 30;
  report.stats.padded_elements = 40;
  const nlohmann::json json = nlohmann::json::parse(FormatJson(report), nullptr, false);
  EXPECT_EQ(json["eager"], 7);
  EXPECT_EQ(json["replays"], 90);
  EXPECT_DOUBLE_EQ(json["replay_pct_after_record"].get<double>(), 100.0 * 90 / 92);
  EXPECT_EQ(json["pad_waste_pct"], 25);
  EXPECT_DOUBLE_EQ(json["pad_computed_pct"].get<double>(), 100.0 / 3);
}

TEST(ReportTest, EndsWithWhatAReaderTakesHome) {
  RunReport report;
  report.mismatches = 1;
  report.comparisons = 80;
  report.prefill_claimed = report.decode_claimed = {.bits = true};
  report.nodes = {{.recorded = true, .plan_height = 1 << 20},
                  {.recorded = true, .plan_height = 2 << 20}};
  report.pool.height = 2 << 20;
  report.replay_host_ns = {1000, 3000, 2000};
  report.replay_driver_ns = {400, 600, 500};
  report.prefill_padding = {.served = {.real = 100, .padded = 110},
                            .pow2 = {.real = 100, .padded = 150}};
  report.decode_padding = {.served = {.real = 10, .padded = 10},
                           .pow2 = {.real = 10, .padded = 16}};
  std::map<std::string, std::string> lines = InShort(FormatTable(report));
  EXPECT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines["right"],
            "mismatches with eager runs at real sizes: 1 of 80 comparisons, bit for bit");
  EXPECT_EQ(lines["memory"], "2.00 MiB (a pool per graph: 3.00 MiB)");
  EXPECT_EQ(lines["speed"], "2.00 us of host time per replay, 0.50 us of it in the driver");
  EXPECT_EQ(lines["padding"],
            "prefill 10.0 % (powers of two 50.0 %); decode 0.0 % (powers of two 60.0 %)");
  report.caching_allocator_bytes = 20 << 20;
  EXPECT_THAT(InShort(FormatTable(report))["memory"],
              testing::EndsWith("; a caching allocator: 20.00 MiB)"));
}

TEST(ReportTest, BytesAreDerivedFromTheRecordedNodes) {
  RunReport report;
  report.nodes = {{.recorded = true, .plan_height = 100, .live_bytes = 90, .record_ns = 2'000'000},
                  {.recorded = true, .plan_height = 300, .live_bytes = 280, .record_ns = 4'000'000},
                  {.recorded = false, .plan_height = 900, .live_bytes = 900}};
  const nlohmann::json json = nlohmann::json::parse(FormatJson(report), nullptr, false);
  EXPECT_EQ(json["max_bucket_live_bytes"], 280);
  EXPECT_EQ(json["sum_bucket_bytes"], 400);
  EXPECT_EQ(json["record_ms_p50"], 3);
}

TEST(ReportTest, NodesOfAFamilyHaveOneExecutable) {
  RunReport report;
  report.stats.exact_replays = 7;
  report.stats.patched_nodes = 30;
  report.nodes = {{.recorded = true, .graphs = 1, .family = 1},
                  {.recorded = true, .graphs = 1, .family = 2},
                  {.recorded = true, .graphs = 1, .family = 1},
                  {.recorded = true, .graphs = 3},
                  {.recorded = false}};
  const nlohmann::json json = nlohmann::json::parse(FormatJson(report), nullptr, false);
  EXPECT_EQ(json["graphs"], 4);
  EXPECT_EQ(json["families"], 2);
  EXPECT_EQ(json["executables"], 5);
  EXPECT_EQ(json["exact_replays"], 7);
  EXPECT_EQ(json["patched_nodes"], 30);
}

}  // namespace
}  // namespace coppice
