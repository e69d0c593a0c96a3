// Where a command writes, and how it ends.
//
// Threads: plain values.

#pragma once

#include <cstdio>

namespace coppice {

// Stable: scripts rely on them.
enum ExitCode : int {
  kExitOk = 0,
  kExitMismatch = 1,  // A replayed step differs from its reference.
  kExitUsage = 2,     // An option or an input file is wrong.
  kExitDevice = 3,    // The device or its driver failed.
};

struct Console {
  std::FILE* out = stdout;  // The report, or JSON and nothing else.
  std::FILE* err = stderr;  // Errors, notes and the progress bar.
};

}  // namespace coppice
