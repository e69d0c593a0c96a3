// The command line of `coppice tune`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/support/command.h"
#include "tools/support/console.h"
#include "tools/tune/tune.h"

namespace coppice {

struct TuneCommandOptions {
  TuneLearnOptions learn;
  TuneScoreOptions score;
  TuneSimulateOptions simulate;
};

// Declares the options of `command` and its subcommands, which write to `options`.
void AddTune(Command& command, TuneCommandOptions& options);

// Runs the subcommand that was parsed, or without one learns.
ExitCode RunTune(const Command& command, const TuneCommandOptions& options, const Console& console);

}  // namespace coppice
