// The options of `coppice prof watch`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/prof/watch/prof_watch.h"
#include "tools/support/command.h"

namespace coppice {

// Adds the subcommand to `prof`.
void AddProfWatch(Command& prof, ProfWatchOptions& options);

}  // namespace coppice
