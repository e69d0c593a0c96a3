// The command line of `coppice fit`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/fit/fit.h"
#include "tools/support/command.h"

namespace coppice {

// Declares the options of `command`, which write to `options`.
void AddFit(Command& command, FitOptions& options);

}  // namespace coppice
