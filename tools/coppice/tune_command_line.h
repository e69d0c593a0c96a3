// The command line of `coppice tune`.
//
// Threads: one at a time per process.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/support/command.h"
#include "tools/support/console.h"
#include "tools/tune/tune.h"

namespace coppice {

// What options take that several commands have: a number from 0 up to, not including, 1; one from 0
// on; numbers above 0 with commas between. Errors: kInvalidArgument quoting the text.
absl::StatusOr<double> ParseShare(const std::string& text);
absl::StatusOr<double> ParsePoints(const std::string& text);
absl::StatusOr<std::vector<double>> ParseLoads(const std::string& text);

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
