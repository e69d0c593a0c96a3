// Buckets that follow the traffic of a running session: options and results of
// SessionPolicies::Rebucket.
//
// A symbol whose spec gives an `observe_half_life` is observed: each call adds its real extent to a
// histogram in which old calls fade (decaying_histogram.h). Call Rebucket now and then on a thread
// of your own. It asks Relearn (padding/relearn.h) for a ladder with few new buckets, and swaps it
// in if it saves enough:
//
//   histogram ─► Relearn ─► record the new buckets' graphs ─► swap the policy ─► drop the old ones
//                           (calls go on in the old buckets)   (all lanes at once)
//
// For each root graph of a bucket that is removed or shrinks, the same graph is recorded in the new
// bucket for its sizes, on the same lane. Other graphs (of children of a path, of another binding)
// are recorded by traffic, as always.
//
// If ranks vote, no rank may swap alone: one rank learns by a dry run, and all ranks call SetPolicy
// with its result at the same call. Rebucket then refuses anything but a dry run.
//
// Units: extents in elements, waste in points, times in nanoseconds. Threads: plain values; the
// functions are called from the thread that calls Rebucket.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/padding/relearn.h"

namespace coppice {

namespace internal {
struct SessionParts;
}  // namespace internal

class Binding;
class Program;

// Options that suit a policy that is learned again. The limit is its maximum. The count is the
// number of its buckets, or `count` if that is more, but at most 256. Buckets are multiples of
// `multiple_of`. Other options are those that relearn.h recommends. Up to a limit of 512 the cap is
// 1.25 and the gap is 2; beyond it they are 1.5 and 1. If that number of buckets cannot keep the
// cap, there is no cap.
RelearnOptions RelearnFor(const PaddingPolicy& policy, int64_t multiple_of = 1, int64_t count = 0);

struct RebucketOptions {
  // nullopt: the result of RelearnFor for the current policy. If `cost_per_byte` is not 0, the
  // count is at least the number of buckets that the symbol was registered with, so that removed
  // buckets may come back.
  std::optional<RelearnOptions> relearn;
  // The cost of holding a byte, per call and in the unit of relearn->learn.cost (elements if that
  // is empty). The cost of a bucket then includes the bytes of its graphs on all lanes
  // (NodeInfo::exec_bytes), in addition to the price in `relearn`. The bytes of a bucket without a
  // graph are interpolated between the nearest buckets below and above that have one; if only one
  // side has one, its bytes are used. Memory that buckets share, such as the pool, is not counted.
  // Nothing is learned while no bucket has a graph.
  double cost_per_byte = 0;         // 0: bytes are free. >= 0, finite.
  int64_t period = 2000;            // Observed calls before learning is due again. >= 0.
  int graphs_max = 16;              // Graphs recorded per swap, on all lanes together. >= 0.
  int graphs_per_minute = 64;       // Graphs recorded for this symbol in any minute. >= 0.
  std::function<int64_t()> now_ns;  // The clock for minutes; null: a steady clock.
  bool dry_run = false;             // Only learns and reports.
  const Binding* binding =
      nullptr;  // The binding to record graphs for; null if the program binds nothing.
  const Binding* scratch = nullptr;  // As WarmOptions::scratch.
};

enum class Rebucketed : uint8_t {
  kNotDue,       // Fewer calls than the period were observed, so nothing was learned.
  kKept,         // No ladder saves enough, or no call had an extent up to the maximum.
  kLimited,      // A ladder saves enough, but needs more graphs than may be recorded now.
  kNotRecorded,  // A graph could not be recorded, so nothing changed; `why` says which.
  kWouldSwap,    // A dry run found a ladder that saves enough.
  kSwapped,
};

struct RebucketReport {
  Rebucketed outcome = Rebucketed::kNotDue;
  int64_t calls = 0;   // Observed calls in all.
  Relearned learned;   // Empty if not due. If kept, the ladder that stays. Otherwise the new
                       // ladder, which is that of the policy after a swap.
  int64_t graphs = 0;  // Graphs recorded; in a dry run, graphs that would be recorded.
  // Bytes of the graphs of all old buckets, and of those of `learned.buckets`, counted as described
  // at cost_per_byte; 0 if that is 0.
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
  absl::Status why;
};

const char* NameOf(Rebucketed outcome);

// The policies of a session's symbols. Threads: any method from any thread.
class SessionPolicies {
 public:
  // Replaces the policy of a symbol, by its index in the spec, for all later calls; records
  // nothing. Calls no longer find graphs of removed buckets. These graphs are dropped when they do
  // not run and have no leased outputs: by this method, by Rebucket, or by later calls of their
  // lanes that do not replay. Waits for recordings in the background, and for running calls. If
  // ranks vote, every rank must call it at the same call.
  //
  // Errors: kInvalidArgument the program is another session's; there is no such symbol, or it is
  // never padded, or in a joint policy; the policy never pads, has another maximum than the
  // registered one, or has buckets that the symbol's bounds forbid; kFailedPrecondition the program
  // was unregistered; otherwise the driver's; the policy was then replaced nevertheless.
  absl::Status SetPolicy(const Program& program, int symbol, PaddingPolicy policy);
  // The current policy. Errors: kInvalidArgument, kFailedPrecondition as above. Allocates.
  absl::StatusOr<PaddingPolicy> GetPolicy(const Program& program, int symbol) const;

  // Learns the buckets of an observed symbol again and swaps them in if that saves enough, as
  // above. Graphs of the new buckets are recorded first, one at a time: in the background if
  // options and program allow it, otherwise with the lane's lock held. The old buckets serve calls
  // until all new graphs exist, and are then removed as by SetPolicy. The graph limit drops no
  // graph here. If a graph cannot be recorded, nothing changes, and the report says why. One thread
  // at a time; a second one waits. If anything is recorded, it waits for the device and trims the
  // eager window.
  //
  // Errors: kInvalidArgument     as SetPolicy; a symbol that is not observed; options: a number
  //                              below 0, a cost that is not finite, options that Relearn refuses,
  //                              a binding that Warm refuses;
  //         kFailedPrecondition  the program was unregistered, the session is suspended, or a lane
  //                              lent; the stance forbids recording, or the callable mutates static
  //                              inputs and there is no scratch; ranks vote, and this is not a dry
  //                              run;
  //         otherwise the driver's.
  absl::StatusOr<RebucketReport> Rebucket(const Program& program,
                                          int symbol,
                                          const RebucketOptions& options);

  // Gets the observed sizes of a symbol, as DecayingHistogram::ToJson writes them, or replaces
  // them. After that, the half-life is that of the new sizes. A call that runs meanwhile is counted
  // in either the old or the new sizes. Errors: kInvalidArgument as SetPolicy; the symbol is not
  // observed; as DecayingHistogram::Read, or its limit is not the policy's maximum; kUnimplemented
  // another version.
  absl::StatusOr<std::string> GetObserved(const Program& program, int symbol) const;
  absl::Status SetObserved(const Program& program, int symbol, std::string_view json);

 private:
  friend class Session;
  explicit SessionPolicies(internal::SessionParts& parts) : parts_(parts) {}

  internal::SessionParts& parts_;
};

}  // namespace coppice
