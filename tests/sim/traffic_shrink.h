// From a script that fails to a small one that fails in the same way.
//
// Threads: one.

#pragma once

#include "tests/sim/traffic_script.h"

namespace coppice {

// What went wrong, as "kind: text"; empty if nothing did.
using TrafficRun = std::function<std::string(const TrafficScript&)>;

struct ShrunkScript {
  TrafficScript script;
  std::string failure;  // Of the script.
  int64_t runs = 0;     // That it took.
};

// Takes operations out, halves first and single ones last, then sets fields and options to their
// defaults or to smaller numbers, until nothing more can go while `run` fails with the same kind.
// Requires: `run` fails on `script` (checked).
ShrunkScript Shrink(const TrafficScript& script, const TrafficRun& run);

}  // namespace coppice
