// One argument, which is a number or a path.

#include "tools/coppice/watch_command_line.h"

namespace coppice {
namespace {

constexpr const char* kWatchNotes =
    "Shows a session while it runs. Each report reads only the new part of the trace. A number\n"
    "is a process ID: the trace is then found among the open files of that process. If a file\n"
    "has a number as its name, give it as ./NUMBER. The command ends when the trace ends or its\n"
    "writer is gone; the writer is the process, or the holder of the file's lock. If you watch\n"
    "a growing copy of a trace, use a pipe, because the copy has no writer. Rates cover the\n"
    "time since the last report. On a terminal, each report replaces the last one; elsewhere,\n"
    "reports follow each other.\n"
    "\n"
    "Examples:\n"
    "  coppice prof watch t.trace\n"
    "  coppice prof watch $(pgrep -n server) --interval 0.2\n"
    "  coppice prof watch t.trace --json | jq -r '.total_bytes'\n"
    "  coppice prof watch t.trace --once               what there is so far\n"
    "  ssh server tail -c +0 -f t.trace | coppice prof watch /dev/stdin\n"
    "\n"
    "Exit codes: 0 the trace is complete, or --once; 1 the writer is gone, but the trace is not\n"
    "complete; 2 a wrong option, no such process, or a file that is not a trace; 4 the output\n"
    "cannot be written; 5 a signal stopped it; 6 host memory ran out.";

}  // namespace

void AddProfWatch(Command& prof, ProfWatchOptions& options) {
  Command& watch = prof.AddSubcommand("watch", "Show a session while it runs");
  watch.SetFooter(kWatchNotes);
  watch.AddText("trace", options.trace, "PID|FILE",
                "A trace, or the ID of the process that writes it", Command::Presence::kRequired);
  watch.AddSeconds("--interval", options.interval_ns, "Seconds between two reports, default 1");
  watch.AddFlag("--once", options.once, "Print one report, and end");
  watch.AddFlag(
      "--json", options.json,
      "Print each report as a JSON object on one line, and nothing else on standard output");
}

}  // namespace coppice
