// How a call ran, and why it did not replay: two enums, counted and printed by name.
//
// Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// What a call did. Every call runs in exactly one way and executes its program exactly once.
enum class RunKind : uint8_t {
  kReplay,   // Launched a recorded graph.
  kRecord,   // Recorded the graph, then launched it.
  kWarmUp,   // Ran the program at the bucket without a graph, and noted its allocations.
  kEager,    // Ran the program at the call's own extents without a graph.
  kInclude,  // Put the program into the caller's own capture, as a child graph.
};
inline constexpr int kRunKindCount = 5;

// Why a call did not replay.
enum class Reason : uint8_t {
  kNone,                // It replayed.
  kNewBucket,           // First calls in this bucket: warm-up, then record.
  kStaticInputMoved,    // The bucket is recorded, but with other addresses of its static inputs.
  kOtherLiveRegions,    // The bucket is recorded, but around other live outputs.
  kEvicted,             // The bucket was recorded and evicted.
  kOverLargestBucket,   // An extent, or a pair of extents that are padded jointly, is in no bucket.
  kUnpaddedExtent,      // An expression of extents has no value in the bucket, or a smaller one.
  kGraphLimit,          // The program has as many graphs as its limit allows.
  kByteLimit,           // There is no room for the plan, or for the staged inputs at the bucket.
  kCaptureInvalidated,  // Other code broke the recording; it is retried once.
  kNotCapturable,       // The program cannot be recorded, or its allocations differ from those of
                        // the warm-up.
  kGateSaysEager,       // Measured: eager is faster in this bucket.
  kUserDisabled,        // The stance, the program or the vote of the ranks forbids graphs.
  kPaddedTooMuch,  // A guard of a policy keeps an extent, or a pair of extents, out of its bucket.
};
inline constexpr int kReasonCount = 14;

// "replay", "record", "warm_up", "eager", "include".
const char* NameOf(RunKind kind);

// The enumerator in snake case without its k: "new_bucket", "over_largest_bucket", ...; "none".
const char* NameOf(Reason reason);

}  // namespace coppice
