// The whole trace on one page.

#include <algorithm>
#include <array>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/bucket_figures.h"
#include "tools/prof/prof.h"
#include "tools/prof/trace_summary.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr size_t kTopBuckets = 10;

nlohmann::ordered_json BytesJson(const TraceSummary& summary) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const MemoryKind kind = static_cast<MemoryKind>(i);
    const BytesOverTime& bytes = summary.kinds[static_cast<size_t>(i)];
    kinds[NameOf(kind)] = {{"end_bytes", bytes.at_end},
                           {"service_end_bytes", bytes.at_service_end},
                           {"peak_bytes", bytes.peak},
                           {"estimate", kind == MemoryKind::kGraphs},
                           {"what", MeaningOf(kind)}};
  }
  return kinds;
}

std::string SummaryJson(const TraceSummary& summary) {
  const PoolTrace& trace = summary.trace;
  nlohmann::ordered_json programs = nlohmann::ordered_json::array();
  for (size_t i = 0; i < trace.programs.size(); ++i) {
    const TracedProgram& program = trace.programs[i];
    programs.push_back({{"program", program.id},
                        {"name", program.name},
                        {"variant", program.variant},
                        {"symbols", program.symbols},
                        {"calls", summary.program_calls[i]},
                        {"statics_peak_bytes", summary.program_statics_peaks[i]}});
  }
  nlohmann::ordered_json paths = nlohmann::ordered_json::object();
  for (int i = 0; i < kRunKindCount; ++i)
    paths[NameOf(static_cast<RunKind>(i))] = summary.calls.paths[static_cast<size_t>(i)];
  nlohmann::ordered_json top = nlohmann::ordered_json::array();
  for (size_t i = 0; i < std::min(kTopBuckets, summary.buckets.size()); ++i)
    top.push_back(ToJson(trace, summary.buckets[i]));
  return Dump({{"schema", kPoolTraceSchema},
               {"device", trace.device},
               {"lanes", trace.lanes},
               {"granularity_bytes", trace.granularity},
               {"budget_bytes", trace.budget},
               {"ended", trace.ended},
               {"last_ns", trace.last_ns},
               {"events", trace.events},
               {"dropped_events", trace.dropped},
               {"programs", programs},
               {"calls", summary.calls.calls()},
               {"paths", paths},
               {"real_elements", summary.calls.real_elements},
               {"padded_elements", summary.calls.padded_elements},
               {"padded_share_pct", summary.calls.padded_share_pct()},
               {"bytes", BytesJson(summary)},
               {"total_end_bytes", summary.total.at_end},
               {"total_service_end_bytes", summary.total.at_service_end},
               {"total_peak_bytes", summary.total.peak},
               {"statics_end_bytes", summary.statics.at_end},
               {"statics_service_end_bytes", summary.statics.at_service_end},
               {"statics_peak_bytes", summary.statics.peak},
               {"buckets", trace.buckets.size()},
               {"graphs_recorded", summary.calls.recorded},
               {"graphs_evicted", summary.calls.evicted},
               {"executables", summary.calls.executables},
               {"exact_replays", summary.calls.exact_replays},
               {"exec_bytes_estimate", summary.calls.exec_bytes},
               {"suspends", summary.suspends},
               {"top_buckets", top}});
}

std::string FormatSession(const TraceSummary& summary) {
  const PoolTrace& trace = summary.trace;
  TextTable table("ll", {});
  table.Add({"device", trace.device});
  table.Add({"lanes", fmt::format("{}, mapped in steps of {}", trace.lanes,
                                  FormatBytes(trace.granularity))});
  table.Add({"budget", trace.budget == 0 ? "none" : FormatBytes(trace.budget)});
  table.Add({"events", fmt::format("{} in {:.3f} s, {} dropped", trace.events,
                                   static_cast<double>(trace.last_ns) / 1e9, trace.dropped)});
  for (size_t i = 0; i < trace.programs.size(); ++i) {
    table.Add({"program", fmt::format("{}: {}", LabelOf(trace.programs[i]),
                                      Counted(summary.program_calls[i], "call"))});
  }
  std::string paths;
  for (int i = 0; i < kRunKindCount; ++i) {
    paths += fmt::format("{}{} {}", i == 0 ? "" : ", ", NameOf(static_cast<RunKind>(i)),
                         summary.calls.paths[static_cast<size_t>(i)]);
  }
  table.Add({"calls", fmt::format("{}: {}", summary.calls.calls(), paths)});
  table.Add({"padded share",
             fmt::format("{:.1f} % of {} staged elements", summary.calls.padded_share_pct(),
                         summary.calls.padded_elements)});
  if (summary.calls.exact_replays > 0) {
    table.Add({"exact replays",
               fmt::format("{} at the sizes of their calls, with {}", summary.calls.exact_replays,
                           Counted(summary.calls.executables, "executable"))});
  }
  table.Add(
      {"graphs", fmt::format("{} recorded in {}, {} evicted", summary.calls.recorded,
                             Counted(std::ssize(trace.buckets), "bucket"), summary.calls.evicted)});
  table.Add({"exec bytes", fmt::format("{}, an estimate", FormatBytes(summary.calls.exec_bytes))});
  table.Add({"suspended", Counted(summary.suspends, "time")});
  return table.Format();
}

std::string FormatBytesByKind(const TraceSummary& summary) {
  TextTable table("lrrrl", {"bytes", "peak", "at the last call", "torn down", ""});
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const MemoryKind kind = static_cast<MemoryKind>(i);
    const BytesOverTime& bytes = summary.kinds[static_cast<size_t>(i)];
    table.Add({NameOf(kind), FormatBytes(bytes.peak), FormatBytes(bytes.at_service_end),
               FormatBytes(bytes.at_end), MeaningOf(kind)});
  }
  table.Add({"total", FormatBytes(summary.total.peak), FormatBytes(summary.total.at_service_end),
             FormatBytes(summary.total.at_end), ""});
  if (summary.statics.peak > 0) {
    table.Add({"statics", FormatBytes(summary.statics.peak),
               FormatBytes(summary.statics.at_service_end), FormatBytes(summary.statics.at_end),
               kStaticsMeaning});
  }
  return table.Format();
}

}  // namespace

ExitCode ProfSummary(const ProfOptions& options, const Console& console) {
  absl::StatusOr<TraceSummary> summary = SummarizeTrace(options.trace);
  if (!summary.ok()) return FailProf(console, summary.status());
  Sort(summary->trace, BucketOrder::kCalls, summary->buckets);
  if (options.json) {
    Print(console.out, "{}", SummaryJson(*summary));
    return kExitOk;
  }
  Print(console.out, "{}{}\n{}", NoteGaps(summary->trace), FormatSession(*summary),
        FormatBytesByKind(*summary));
  const size_t buckets = summary->buckets.size();
  if (buckets > kTopBuckets) summary->buckets.resize(kTopBuckets);
  Print(console.out, "\n{}", FormatBuckets(summary->trace, summary->buckets));
  if (buckets > kTopBuckets)
    Print(console.out, "  ... and {} more; see coppice prof buckets\n", buckets - kTopBuckets);
  Print(console.out, "  * an estimate from a table\n");
  return kExitOk;
}

}  // namespace coppice
