// One argument, which is a number or a path.

#include "tools/coppice/watch_command_line.h"

namespace coppice {
namespace {

constexpr const char* kWatchNotes =
    "Shows a session while it runs: its trace is read as it grows, and only what was appended. A\n"
    "number is a process, whose trace is found among its open files; a file that is called so is\n"
    "given as ./NUMBER. The report ends with the trace, or with its writer: the process, or "
    "whoever\n"
    "holds the lock of the file. Of a copy that grows nobody does; give it through a pipe. Rates\n"
    "are of the time since the look before. On a terminal the report is drawn again in its place,\n"
    "elsewhere reports follow each other.\n"
    "\n"
    "Examples:\n"
    "  coppice prof watch t.trace\n"
    "  coppice prof watch $(pgrep -n server) --interval 0.2\n"
    "  coppice prof watch t.trace --json | jq -r '.total_bytes'\n"
    "  coppice prof watch t.trace --once               what there is by now\n"
    "  ssh server tail -c +0 -f t.trace | coppice prof watch /dev/stdin\n"
    "\n"
    "Exit codes: 0 the trace has its end, or --once; 1 its writer is gone, and it has no end; 2 a\n"
    "wrong option, no such process, or a file that is no trace; 4 the output cannot be written; 5 "
    "a\n"
    "signal stopped it; 6 host memory ran out.";

}  // namespace

void AddProfWatch(Command& prof, ProfWatchOptions& options) {
  Command& watch = prof.AddSubcommand("watch", "A session while it runs");
  watch.SetFooter(kWatchNotes);
  watch.AddText("trace", options.trace, "PID|FILE", "The process that writes a trace, or the trace",
                Command::Presence::kRequired);
  watch.AddSeconds("--interval", options.interval_ns, "Seconds from look to look, default 1");
  watch.AddFlag("--once", options.once, "One look, and the end");
  watch.AddFlag("--json", options.json,
                "An object per look and line, and nothing else on standard output");
}

}  // namespace coppice
