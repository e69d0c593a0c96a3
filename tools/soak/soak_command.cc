// What `coppice soak` prints.

#include <chrono>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/soak/soak.h"
#include "tools/support/byte_text.h"
#include "tools/support/progress.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

struct Outcome {
  SoakReport report;
  const char* device = "";  // "cuda" or "host".
  std::string device_name;
  std::vector<std::string> growth;
  double seconds = 0;
};

void PrintJson(const SoakOptions& options, const Outcome& outcome, std::FILE* out) {
  const SoakReport& report = outcome.report;
  nlohmann::ordered_json memory = nlohmann::ordered_json::array();
  for (const SoakMemory& point : report.memory) {
    memory.push_back({{"replays", point.replays},
                      {"records", point.records},
                      {"rounds", point.rounds},
                      {"own_bytes", point.own_bytes},
                      {"driver_free_bytes", point.driver_free_bytes},
                      {"host_rss_bytes", point.host_rss_bytes},
                      {"host_heap_bytes", point.host_heap_bytes}});
  }
  const nlohmann::ordered_json json = {{"section", "soak"},
                                       {"device", outcome.device},
                                       {"device_name", outcome.device_name},
                                       {"buckets", options.buckets},
                                       {"seed", options.seed},
                                       {"replays", report.replays},
                                       {"records", report.records},
                                       {"evictions", report.evictions},
                                       {"without_graph", report.without_graph},
                                       {"rounds", report.rounds},
                                       {"strays", report.strays},
                                       {"mismatches", report.mismatches},
                                       {"checked", report.checked},
                                       {"memory", memory},
                                       {"flat", outcome.growth.empty()},
                                       {"stopped", report.stopped},
                                       {"seconds", outcome.seconds}};
  Print(out, "{}\n", json.dump(2));
}

void PrintTable(const SoakOptions& options, const Outcome& outcome, std::FILE* out) {
  const SoakReport& report = outcome.report;
  const SoakMemory& first = report.memory.front();
  const SoakMemory& last = report.memory.back();
  TextTable table("ll", {});
  const auto bytes = [&](const char* label, int64_t SoakMemory::*figure) {
    table.Add({label, fmt::format("{} at the start, {} at the end", FormatBytes(first.*figure),
                                  FormatBytes(last.*figure))});
  };
  table.Add({"device", fmt::format("{}: {}", outcome.device, outcome.device_name)});
  table.Add({"replays", fmt::format("{}, over {} buckets", report.replays, options.buckets)});
  table.Add({"records", fmt::format("{}, {} evictions", report.records, report.evictions)});
  table.Add({"without a graph",
             fmt::format("{}, while all graphs were in flight", report.without_graph)});
  table.Add({"came and went",
             fmt::format("{} times: a binding, a key scalar and an inclusion", report.rounds)});
  table.Add({"checked", fmt::format("{} calls, {} wrong, {} that should have replayed but did not",
                                    report.checked, report.mismatches, report.strays)});
  bytes("own memory", &SoakMemory::own_bytes);
  bytes("free on the device", &SoakMemory::driver_free_bytes);
  bytes("resident on the host", &SoakMemory::host_rss_bytes);
  bytes("heap on the host", &SoakMemory::host_heap_bytes);
  table.Add({"memory", outcome.growth.empty() ? "flat" : "grew"});
  table.Add({"wall", fmt::format("{:.1f} s", outcome.seconds)});
  Print(out, "{}", table.Format());
}

absl::StatusOr<Outcome> Run(SoakOptions& options,
                            const ChosenDriver& chosen,
                            const Console& console) {
  const bool cuda = chosen.driver().kind() == DriverKind::kCuda;
  if (options.replays == 0) options.replays = cuda ? 1'000'000 : 20'000;
  if (options.records == 0) options.records = cuda ? 10'000 : 500;
  const auto start = std::chrono::steady_clock::now();
  COPPICE_ASSIGN_OR_RETURN(const Context context, Context::Create(chosen.driver()));
  Outcome outcome;
  outcome.device = chosen.kind();
  outcome.device_name = context.DeviceName();
  Progress bar(console.err, /*enabled=*/true, "soaking");
  COPPICE_ASSIGN_OR_RETURN(outcome.report,
                           RunSoak(context, options, [&](int64_t done, int64_t total) {
                             bar.Update(done, total);
                             return !console.stopped();
                           }));
  outcome.growth = FindGrowth(outcome.report.memory, cuda);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace

ExitCode SoakCommand(const SoakOptions& options, const Console& console) {
  SoakOptions chosen_options = options;
  const absl::StatusOr<ChosenDriver> chosen = ChosenDriver::Open(options.device, options.seed);
  const absl::StatusOr<Outcome> outcome = chosen.ok() ? Run(chosen_options, *chosen, console)
                                                      : absl::StatusOr<Outcome>(chosen.status());
  if (!outcome.ok()) {
    Print(console.err, "coppice soak: {}\n", MessageOf(outcome.status()));
    return kExitDevice;
  }
  (options.json ? PrintJson : PrintTable)(chosen_options, *outcome, console.out);
  const std::vector<std::string> reports = chosen->reports();
  for (const auto* lines : {&outcome->report.findings, &outcome->growth, &reports}) {
    for (const std::string& line : *lines)
      Print(console.err, "coppice soak: {}\n", line);
  }
  if (outcome->report.stopped) return kExitStopped;
  const bool right = outcome->report.mismatches == 0 && outcome->report.strays == 0;
  return right && outcome->growth.empty() && reports.empty() ? kExitOk : kExitMismatch;
}

}  // namespace coppice
