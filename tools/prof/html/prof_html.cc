// Reads, builds, writes.

#include "tools/prof/html/prof_html.h"

#include "coppice/base/status.h"

#include "tools/prof/html/report_document.h"
#include "tools/prof/html/report_page.h"
#include "tools/support/text_file.h"

namespace coppice {

ExitCode ProfHtml(const ProfOptions& options, const Console& console) {
  if (options.out.empty() && !options.json)
    return FailProf(console,
                    InvalidArgument("html: no report wanted; give -o FILE.html or --json"));
  if (const absl::Status status = CheckOutputs({&options.trace, 1}, {&options.out, 1});
      !status.ok()) {
    return FailProf(console, status);
  }
  const absl::StatusOr<ReportFacts> facts = ReadReportFacts(options.trace);
  if (!facts.ok()) return FailProf(console, facts.status());
  const nlohmann::ordered_json report = BuildReport(*facts);
  if (!options.out.empty()) {
    if (const absl::Status written = WriteTextFile(options.out, PageOf(report)); !written.ok())
      return FailProf(console, written, kExitOutput);
  }
  if (options.json) Print(console.out, "{}", Dump(report));
  return kExitOk;
}

}  // namespace coppice
