// A row per figure.

#include "tools/prof/whatif/whatif_report.h"

#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr double kMillisecond = 1e6;

std::string Signed(int64_t change, const std::string& text) {
  if (change == 0) return "";
  return (change > 0 ? "+" : "-") + text;
}

// Rows of a figure in the trace's session, in the one with the change, and what that changed.
class Rows {
 public:
  Rows() : table_("lrrr", {"", "before", "after", "change"}) {}

  void Bytes(const std::string& name, int64_t before, int64_t after) {
    const int64_t change = after - before;
    table_.Add({name, FormatBytes(before), FormatBytes(after),
                Signed(change, FormatBytes(change < 0 ? -change : change))});
  }
  void Count(const std::string& name, int64_t before, int64_t after) {
    const int64_t change = after - before;
    table_.Add({name, fmt::format("{}", before), fmt::format("{}", after),
                Signed(change, fmt::format("{}", change < 0 ? -change : change))});
  }
  void Text(const std::string& name, std::string before, std::string after, std::string change) {
    table_.Add({name, std::move(before), std::move(after), std::move(change)});
  }
  std::string Format() const { return table_.Format(); }

 private:
  TextTable table_;
};

void AddMemory(const WhatIfFigures& before, const WhatIfFigures& after, Rows& rows) {
  const auto graphs = static_cast<size_t>(MemoryKind::kGraphs);
  const char* const with_graphs = before.peaks[graphs] + after.peaks[graphs] > 0 ? " *" : "";
  rows.Bytes("plan height", before.height, after.height);
  rows.Bytes(fmt::format("most mapped{}", with_graphs), before.total_peak, after.total_peak);
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const auto kind = static_cast<size_t>(i);
    if (before.peaks[kind] == 0 && after.peaks[kind] == 0) continue;
    rows.Bytes(fmt::format("  {}{}", NameOf(static_cast<MemoryKind>(i)),
                           static_cast<MemoryKind>(i) == MemoryKind::kGraphs ? " *" : ""),
               before.peaks[kind], after.peaks[kind]);
  }
  rows.Bytes(fmt::format("mapped at the end{}", with_graphs), before.total, after.total);
}

void AddCalls(const WhatIfFigures& before, const WhatIfFigures& after, Rows& rows) {
  rows.Count("graphs recorded", before.recorded, after.recorded);
  rows.Count("graphs evicted", before.evicted, after.evicted);
  rows.Count("calls", before.calls(), after.calls());
  for (int i = 0; i < kRunKindCount; ++i) {
    const auto kind = static_cast<size_t>(i);
    if (before.paths[kind] != 0 || after.paths[kind] != 0)
      rows.Count(fmt::format("  {}", NameOf(static_cast<RunKind>(i))), before.paths[kind],
                 after.paths[kind]);
  }
  if (before.refused + after.refused > 0) rows.Count("  refused", before.refused, after.refused);
  for (int i = 1; i < kReasonCount; ++i) {
    const auto kind = static_cast<size_t>(i);
    if (before.reasons[kind] != 0 || after.reasons[kind] != 0)
      rows.Count(fmt::format("  for {}", NameOf(static_cast<Reason>(i))), before.reasons[kind],
                 after.reasons[kind]);
  }
  rows.Text("padded share", fmt::format("{:.2f} %", before.padded_share_pct()),
            fmt::format("{:.2f} %", after.padded_share_pct()),
            fmt::format("{:+.2f}", after.padded_share_pct() - before.padded_share_pct()));
  const auto milliseconds = [](int64_t ns) {
    return fmt::format("{:.2f} ms", static_cast<double>(ns) / kMillisecond);
  };
  const int64_t change = after.host_ns - before.host_ns;
  rows.Text("host time **", milliseconds(before.host_ns), milliseconds(after.host_ns),
            fmt::format("{:+.2f} ms", static_cast<double>(change) / kMillisecond));
}

void AddSuspensions(const WhatIfFigures& before, const WhatIfFigures& after, Rows& rows) {
  if (before.suspensions + after.suspensions == 0) return;
  rows.Count("suspensions", before.suspensions, after.suspensions);
  const auto seconds = [](int64_t ns) {
    return fmt::format("{:.3f} s", static_cast<double>(ns) / 1e9);
  };
  rows.Text("  suspended", seconds(before.suspended_ns), seconds(after.suspended_ns), "");
  const auto saved = [](double byte_seconds) { return fmt::format("{:.3e}", byte_seconds); };
  rows.Text("  bytes x seconds saved", saved(before.saved_byte_seconds),
            saved(after.saved_byte_seconds), "");
}

bool PeaksApart(const WhatIfFigures& figures) {
  return std::accumulate(figures.peaks.begin(), figures.peaks.end(), int64_t{0}) >
         figures.total_peak;
}

