// `coppice replay`: from a case to the line that is wrong.
//
// Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <string>

#include "tools/support/console.h"

namespace coppice {

struct ReplayOptions {
  std::string path;
  std::string package;    // Empty: the one in the case.
  std::string constants;  // A safetensors file; empty: none.
  std::string output;     // Of the shrunken case; empty: beside the case.
  std::string buffers;    // A folder for the buffers of all calls; empty: nowhere.
  int64_t seeds = 3;      // >= 1.
  int64_t calls = 32;     // The last ones that are run, and what they read. >= 1.
  bool shrink = false;
  bool taint = false;    // Follows the padding of each call, too.
  bool depends = false;  // Says what outputs depend on, too.
  bool json = false;
};

// Prints a verdict. Returns kExitDevice if something is wrong, kExitOk if nothing is found, and
// kExitUsage for a file that cannot be read.
ExitCode Replay(const ReplayOptions& options, const Console& console);

}  // namespace coppice
