// `coppice plan`: from lifetimes in CSV files to offsets, a table and a picture.
//
// Units: bytes and nanoseconds as named. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tools/support/console.h"

namespace coppice {

struct PlanCommandOptions {
  std::vector<std::string> files;          // Lifetimes; at least one.
  std::optional<int64_t> capacity;         // A plan no higher is good enough; a higher one fails.
  int64_t time_limit_ns = 10'000'000'000;  // Of each file.
  int64_t tries = std::numeric_limits<int64_t>::max();  // Placements that the search tries.
  uint64_t seed = 1;                                    // Of the search.
  std::string output;  // File, or folder with several files; empty: none.
  std::string svg;     // The same for pictures.
  bool json = false;
};

// Plans each file on its own; together they are an arena, as high as the highest plan.
//
// Returns kExitMismatch if a plan is above the capacity, after everything is written; kExitUsage
// for input that is wrong, before anything is planned or written; kExitOutput if a file cannot be
// written.
ExitCode PlanCommand(const PlanCommandOptions& options, const Console& console);

}  // namespace coppice
