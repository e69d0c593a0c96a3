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

// The traffic that a policy was learned from.
struct LearnedFrom {
  double waste_pct = 0;  // Expected waste for the same traffic. >= 0.
  double mass = 0;       // Calls. >= 0.
  int64_t limit = 0;     // The limit that was given to LearnBuckets. >= 1.

  friend bool operator==(const LearnedFrom&, const LearnedFrom&) = default;
};

struct PolicyDocument {
  PaddingPolicy policy;
  std::optional<LearnedFrom> learned;
};

// Reads a document; `where` names it in errors. If `maximum` is not 0, a document without a maximum
// gets this one, and a document with another maximum is an error. Errors: kInvalidArgument the text
// is not such a document (the message has the place of the error); kUnimplemented it has another
// version.
absl::StatusOr<PolicyDocument> ReadPolicyDocument(std::string_view text,
                                                  const std::string& where,
                                                  int64_t maximum = 0);

// The document on one line. ReadPolicyDocument reads an equal document from it. A ladder with a
// name is written as its name, and a list as its buckets.
std::string WritePolicyDocument(const PolicyDocument& document);

}  // namespace coppice
