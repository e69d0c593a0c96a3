// The command line of `coppice`: options in, exit code out.
//
// Threads: one at a time per process.

#pragma once

#include <string>

#include "tools/support/console.h"

namespace coppice {

// Parses `arguments` and runs the subcommand they name. `program` is the path of this executable,
// for `bench dispatch` to run again under valgrind; empty: never.
ExitCode RunCommandLine(int argument_count,
                        const char* const* arguments,
                        const std::string& program,
                        const Console& console);

}  // namespace coppice
