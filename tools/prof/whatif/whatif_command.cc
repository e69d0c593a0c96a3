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
    "The calls of the trace are made again, without a device, in a session of this library: its "
    "own\n"
    "planner, pool, budget, evictions and leases. Memory is exact. Times are medians of the "
    "trace.\n"
    "Changes may be combined; without one, the trace is held against its own repetition.\n"
    "\n"
    "  --drop decode:8            without this bucket: its calls go to the next that holds them\n"
    "  --drop mix.rows:8          without all that have this extent of one of several sizes\n"
    "  --policy pow2              of all sizes that may be padded: a preset, a ladder, a list, or\n"
    "                             POLICY.json of coppice tune\n"
    "  --policy decode=vllm       of one program; mix.rows=8,64 of one size of it\n"
    "  --lanes 2                  each call, with those that read its outputs, on the next lane\n"
    "  --suspend-idle 0.5         suspended whenever no call comes for half a second\n"
    "  --outputs copy             outputs are copied out of the graphs' memory\n"
    "\n"
    "A bucket that was never recorded has the sizes that follow from those that were; where these\n"
    "do not determine them, the report says which figures are estimates. Under a budget graphs go\n"
    "by how long ago they ran and how long recording them took in the trace; a session that takes\n"
    "other times may drop others.\n"
    "\n"
    "Examples:\n"
    "  coppice prof whatif t.trace --drop decode:24\n"
    "  coppice prof whatif t.trace --policy decode=1,4,16,32 --budget 64MiB --json\n"
    "\n"
    "Exit codes: 0 success; 1 the trace cannot be repeated as it was, so that both columns are\n"
    "those of a repetition; 2 a wrong option, or a file that is no trace; 6 host memory ran out.";

absl::StatusOr<bool> ParseOutputs(const std::string& text) {
  if (text == "copy") return true;
  return InvalidArgument("'{}' is no way of outputs; give copy", text);
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
  Command& part =
      prof.AddSubcommand("whatif", "The figures of the same calls, had the session been otherwise");
  part.SetFooter(kWhatIfNotes);
  WhatIfChanges& changes = options.changes;
  part.AddText("trace", options.trace, "TRACE", "Trace file", Command::Presence::kRequired);
  part.AddRepeated("--drop", changes.drops, "PROGRAM:BUCKET", "A bucket that is gone");
  part.AddRepeated("--policy", changes.policies, "[PROGRAM[.SYMBOL]=]POLICY",
                   "Another padding policy");
  part.AddParsed("--budget", &ParseBytes, changes.budget_bytes,
                 "Bytes that the session may hold, as 4GiB");
  part.AddCount("--lanes", changes.lanes, kLanesMost, "So many lanes");
  part.AddSeconds("--suspend-idle", changes.suspend_idle_ns,
                  "Suspended when no call comes for so many seconds");
  part.AddParsed("--outputs", &ParseOutputs, changes.copy_outputs, "copy: outputs are copied out");
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
