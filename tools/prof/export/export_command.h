// `coppice prof export`: a trace as a timeline or a drawing. Formats of other people's libraries
// are written by `python -m coppice.prof export` (python/coppice/prof).
//
// Equal traces give equal output, byte for byte. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "tools/support/console.h"

namespace coppice {

enum class ExportFormat : uint8_t { kChrome, kDot };
inline constexpr int kExportFormatCount = 2;

// "chrome", "dot".
const char* NameOf(ExportFormat format);
absl::StatusOr<ExportFormat> ParseExportFormat(const std::string& text);

struct ProfExportOptions {
  std::optional<ExportFormat> format;
  std::string trace;
  std::string out;  // Empty or "-": standard output.
};

// Exit codes: 0; 2 an option or the trace is wrong; 4 the file cannot be written.
ExitCode ProfExport(const ProfExportOptions& options, const Console& console);

}  // namespace coppice
