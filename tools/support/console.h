// Where a command writes, and how it ends.
//
// Threads: plain values.

#pragma once

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace coppice {

// Stable: scripts rely on them.
enum ExitCode : int {
  kExitOk = 0,
  kExitMismatch = 1,  // The checked figures are not as they should be; see kExitCodes.
  kExitUsage = 2,     // An option or an input file is wrong.
  kExitDevice = 3,    // The device or its driver failed.
  kExitOutput = 4,    // Standard output or a file could not be written.
};

struct Console {
  std::FILE* out = stdout;  // The report, or JSON and nothing else.
  std::FILE* err = stderr;  // Errors, notes and the progress bar.
};

// Formats and writes; a stream that takes no more is found by CloseReport.
template <typename... Args>
void Print(std::FILE* file, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), file);
}

// Ends a command: a report that did not reach its reader is a failure of its own.
inline ExitCode CloseReport(ExitCode code, const char* program, const Console& console) {
  if (std::fflush(console.out) == 0 && std::ferror(console.out) == 0) return code;
  const std::string reason = std::generic_category().message(errno);
  Print(console.err, "{}: standard output cannot be written: {}; free space or redirect it\n",
        program, reason);
  return kExitOutput;
}

}  // namespace coppice
