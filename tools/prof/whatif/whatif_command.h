// `coppice prof whatif`: the figures of a trace before and after a change.
//
// Threads: one at a time per process.

#pragma once

#include <string>

#include "tools/prof/whatif/changes.h"
#include "tools/support/command.h"
#include "tools/support/console.h"

namespace coppice {

struct WhatIfOptions {
  std::string trace;
  WhatIfChanges changes;
  bool json = false;
  bool quiet = false;
};

// Declares the subcommand of `prof`; `options` outlives it.
void AddWhatIf(Command& prof, WhatIfOptions& options);

// Exit codes: 0; 1 the trace cannot be repeated as it was, so that figures after a change are those
// of another session; 2 the trace or a change is wrong.
ExitCode WhatIfCommand(const WhatIfOptions& options, const Console& console);

}  // namespace coppice
