// What a traced session would have done, had it been made otherwise: its calls are made again, in a
// session of this library, on a device whose memory weighs nothing (weightless_device.h).
//
//   auto repeated = WhatIf::Open("t.trace");
//   auto same = (*repeated)->Repeat({});                    // Equals recorded(), or says why not.
//   auto fewer = (*repeated)->Repeat({.drops = {"decode:8"}});
//
// Keys, padding, warm-ups, recordings, plans, the pool, budgets, evictions, leases and paths are
// the library's own, so that figures of memory are exact, as far as what the calls allocate is
// known: every outcome says how much of it was recorded, computed or guessed. Work counts as done
// by the time of the next call.
//
// Units: bytes, nanoseconds. Threads: one at a time per process, with no other emulator in it.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "tools/prof/whatif/changes.h"
#include "tools/prof/whatif/run_scripts.h"
#include "tools/prof/whatif/traced_calls.h"
#include "tools/prof/whatif/whatif_figures.h"

namespace coppice {

class HostTimes;
class RepeatedSession;
class WeightlessDevice;

// What one repetition came to.
struct WhatIfOutcome {
  WhatIfChanges changes;
  WhatIfFigures figures;
  // Of all programs together: sizes that plans of the trace say, that were computed, and guessed.
  ScriptUse sizes;
  std::vector<std::string> estimates;  // What is not exact, and why, a line each.
  std::string first_refusal;           // Of calls that were an error; empty if none was.
  int64_t guessed_times = 0;           // Calls whose host time nobody measured in their bucket,
  int64_t unknown_times = 0;           // or in none of their program: nothing counts for them.
  int64_t copy_out_bytes = 0;          // Of the window that outputs are copied to, per lane.
};

// A change, and what came of it or why nothing did.
struct WhatIfRung {
  WhatIfChanges changes;
  absl::StatusOr<WhatIfOutcome> outcome;
};

class WhatIf {
 public:
  using OnProgress = std::function<void(int64_t done, int64_t total)>;  // Calls; null: nobody.

  // Reads the trace at `path`. Errors: kInvalidArgument  as ReadTracedCalls; options or specs that
  // cannot be read back.
  static absl::StatusOr<std::unique_ptr<WhatIf>> Open(const std::string& path);
  ~WhatIf();

  // What the trace says itself, and why it cannot be repeated just so, as far as it shows.
  const WhatIfFigures& recorded() const { return traced_.figures; }
  const std::vector<std::string>& gaps() const { return traced_.gaps; }
  const PoolTrace& trace() const { return traced_.trace; }

  // Makes the calls again with these changes. Errors: kInvalidArgument  as ApplyChanges; a budget
  // that does not hold what a session maps at once; kFailedPrecondition the process has an
  // emulator. Cost: on the order of a microsecond per call, and of a recording per graph.
  absl::StatusOr<WhatIfOutcome> Repeat(const WhatIfChanges& changes,
                                       const OnProgress& on_progress = nullptr);

  // Several of them, for who shows them side by side. Errors of one are in its rung.
  std::vector<WhatIfRung> RepeatEach(std::span<const WhatIfChanges> changes,
                                     const OnProgress& on_progress = nullptr);

 private:
  WhatIf();

  absl::StatusOr<std::unique_ptr<RepeatedSession>> MakeCalls(const WhatIfChanges& changes,
                                                             const ChangedMaking& making,
                                                             WeightlessDevice& device,
                                                             const OnProgress& on_progress);
  // The window that outputs are copied to, per lane, by a repetition with one that is too large.
  absl::StatusOr<int64_t> MeasureCopies(const WhatIfChanges& changes, ChangedMaking making);
  std::vector<std::string> Estimates() const;  // Of the last repetition.

  TracedCalls traced_;
  SessionOptions options_;
  std::vector<ProgramSpec> specs_;
  std::vector<std::unique_ptr<RunScripts>> scripts_;  // One per program.
  std::unique_ptr<const HostTimes> times_;
};

}  // namespace coppice
