// Policies as JSON, which `coppice tune` writes and programs that pad read.
//
//   {"version": 1, "buckets": [1, 2, 4, 64]}                    a list; the maximum is its last
//   {"version": 1, "ladder": "pow2", "maximum": 64}             a spelling of PaddingPolicy::Parse
//   {"version": 1, "buckets": [8, 64],
//    "guard": {"max_ratio": "2", "min_replay_size": 4, "lower_bounds": [1, 16]},
//    "learned": {"waste_pct": "5.31", "mass": "12340", "limit": 64}}
//
// Fractions are strings, so that they keep every bit. Other fields must begin with "x-".
//
// Units: as PaddingPolicy's. Threads: pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "coppice/padding/padding_policy.h"

namespace coppice {

// The version that is written, and the only one that is read.
inline constexpr int64_t kPolicyDocumentVersion = 1;

// What a policy was learned from.
struct LearnedFrom {
  double waste_pct = 0;  // Expected waste for the same traffic. >= 0.
  double mass = 0;       // Calls. >= 0.
  int64_t limit = 0;     // The largest size that was asked for. >= 1.

  friend bool operator==(const LearnedFrom&, const LearnedFrom&) = default;
};

struct PolicyDocument {
  PaddingPolicy policy;
  std::optional<LearnedFrom> learned;
};

// Reads a document; `where` names it in errors. `maximum`, unless it is 0, is the maximum if the
// document gives none; a document that gives another one is an error. Errors: kInvalidArgument it
// is no such document (the message has the place in it); kUnimplemented it has another version.
absl::StatusOr<PolicyDocument> ReadPolicyDocument(std::string_view text,
                                                  const std::string& where,
                                                  int64_t maximum = 0);

// The document on one line, which ReadPolicyDocument reads back as the same. A ladder with a name
// is written by its name, a list with its buckets.
std::string WritePolicyDocument(const PolicyDocument& document);

}  // namespace coppice
