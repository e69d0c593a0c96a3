// `coppice prof html`: a report of a session's trace, to be read in a browser.
//
// Threads: one at a time per process.

#pragma once

#include "tools/prof/prof.h"
#include "tools/support/console.h"

namespace coppice {

// Writes the report to `options.out` (OutputOf), or with `options.json` prints the document that
// the page would show. Equal traces give equal files. `options.what_if` adds what came of changes
// (whatif_view.h), with a bar on a terminal.
//
// Exit codes: 0; 2 the trace cannot be read or its calls not be made again, or the output is the
// trace; 4 the file cannot be written.
ExitCode ProfHtml(const ProfOptions& options, const Console& console);

}  // namespace coppice
