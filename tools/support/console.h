// Where a command writes, when it is to stop, and how it ends.
//
// Threads: plain values.

#pragma once

#include <cstdio>
#include <functional>
#include <utility>

#include "fmt/format.h"

namespace coppice {

// Stable: scripts rely on them.
enum ExitCode : int {
  kExitOk = 0,
  kExitMismatch = 1,  // The checked figures are not as they should be; see kExitCodes.
  kExitUsage = 2,     // An option or an input file is wrong.
  kExitDevice = 3,    // The device or its driver failed, or a kernel did what it may not.
  kExitOutput = 4,    // Standard output or a file could not be written.
  kExitStopped = 5,   // A signal asked to stop; what had been measured is printed.
  kExitMemory = 6,    // Host memory ran out.
};

struct Console {
  std::FILE* out = stdout;  // The report, or JSON and nothing else.
  std::FILE* err = stderr;  // Errors, notes and the progress bar.
  // Whether to stop and print what there is, asked between pieces of work; null: never.
  std::function<bool()> stop;

  bool stopped() const { return stop && stop(); }
};

// Why a piece of work was left out of a command that stops.
inline constexpr const char* kStopped = "stopped by a signal";

// Formats and writes; a stream that takes no more is found by RunTool.
template <typename... Args>
void Print(std::FILE* file, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), file);
}

}  // namespace coppice
