// `coppice prof diff`: what changed as a table, as JSON, and as a page.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/html/difference_document.h"
#include "tools/prof/html/report_page.h"
#include "tools/prof/prof.h"
#include "tools/prof/trace_difference.h"
#include "tools/support/text_file.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

// At most `limit` of the changes; 0: all.
std::string TableOf(const char* title, const std::vector<Change>& changes, size_t limit = 0) {
  TextTable table("lrrr", {title, "before", "after", "change"});
  size_t changed = 0;
  for (const Change& change : changes) {
    if (change.same() || (++changed > limit && limit > 0)) continue;
    table.Add({change.what(), ShownAs(change.unit, change.before),
               ShownAs(change.unit, change.after), GrowthOf(change)});
  }
  if (changed == 0) return fmt::format("  {}: no change\n", title);
  if (limit == 0 || changed <= limit) return table.Format();
  return fmt::format("{}  ... and {} more; give --limit\n", table.Format(), changed - limit);
}

nlohmann::ordered_json RowOf(const Change& change) {
  nlohmann::ordered_json row = {{"what", change.what()},
                                {"unit", change.unit == FigureUnit::kBytes ? "bytes" : "count"},
                                {"before", nullptr},
                                {"after", nullptr},
                                {"delta", change.delta()}};
  if (change.before) row["before"] = *change.before;
  if (change.after) row["after"] = *change.after;
  return row;
}

nlohmann::ordered_json RowsOf(const std::vector<Change>& changes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Change& change : changes)
    if (!change.same()) rows.push_back(RowOf(change));
  return rows;
}

absl::Status CheckPage(const ProfOptions& options) {
  if (options.page == "-") {
    if (options.json)
      return InvalidArgument(
          "diff: --html - and --json both print to standard output; give only one of them, or "
          "--html FILE with --json");
    return absl::OkStatus();
  }
  const std::array<std::string, 2> inputs = {options.trace, options.other};
  return CheckOutputs(inputs, {&options.page, 1});
}

ExitCode SayGrown(const ProfOptions& options,
                  const std::vector<Change>& grown,
                  const Console& console) {
  if (grown.empty()) return kExitOk;
  const Change& first = grown.front();
  Print(console.err,
        "coppice prof diff: {} of memory and padding grew by more than {} %; the first is '{}', "
        "from {} to {}\n",
        grown.size() == 1 ? "1 figure" : fmt::format("{} figures", grown.size()),
        *options.fail_over, first.what(), ShownAs(first.unit, first.before),
        ShownAs(first.unit, first.after));
  return kExitMismatch;
}

}  // namespace

absl::StatusOr<double> ParsePercent(const std::string& text) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc() && end == last && std::isfinite(value) && value >= 0) return value;
  return InvalidArgument("'{}' is not a percentage; give 0 or more", text);
}

ExitCode ProfDiff(const ProfOptions& options, const Console& console) {
  if (const absl::Status status = CheckPage(options); !status.ok())
    return FailProf(console, status);
  const absl::StatusOr<TraceSummary> before = SummarizeTrace(options.trace);
  if (!before.ok()) return FailProf(console, before.status());
  const absl::StatusOr<TraceSummary> after = SummarizeTrace(options.other);
  if (!after.ok()) return FailProf(console, after.status());
  const TraceDifference difference = DifferenceOf(*before, *after);
  const std::vector<Change> grown =
      options.fail_over ? difference.GrownOver(*options.fail_over) : std::vector<Change>();
  if (!options.page.empty()) {
    const ComparedTraces traces = {.before_name = options.trace,
                                   .before = *before,
                                   .after_name = options.other,
                                   .after = *after};
    const std::string page = DifferencePageOf(BuildDifference(traces, difference));
    if (const absl::Status written = WriteOutput({.path = options.page}, page, console);
        !written.ok()) {
      return FailProf(console, written, kExitOutput);
    }
  }
  if (options.json) {
    nlohmann::ordered_json report = {{"schema", kPoolTraceSchema},
                                     {"session", RowsOf(difference.session)},
                                     {"reasons", RowsOf(difference.reasons)},
                                     {"buckets", RowsOf(difference.buckets)},
                                     {"grown", RowsOf(grown)}};
    Print(console.out, "{}", Dump(report));
  } else if (options.page.empty()) {
    const auto limit = static_cast<size_t>(options.limit > 0 ? options.limit : kProfLinesDefault);
    Print(console.out, "{}{}{}\n{}\n{}  * an estimate from a table\n", NoteGaps(before->trace),
          NoteGaps(after->trace), TableOf("session", difference.session),
          TableOf("did not replay", difference.reasons),
          TableOf("bucket", difference.buckets, limit));
  }
  return SayGrown(options, grown, console);
}

}  // namespace coppice
