// The command line of `coppice replay`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/replay/replay.h"
#include "tools/support/command.h"
#include "tools/support/subcommand.h"

namespace coppice {

// Declares the options of `command`, which write to `options`.
void AddReplay(Command& command, ReplayOptions& options);

// The subcommand, for a list of them.
inline constexpr Subcommand kReplaySubcommand{
    "replay", "Rerun the calls that a flight recorder kept, and find the line at fault",
    &Declared<&AddReplay, &Replay>::On};

}  // namespace coppice
