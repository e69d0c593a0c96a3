// Which format, and where it goes.

#include "tools/prof/export/export_command.h"

#include <array>
#include <charconv>
#include <system_error>
#include <vector>

#include "fmt/ranges.h"

#include "coppice/base/status.h"

#include "tools/prof/export/text_formats.h"
#include "tools/prof/export/traced_session.h"
#include "tools/prof/prof.h"
#include "tools/support/terminal.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

absl::StatusOr<std::string> MemoryVizOf(const TracedSession& session,
                                        const ProfExportOptions& options) {
  VizSnapshot snapshot;
  switch (options.mode.value_or(VizMode::kHistory)) {
    case VizMode::kHistory:
      snapshot = HistorySnapshot(session);
      break;
    case VizMode::kPlan:
      snapshot = PlanSnapshot(session);
      break;
    case VizMode::kPath: {
      const VizLeaf leaf = {.lane = static_cast<int>(options.lane.value_or(0)),
                            .call = options.call};
      COPPICE_ASSIGN_OR_RETURN(snapshot, PathSnapshot(session, leaf));
      break;
    }
  }
  return options.json ? JsonTextOf(snapshot) : PickleOf(snapshot);
}

absl::StatusOr<std::string> WrittenAs(const TracedSession& session,
                                      const ProfExportOptions& options) {
  switch (*options.format) {
    case ExportFormat::kMemoryViz:
      return MemoryVizOf(session, options);
    case ExportFormat::kChrome:
      return ChromeTraceOf(session);
    case ExportFormat::kPerfetto:
      return PerfettoTraceOf(session);
    case ExportFormat::kRmmCsv:
      return RmmCsvOf(session);
    case ExportFormat::kNsysSidecar:
      return NsysSidecarOf(session);
    case ExportFormat::kDot:
      return GraphTreeOf(session);
  }
  return InvalidArgument("export: no such format");
}

absl::Status CheckExport(const ProfExportOptions& options, const Console& console) {
  if (!options.format || options.trace.empty())
    return InvalidArgument(
        "export: no trace; give FORMAT TRACE, as in `coppice prof export chrome "
        "t.trace -o t.json`");
  const ExportFormat format = *options.format;
  const bool viz = format == ExportFormat::kMemoryViz;
  const bool path = viz && options.mode == VizMode::kPath;
  if (!viz && (options.json || options.mode))
    return InvalidArgument("export: {} has one form; give --json and --mode with memory-viz only",
                           NameOf(format));
  if (!path && (options.call || options.lane))
    return InvalidArgument("export: --call and --lane choose a path; give --mode path with them");
  if (options.lane && !options.call)
    return InvalidArgument("export: --lane is the lane of a call; give --call with it");
  const bool binary = (viz && !options.json) || format == ExportFormat::kPerfetto;
  if (binary && options.out.empty() && IsTerminal(console.out))
    return InvalidArgument("export: {} is no text for a terminal; give -o FILE, or redirect it",
                           NameOf(format));
  if (options.out == "-") return absl::OkStatus();
  return CheckOutputs({&options.trace, 1}, {&options.out, 1});
}

}  // namespace

const char* NameOf(ExportFormat format) {
  static constexpr std::array kNames = {"memory-viz", "chrome",       "perfetto",
                                        "rmm-csv",    "nsys-sidecar", "dot"};
  static_assert(kNames.size() == kExportFormatCount);
  return kNames[static_cast<size_t>(format)];
}

absl::StatusOr<ExportFormat> ParseExportFormat(const std::string& text) {
  std::vector<const char*> names;
  for (int i = 0; i < kExportFormatCount; ++i) {
    names.push_back(NameOf(static_cast<ExportFormat>(i)));
    if (text == names.back()) return static_cast<ExportFormat>(i);
  }
  return InvalidArgument("'{}' is no format; give one of {}", text, fmt::join(names, ", "));
}

absl::StatusOr<int64_t> ParseTracedNumber(const std::string& text) {
  int32_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc() && end == last && number >= 0) return number;
  return InvalidArgument("'{}' is no number of a call or a lane; give one from 0 to 2^31 - 1",
                         text);
}

ExitCode ProfExport(const ProfExportOptions& options, const Console& console) {
  if (const absl::Status status = CheckExport(options, console); !status.ok())
    return FailProf(console, status);
  const absl::StatusOr<TracedSession> session = ReadTracedSession(options.trace);
  if (!session.ok()) return FailProf(console, session.status());
  const absl::StatusOr<std::string> text = WrittenAs(*session, options);
  if (!text.ok()) return FailProf(console, text.status());
  if (options.out.empty() || options.out == "-") {
    std::fwrite(text->data(), 1, text->size(), console.out);
    return kExitOk;
  }
  const absl::Status written = WriteTextFile(options.out, *text);
  return written.ok() ? kExitOk : FailProf(console, written, kExitOutput);
}

}  // namespace coppice
