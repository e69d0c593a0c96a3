// Runs what one operation or one node of a graph does.
//
// Threads: any thread.

#pragma once

#include "runtime/emulator/outcome.h"
#include "runtime/emulator/work.h"

namespace coppice::emulator {

// Requires: `work` is no ChildWork.
Outcome Execute(const Work& work, const Surroundings& surroundings);

}  // namespace coppice::emulator
