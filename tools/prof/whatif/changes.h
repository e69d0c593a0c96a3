// What `coppice prof whatif` changes about a session before its calls are made again.
//
// Units: bytes, seconds. Threads: plain values and pure functions, apart from policies in files.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/graphs/session_options.h"
#include "coppice/padding/padding_policy.h"

#include "tools/prof/whatif/traced_calls.h"

namespace coppice {

// Everything as it was, unless it is said here.
struct WhatIfChanges {
  std::vector<std::string> drops;     // "decode:8", "mix:8x128", "mix.rows:8": buckets that go.
  std::vector<std::string> policies;  // "pow2", "decode=8,64", "mix.rows=rows.json".
  int64_t budget_bytes = 0;           // 0: as it was.
  int64_t lanes = 0;                  // 0: as it was.
  int64_t suspend_idle_ns = 0;        // Suspended when no call comes for as long; 0: as it was.
  bool copy_outputs = false;          // Outputs are copied out of the plan window.

  bool empty() const { return *this == WhatIfChanges(); }
  friend bool operator==(const WhatIfChanges&, const WhatIfChanges&) = default;
};

// As options: "--drop decode:8 --lanes 2"; "nothing".
std::string Describe(const WhatIfChanges& changes);

// How a session is to be made.
struct ChangedMaking {
  SessionOptions options;
  std::vector<ProgramSpec> specs;              // One per program of the trace.
  std::set<std::pair<int, int>> new_policies;  // Programs, and their symbols, that pad anew.
  // Buckets that are gone from all policies that a symbol of a program has, one after the other.
  std::map<std::pair<int, int>, std::vector<int64_t>> dropped;
};

// Whether the policy pads to it.
bool IsBucketOf(const PaddingPolicy& policy, int64_t bucket);

// The policy without those of these buckets that it has. Errors: kInvalidArgument  none is left; an
// `exact` one of many buckets.
absl::StatusOr<PaddingPolicy> WithoutBuckets(PaddingPolicy policy, std::span<const int64_t> gone);

// The session of the trace, changed; `options` and `specs` are what it was made with.
//
// Errors: kInvalidArgument  no such program, symbol or bucket, with those that there are; a policy
//                           that is none, or that nothing takes; a bucket of several sizes that are
//                           padded each by itself, or without which some policy has none.
absl::StatusOr<ChangedMaking> ApplyChanges(const TracedCalls& traced,
                                           const SessionOptions& options,
                                           const std::vector<ProgramSpec>& specs,
                                           const WhatIfChanges& changes);

}  // namespace coppice
