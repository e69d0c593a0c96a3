// Options, two repetitions, and a report.

#include "tools/prof/whatif/whatif_command.h"

#include <memory>
#include <optional>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/prof.h"
#include "tools/prof/whatif/whatif.h"
#include "tools/prof/whatif/whatif_report.h"
#include "tools/support/byte_text.h"
#include "tools/support/progress.h"

namespace coppice {
namespace {

constexpr int64_t kLanesMost = 64;

constexpr const char* kWhatIfNotes =
    "Repeats the calls of the trace, without a device, in a real session, with this library's\n"
    "planner, pool, budget, evictions and leases. Memory is exact. Times are medians of the\n"
    "trace. Changes may be combined. Without a change, the trace is compared with its own\n"
    "repetition.\n"
    "\n"
    "  --drop decode:8            without this bucket: its calls go to the next larger bucket\n"
    "  --drop mix.rows:8          without all buckets whose size `rows` is 8\n"
    "  --policy pow2              for all sizes that may be padded: a preset, a rule, a list,\n"
    "                             or a POLICY.json from coppice tune\n"
    "  --policy decode=vllm       for one program; mix.rows=8,64: for one size of a program\n"
    "  --lanes 2                  puts each call on the next lane, with the calls that read\n"
    "                             its outputs\n"
    "  --suspend-idle 0.5         suspends the session if no call comes for half a second\n"
    "  --outputs copy             copies outputs out of the graphs' memory\n"
    "\n"
    "The memory of a bucket that was never recorded is computed from recorded buckets. If they\n"
    "do not determine it, the report says which figures are estimates. Under a budget, the\n"
    "session chooses graphs to drop by how long ago they ran and how long they took to record.\n"
    "Both times are from the trace; a session with other times may drop other graphs.\n"
    "\n"
    "Examples:\n"
    "  coppice prof whatif t.trace --drop decode:24\n"
    "  coppice prof whatif t.trace --policy decode=1,4,16,32 --budget 64MiB --json\n"
    "\n"
    "Exit codes: 0 success; 1 the trace cannot be repeated exactly, so both columns come\n"
    "from repetitions; 2 a wrong option, or a file that is not a trace; 6 host memory ran out.";

absl::StatusOr<bool> ParseOutputs(const std::string& text) {
  if (text == "copy") return true;
  return InvalidArgument("'{}' is not a way to return outputs; give copy", text);
}

// Repeats the calls with a bar on a terminal.
absl::StatusOr<WhatIfOutcome> RepeatWithBar(WhatIf& whatif,
                                            const WhatIfOptions& options,
                                            const WhatIfChanges& changes,
                                            const Console& console) {
  Progress progress(console.err, !options.quiet, changes.empty() ? "repeating" : "changed");
  return whatif.Repeat(changes, [&](int64_t done, int64_t total) { progress.Update(done, total); });
}

}  // namespace

void AddWhatIf(Command& prof, WhatIfOptions& options) {
  Command& part = prof.AddSubcommand(
      "whatif", "Repeat the calls of a trace in a changed session, and compare the figures");
  part.SetFooter(kWhatIfNotes);
  WhatIfChanges& changes = options.changes;
  part.AddText("trace", options.trace, "TRACE", "Trace file", Command::Presence::kRequired);
  part.AddRepeated("--drop", changes.drops, "PROGRAM:BUCKET", "Drop this bucket");
  part.AddRepeated("--policy", changes.policies, "[PROGRAM[.SYMBOL]=]POLICY",
                   "Use another padding policy");
  part.AddParsed("--budget", &ParseBytes, changes.budget_bytes,
                 "Bytes that the session may hold, such as 4GiB");
  part.AddCount("--lanes", changes.lanes, kLanesMost, "Number of lanes");
  part.AddSeconds("--suspend-idle", changes.suspend_idle_ns,
                  "Suspend the session if no call comes for this many seconds");
  part.AddParsed("--outputs", &ParseOutputs, changes.copy_outputs,
                 "copy: copy outputs out of the graphs' memory");
  part.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
  part.AddFlag("--quiet", options.quiet, "No progress bar");
}

ExitCode WhatIfCommand(const WhatIfOptions& options, const Console& console) {
  const absl::StatusOr<std::unique_ptr<WhatIf>> opened = WhatIf::Open(options.trace);
  if (!opened.ok()) return FailProf(console, opened.status());
  WhatIf& whatif = **opened;
  const absl::StatusOr<WhatIfOutcome> same = RepeatWithBar(whatif, options, {}, console);
  if (!same.ok()) return FailProf(console, same.status());
  std::optional<absl::StatusOr<WhatIfOutcome>> changed;
  if (!options.changes.empty()) {
    changed = RepeatWithBar(whatif, options, options.changes, console);
    if (!changed->ok()) return FailProf(console, changed->status());
  }
  const WhatIfReport report{.whatif = whatif,
                            .same = *same,
                            .changed = changed ? **changed : *same,
                            .differences = same->figures.DifferencesFrom(whatif.recorded())};
  if (options.json)
    Print(console.out, "{}", Dump(ToJson(report)));
  else
    Print(console.out, "{}{}", NoteGaps(whatif.trace()), FormatWhatIf(report));
  return report.differences.empty() ? kExitOk : kExitMismatch;
}

}  // namespace coppice
