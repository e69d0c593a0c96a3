// The ladder of a symbol: what its extents are padded to at the moment, and what is known of them.
// Private to graphs/. Symbols in a joint policy have one that pads no call.
//
// A program's spec says what it begins with. Calls read it under their lane's lock, and whoever
// replaces a part of it holds the locks of all lanes, so that a call sees one policy from its
// padding to its launch.
//
// Units: elements. Threads: as above; the observer by itself from any.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/padding/decaying_histogram.h"
#include "coppice/padding/padding_policy.h"

namespace coppice::internal {

struct Ladder {
  PaddingPolicy policy;
  std::unique_ptr<DecayingHistogram> observer;  // Null: nobody counts.

  // Of SessionPolicies::Rebucket, which one thread at a time runs.
  int64_t learned_at = 0;           // Calls observed when it was due last.
  std::deque<int64_t> recorded_ns;  // When it recorded its last graphs.
};

// The ladder that a valid spec begins with. Allocates.
Ladder LadderOf(const SymbolSpec& symbol);

// Whether a program takes what a symbol's policy pads to. `where` begins the message. Errors:
// kInvalidArgument a bucket outside the symbol's bounds, by name.
absl::Status CheckBuckets(const char* where,
                          const ProgramSpec& spec,
                          const SymbolSpec& symbol,
                          const PaddingPolicy& policy);
// The same of a symbol in a joint policy, as far as its own extents go.
absl::Status CheckJointBuckets(const ProgramSpec& spec, int symbol, const JointSpec& joint);

}  // namespace coppice::internal
