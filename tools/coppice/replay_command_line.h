// The command line of `coppice replay`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/replay/replay.h"
#include "tools/support/command.h"

namespace coppice {

// Declares the options of `command`, which write to `options`.
void AddReplay(Command& command, ReplayOptions& options);

}  // namespace coppice
