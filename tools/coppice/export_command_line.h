// The command lines of `coppice prof export` and `coppice prof import`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/prof/export/export_command.h"
#include "tools/prof/import/import_command.h"
#include "tools/support/command.h"
#include "tools/support/console.h"

namespace coppice {

struct ProfExchangeOptions {
  ProfExportOptions given_out;
  ProfImportOptions taken_in;
};

// Adds both to the subcommands of `prof`, which write to `options`.
void AddProfExchange(Command& prof, ProfExchangeOptions& options);

// Runs the one that was parsed. Requires: one was.
ExitCode RunProfExchange(const Command& prof,
                         const ProfExchangeOptions& options,
                         const Console& console);

}  // namespace coppice
