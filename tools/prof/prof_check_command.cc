// `coppice prof check`: findings for people and for programs.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "tools/prof/prof.h"
#include "tools/prof/prof_check.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

std::string FindingsJson(const PoolTrace& trace, const TraceFindings& found, size_t shown) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (size_t i = 0; i < shown; ++i) {
    const TraceFinding& finding = found.findings[i];
    nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
    for (const auto& [name, number] : finding.numbers)
      numbers[name] = number;
    findings.push_back({{"kind", finding.kind},
                        {"line", finding.line},
                        {"what", finding.what},
                        {"numbers", numbers}});
  }
  return Dump({{"schema", kPoolTraceSchema},
               {"ended", trace.ended},
               {"events", trace.events},
               {"dropped_events", trace.dropped},
               {"count", found.count},
               {"counts", found.counts},
               {"findings", findings}});
}

std::string FindingsText(const PoolTrace& trace,
                         const std::string& name,
                         const TraceFindings& found,
                         size_t shown) {
  std::string text = NoteGaps(trace);
  if (trace.dropped > 0) text += "note: checks that depend on dropped events are left out\n";
  for (size_t i = 0; i < shown; ++i) {
    const TraceFinding& finding = found.findings[i];
    text += fmt::format("{}:{}: {}: {}\n", name, finding.line, finding.kind, finding.what);
  }
  if (static_cast<int64_t>(shown) < found.count)
    text += fmt::format("and {} more; see --limit\n", found.count - static_cast<int64_t>(shown));
  return text + fmt::format("{} in {} of {} on {}\n", Counted(found.count, "finding"),
                            Counted(trace.events, "event"),
                            Counted(std::ssize(trace.nodes), "graph"),
                            Counted(trace.lanes, "lane"));
}

}  // namespace

ExitCode ProfCheck(const ProfOptions& options, const Console& console) {
  std::vector<TracedEvent> events;
  const absl::StatusOr<PoolTrace> trace = ReadPoolTrace(
      options.trace, [&](const PoolTrace&, const TracedEvent& event) { events.push_back(event); });
  if (!trace.ok()) return FailProf(console, trace.status());
  const TraceFindings found = CheckTrace(*trace, std::move(events), options.strict);
  const int64_t limit = options.limit > 0 ? options.limit : kProfLinesDefault;
  const size_t shown = std::min(found.findings.size(), static_cast<size_t>(limit));
  Print(console.out, "{}",
        options.json ? FindingsJson(*trace, found, shown)
                     : FindingsText(*trace, options.trace, found, shown));
  return found.count == 0 ? kExitOk : kExitMismatch;
}

}  // namespace coppice
