// Which format, and where it goes.

#include "tools/prof/export/export_command.h"

#include <array>

#include "coppice/base/status.h"

#include "tools/prof/export/text_formats.h"
#include "tools/prof/export/traced_session.h"
#include "tools/prof/prof.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

absl::Status CheckExport(const ProfExportOptions& options) {
  if (!options.format || options.trace.empty())
    return InvalidArgument(
        "export: no trace is given; give FORMAT TRACE, as in `coppice prof export chrome t.trace "
        "-o t.json`");
  if (options.out == "-") return absl::OkStatus();
  return CheckOutputs({&options.trace, 1}, {&options.out, 1});
}

}  // namespace

const char* NameOf(ExportFormat format) {
  static constexpr std::array kNames = {"chrome", "dot"};
  static_assert(kNames.size() == kExportFormatCount);
  return kNames[static_cast<size_t>(format)];
}

absl::StatusOr<ExportFormat> ParseExportFormat(const std::string& text) {
  for (int i = 0; i < kExportFormatCount; ++i)
    if (text == NameOf(static_cast<ExportFormat>(i))) return static_cast<ExportFormat>(i);
  return InvalidArgument(
      "'{}' is not a format; give chrome or dot; `python -m coppice.prof export --help` lists "
      "others",
      text);
}

ExitCode ProfExport(const ProfExportOptions& options, const Console& console) {
  if (const absl::Status status = CheckExport(options); !status.ok())
    return FailProf(console, status);
  const absl::StatusOr<TracedSession> session = ReadTracedSession(options.trace);
  if (!session.ok()) return FailProf(console, session.status());
  const std::string text =
      options.format == ExportFormat::kChrome ? ChromeTraceOf(*session) : GraphTreeOf(*session);
  if (options.out.empty() || options.out == "-") {
    std::fwrite(text.data(), 1, text.size(), console.out);
    return kExitOk;
  }
  const absl::Status written = WriteTextFile(options.out, text);
  return written.ok() ? kExitOk : FailProf(console, written, kExitOutput);
}

}  // namespace coppice
