// `coppice prof export`: a trace in a format of other people's tools.
//
// Equal traces give equal output, byte for byte. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "tools/prof/export/viz_snapshot.h"
#include "tools/support/console.h"

namespace coppice {

enum class ExportFormat : uint8_t { kMemoryViz, kChrome, kPerfetto, kRmmCsv, kNsysSidecar, kDot };
inline constexpr int kExportFormatCount = 6;

// "memory-viz", "chrome", "perfetto", "rmm-csv", "nsys-sidecar", "dot".
const char* NameOf(ExportFormat format);
absl::StatusOr<ExportFormat> ParseExportFormat(const std::string& text);

// The number of a call or of a lane. Error: kInvalidArgument.
absl::StatusOr<int64_t> ParseTracedNumber(const std::string& text);

struct ProfExportOptions {
  std::optional<ExportFormat> format;
  std::string trace;
  std::string out;              // Empty: standard output; of a terminal, for text alone.
  bool json = false;            // memory-viz: JSON in place of a pickle.
  std::optional<VizMode> mode;  // memory-viz; none: history.
  std::optional<int64_t> call;  // memory-viz: where the path ends; none: the longest path.
  std::optional<int64_t> lane;  // memory-viz: the lane of `call`; none: 0.
};

// Exit codes: 0; 2 an option or the trace is wrong; 4 the file cannot be written.
ExitCode ProfExport(const ProfExportOptions& options, const Console& console);

}  // namespace coppice
