// `coppice prof import`: what another allocator was asked for, planned into one pool.
//
// Equal files give equal output, but for those that take longer than 30 seconds to plan. Threads:
// one at a time per process.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "tools/support/console.h"

namespace coppice {

enum class ImportFormat : uint8_t { kMemoryViz, kRmmCsv };
inline constexpr int kImportFormatCount = 2;

// "memory-viz", "rmm-csv".
const char* NameOf(ImportFormat format);
absl::StatusOr<ImportFormat> ParseImportFormat(const std::string& text);

// A larger file is refused.
inline constexpr int64_t kForeignFileBytesMax = int64_t{256} << 20;

struct ProfImportOptions {
  std::optional<ImportFormat> format;
  std::string file;
  std::string out;  // Where the lifetimes go, as coppice plan reads them; empty: nowhere.
  bool json = false;
};

// Exit codes: 0; 2 an option or the file is wrong; 4 the lifetimes cannot be written.
ExitCode ProfImport(const ProfImportOptions& options, const Console& console);

}  // namespace coppice
