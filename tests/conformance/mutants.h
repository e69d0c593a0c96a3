// Wrong drivers: each mutant is a right driver table with one rule of CUDA broken, the way a
// careless author of an emulator might break it. A suite that stays green on one of them has a
// hole.
//
// Threads: of Mutated, one at a time; a mutated table may be called from any thread that its tests
// order among themselves.

#pragma once

#include <string_view>
#include <vector>

#include "coppice/runtime/driver.h"

namespace coppice {

struct Mutant {
  const char* name;                   // For --mutant; unique.
  const char* rule;                   // The rule that it breaks, in one sentence.
  void (*apply)(DriverTable& table);  // Replaces entries of a right table.
};

// Every mutant: of captures, memory, streams, graphs, in this order.
const std::vector<Mutant>& Mutants();

// The mutant of that name, or null.
const Mutant* FindMutant(std::string_view name);

// `right` with the mutant's rule broken. One mutated table is alive at a time, and it forgets what
// an earlier one saw.
DriverTable Mutated(const DriverTable& right, const Mutant& mutant);

}  // namespace coppice
