// Changes of one kind, from little to much, which the report's view `What if` slides over.
//
// Units: bytes, nanoseconds. Threads: pure function.

#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "tools/prof/html/report_document.h"
#include "tools/prof/html/report_facts.h"
#include "tools/prof/whatif/changes.h"

namespace coppice {

struct WhatIfStep {
  std::string label;  // "pow2", "75 %".
  WhatIfChanges changes;
};

struct WhatIfLadder {
  std::string kind;               // "policy", "budget", "drop", "suspend" or "outputs".
  std::string label;              // "padding of decode, batch".
  std::vector<WhatIfStep> steps;  // The first changes nothing; there are more.
};

// Of each size that may be padded other policies, the fewest buckets first, and last the one that
// is learned from its calls, for the programs with the most calls; shares of `peak_bytes`, the most
// that was mapped, as budgets; each of the buckets that `prof drop` lists first dropped; suspended
// when idle, as long as the trace has such gaps; outputs copied. `left_out` gets the sizes beyond
// the limit.
//
// Requires: a trace that WhatIf::Open takes.
std::vector<WhatIfLadder> LaddersOf(const ReportFacts& facts,
                                    int64_t peak_bytes,
                                    const ReportLimits& limits,
                                    nlohmann::ordered_json& left_out);

}  // namespace coppice
