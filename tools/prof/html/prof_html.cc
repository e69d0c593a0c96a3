// Reads, builds, writes.

#include "tools/prof/html/prof_html.h"

#include "tools/prof/html/report_document.h"
#include "tools/prof/html/report_page.h"

namespace coppice {

ExitCode ProfHtml(const ProfOptions& options, const Console& console) {
  const absl::StatusOr<ProfOutput> output = OutputOf(options, ".html");
  if (!output.ok()) return FailProf(console, output.status());
  const absl::StatusOr<ReportFacts> facts = ReadReportFacts(options.trace);
  if (!facts.ok()) return FailProf(console, facts.status());
  const nlohmann::ordered_json report = BuildReport(*facts);
  if (!output->path.empty()) {
    const absl::Status written = WriteOutput(*output, PageOf(report), console);
    if (!written.ok()) return FailProf(console, written, kExitOutput);
  }
  if (options.json) Print(console.out, "{}", Dump(report));
  return kExitOk;
}

}  // namespace coppice
