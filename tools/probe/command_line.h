// The command line of `coppice-probe`: options in, tables and an exit code out.
//
// Threads: one at a time per process.

#pragma once

#include "tools/support/console.h"

namespace coppice {

// Parses `arguments` and runs the surveys they name, each on a driver of its own, so that the
// failure of one ends no other: it is reported, and the exit code tells of it.
ExitCode RunProbe(int argument_count, const char* const* arguments, const Console& console);

}  // namespace coppice
