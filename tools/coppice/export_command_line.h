// The command line of `coppice prof export`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/prof/export/export_command.h"
#include "tools/support/command.h"

namespace coppice {

// Adds it to the subcommands of `prof`; it writes to `options`.
void AddProfExport(Command& prof, ProfExportOptions& options);

}  // namespace coppice