std::string FormatNotes(const WhatIfReport& report) {
  const WhatIfOutcome& changed = report.changed;
  std::string text;
  if (changed.figures.peaks[static_cast<size_t>(MemoryKind::kGraphs)] > 0)
    text += "  * bytes of graphs are estimated from a table, and included in the totals\n";
  if (PeaksApart(report.same.figures) || PeaksApart(changed.figures))
    text += "  each kind has its own peak; the peaks were at different times\n";
  text += "  ** an estimate: each call counts the median host time of similar calls";
  if (changed.guessed_times > 0)
    text += fmt::format("; timed by the nearest bucket or by a warm-up: {}",
                        Counted(changed.guessed_times, "call"));
  if (changed.unknown_times > 0)
    text += fmt::format("; left out, because no similar call was timed: {}",
                        Counted(changed.unknown_times, "call"));
  text += "\n";
  if (changed.figures.suspensions > 0)
    text += "  the times do not include suspending and mapping again\n";
  const ScriptUse& sizes = changed.sizes;
  text += fmt::format("  sizes: {} recorded, {} computed", sizes.recorded, sizes.interpolated);
  if (sizes.interpolated > 0) text += fmt::format(" from {} buckets or more", sizes.fewest_points);
  text += fmt::format(", {} guessed\n", sizes.estimated);
  if (changed.copy_out_bytes > 0)
    text += fmt::format("  copied outputs take {} per lane (copy_out_bytes)\n",
                        FormatBytes(changed.copy_out_bytes));
  for (const std::string& estimate : changed.estimates)
    text += fmt::format("  estimate: {}\n", estimate);
  if (!changed.first_refusal.empty())
    text += fmt::format("  first refusal: {}\n", changed.first_refusal);
  return text;
}

}  // namespace

std::string FormatWhatIf(const WhatIfReport& report) {
  std::string text = fmt::format("change: {}\n", Describe(report.changed.changes));
  if (!report.differences.empty()) {
    text += fmt::format(
        "note: the trace cannot be repeated exactly, so both columns come from repetitions: {}\n",
        fmt::join(report.differences, "; "));
    for (const std::string& gap : report.whatif.gaps())
      text += fmt::format("  because {}\n", gap);
  }
  const WhatIfFigures& before = report.same.figures;
  const WhatIfFigures& after = report.changed.figures;
  Rows rows;
  AddMemory(before, after, rows);
  AddCalls(before, after, rows);
  AddSuspensions(before, after, rows);
  return text + rows.Format() + FormatNotes(report);
}

nlohmann::ordered_json ToJson(const WhatIfFigures& figures) {
  nlohmann::ordered_json bytes;
  nlohmann::ordered_json peaks;
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const char* const name = NameOf(static_cast<MemoryKind>(i));
    bytes[name] = figures.bytes[static_cast<size_t>(i)];
    peaks[name] = figures.peaks[static_cast<size_t>(i)];
  }
  nlohmann::ordered_json paths;
  for (int i = 0; i < kRunKindCount; ++i)
    paths[NameOf(static_cast<RunKind>(i))] = figures.paths[static_cast<size_t>(i)];
  nlohmann::ordered_json reasons;
  for (int i = 1; i < kReasonCount; ++i)
    reasons[NameOf(static_cast<Reason>(i))] = figures.reasons[static_cast<size_t>(i)];
  return {{"height_bytes", figures.height},
          {"bytes", bytes},
          {"peak_bytes", peaks},
          {"total_bytes", figures.total},
          {"total_peak_bytes", figures.total_peak},
          {"graphs_recorded", figures.recorded},
          {"graphs_evicted", figures.evicted},
          {"remaps", figures.remaps},
          {"calls", figures.calls()},
          {"paths", paths},
          {"reasons", reasons},
          {"refused", figures.refused},
          {"real_elements", figures.real_elements},
          {"padded_elements", figures.padded_elements},
          {"padded_share_pct", figures.padded_share_pct()},
          {"host_ns_estimate", figures.host_ns},
          {"record_ns_estimate", figures.record_ns},
          {"suspensions", figures.suspensions},
          {"suspended_ns", figures.suspended_ns},
          {"saved_byte_seconds", figures.saved_byte_seconds}};
}

nlohmann::ordered_json ToJson(const WhatIfReport& report) {
  const WhatIfOutcome& changed = report.changed;
  return {{"schema", kPoolTraceSchema},
          {"change", Describe(changed.changes)},
          {"exact", report.differences.empty() && changed.estimates.empty()},
          {"differences", report.differences},
          {"gaps", report.whatif.gaps()},
          {"estimates", changed.estimates},
          {"sizes",
           {{"recorded", changed.sizes.recorded},
            {"computed", changed.sizes.interpolated},
            {"guessed", changed.sizes.estimated},
            {"fewest_points", changed.sizes.fewest_points}}},
          {"guessed_times", changed.guessed_times},
          {"unknown_times", changed.unknown_times},
          {"copy_out_bytes", changed.copy_out_bytes},
          {"first_refusal", changed.first_refusal},
          {"trace", ToJson(report.whatif.recorded())},
          {"before", ToJson(report.same.figures)},
          {"after", ToJson(changed.figures)}};
}

}  // namespace coppice
