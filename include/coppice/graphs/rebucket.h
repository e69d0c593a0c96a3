// Buckets that follow the traffic of a running session: what Session::Rebucket may do, and did.
//
// A symbol whose spec gives an `observe_half_life` is counted: each call adds its real extent to a
// histogram that forgets (decaying_histogram.h). Rebucket, called every now and then by a thread
// that has the time, asks Relearn (padding/relearn.h) for a ladder with few buckets that are new,
// and swaps it in if it pays:
//
//   histogram ─► Relearn ─► record the new buckets' graphs ─► swap the policy ─► drop the old ones
//                           (calls go on in the old buckets)   (all lanes at once)
//
// A bucket's successors are what its sizes replay from then on: of each root graph of a bucket that
// goes or shrinks, on the lane where it is, the same in the new bucket. What has no such graph (a
// child of a path, another binding) is recorded by traffic, as ever.
//
// Where ranks vote, no rank may swap alone: one learns by a dry run, and all of them SetPolicy what
// it reports at the same call. Rebucket refuses to do more there.
//
// Units: extents in elements, waste in points, times in nanoseconds. Threads: plain values; the
// functions are called from the thread that calls Rebucket.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"

#include "coppice/graphs/program.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/relearn.h"

namespace coppice {

class Binding;

// What suits a policy that is to be learned again: its maximum as the limit, as many buckets in all
// as it has, or `count` if that is more, 256 at most, multiples of `multiple_of`, and what
// relearn.h recommends; up to a limit of 512 with a cap of 1.25 and a gap of 2, beyond it of 1.5
// and 1, each if as many buckets as the policy has can keep it.
RelearnOptions RelearnFor(const PaddingPolicy& policy, int64_t multiple_of = 1, int64_t count = 0);

struct RebucketOptions {
  // None: RelearnFor the policy in force; where bytes cost something, with a count of at least the
  // buckets that the symbol was registered with, so that what went under pressure may come back.
  std::optional<RelearnOptions> relearn;
  // What holding a byte costs, per call and in the unit of relearn->learn.cost: elements, if it has
  // none. A bucket then costs what its graphs take on all lanes (NodeInfo::exec_bytes), beside the
  // price that `relearn` gives it. One without a graph counts as if it had what the nearest below
  // and above have, on a straight line between the two; where only one side has any, as much as the
  // nearest there. Memory that buckets share, as the pool's, is in no price. Nothing is learned
  // while no bucket has a graph.
  double cost_per_byte = 0;         // 0: bytes are free. >= 0, finite.
  int64_t period = 2000;            // Calls observed since it was due last, to be due again. >= 0.
  int graphs_max = 16;              // Recorded per swap, all lanes together. >= 0.
  int graphs_per_minute = 64;       // Recorded for this symbol in any minute. >= 0.
  std::function<int64_t()> now_ns;  // What minutes are told by; null: a steady clock.
  bool dry_run = false;             // Only learns, and reports.
  const Binding* binding =
      nullptr;  // Whose graphs are recorded; null if the program binds nothing.
  const Binding* scratch = nullptr;  // As WarmOptions::scratch.
};

enum class Rebucketed : uint8_t {
  kNotDue,       // Fewer calls than the period: nothing was learned.
  kKept,         // No ladder saves enough, or no call has an extent up to the maximum.
  kLimited,      // One does, but it takes more graphs than may be recorded at this time.
  kNotRecorded,  // A graph could not be recorded, so that nothing changed; `why` says which.
  kWouldSwap,    // A dry run.
  kSwapped,
};

struct RebucketReport {
  Rebucketed outcome = Rebucketed::kNotDue;
  int64_t calls = 0;   // Observed in all.
  Relearned learned;   // Empty if not due; the ladder that stays if it is kept; else the one that
                       // is wanted, which after a swap is the policy's.
  int64_t graphs = 0;  // Recorded; in a dry run, that would be.
  // Of the graphs of all old buckets, and of those of `learned.buckets`, counted as cost_per_byte
  // has it; 0 if that is 0.
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
  absl::Status why;
};

const char* NameOf(Rebucketed outcome);

}  // namespace coppice
