// Reads, builds, writes.

#include "tools/prof/html/prof_html.h"

#include <memory>

#include "tools/prof/html/report_document.h"
#include "tools/prof/html/report_page.h"
#include "tools/prof/html/whatif_view.h"
#include "tools/support/progress.h"

namespace coppice {

ExitCode ProfHtml(const ProfOptions& options, const Console& console) {
  const absl::StatusOr<ProfOutput> output = OutputOf(options, ".html");
  if (!output.ok()) return FailProf(console, output.status());
  const absl::StatusOr<ReportFacts> facts = ReadReportFacts(options.trace);
  if (!facts.ok()) return FailProf(console, facts.status());
  nlohmann::ordered_json report = BuildReport(*facts);
  if (options.what_if) {
    const absl::StatusOr<std::unique_ptr<WhatIf>> opened = OpenWhatIf(options.trace, *facts);
    if (!opened.ok()) return FailProf(console, opened.status());
    Progress progress(console.err, /*enabled=*/true, "what if");
    const absl::StatusOr<nlohmann::ordered_json> view =
        WhatIfOf(**opened, *facts, ReportLimits(), report["limits"],
                 [&](int64_t done, int64_t total) { progress.Update(done, total); });
    if (!view.ok()) return FailProf(console, view.status());
    report["what_if"] = *view;
  }
  if (!output->path.empty()) {
    const absl::Status written = WriteOutput(*output, PageOf(report), console);
    if (!written.ok()) return FailProf(console, written, kExitOutput);
  }
  if (options.json) Print(console.out, "{}", Dump(report));
  return kExitOk;
}

}  // namespace coppice
