// How a call ran, and why it did not simply replay: two closed enums, counted and printed by name.
//
// Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// What a call did. Every call takes exactly one path and executes its program exactly once.
enum class Path : uint8_t {
  kReplay,   // Launched a recorded graph.
  kRecord,   // Recorded the graph, then launched it.
  kWarmUp,   // Ran the program at the bucket without a graph, and traced its allocations.
  kEager,    // Ran the program at the call's own extents without a graph.
  kInclude,  // Put the program into the caller's own capture, as a child graph.
};
inline constexpr int kPathCount = 5;

// Why a call took another path than kReplay.
enum class Reason : uint8_t {
  kNone,                // It replayed.
  kNewBucket,           // First calls in this bucket: warm-up, then record.
  kStaticInputMoved,    // The bucket is recorded, but for other addresses of its static inputs.
  kOtherLiveRegions,    // The bucket is recorded, but around other live outputs.
  kEvicted,             // The bucket was recorded and evicted.
  kOverLargestBucket,   // An extent is larger than the largest bucket.
  kGraphLimit,          // The program has as many graphs as it may.
  kByteLimit,           // The plan does not fit the window or the device.
  kCaptureInvalidated,  // Somebody broke the recording from outside; it is retried once.
  kNotCapturable,       // The program itself cannot be recorded, or departs from its trace.
  kGateSaysEager,       // Measured: eager is faster in this bucket.
  kUserDisabled,        // The stance, the program or the vote of the ranks forbids graphs.
  kPoisoned,            // A sticky device error came first.
};
inline constexpr int kReasonCount = 13;

// "replay", "record", "warm_up", "eager", "include".
const char* NameOf(Path path);

// The enumerator in snake case without its k: "new_bucket", "over_largest_bucket", ...; "none".
const char* NameOf(Reason reason);

}  // namespace coppice
