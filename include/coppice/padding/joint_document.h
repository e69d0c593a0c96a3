// Joint policies as JSON; for policies of one symbol see policy_document.h.
//
//   {"version": 1, "buckets": [[1, 1024], [2, 256], [4, 1024]]}   a list; its limit is [4, 1024]
//   {"version": 1, "grid": "pow2/linear:64", "limit": [4, 1024]}  a spelling of JointPolicy::Parse
//   {"version": 1, "buckets": [[4, 256], [1, 1024]], "budget": 1024,
//    "ordered": true, "guard": {"max_ratio": "2", "min_replay_elements": 64},
//    "learned": {"waste_pct": "7.31", "mass": "2778"}}
//
// If a list has no limit, it is the largest a and the largest b of its buckets. With "ordered",
// buckets are preferred in the order of the list. Fractions are strings, so that they keep every
// bit. Other fields must begin with "x-".
//
// Units: as JointPolicy's. Threads: pure functions.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "coppice/padding/joint_policy.h"

namespace coppice {

// The traffic that a joint policy was learned from.
struct JointLearnedFrom {
  double waste_pct = 0;  // Expected waste for the same traffic. >= 0, finite.
  double mass = 0;       // Calls. >= 0, finite.

  friend bool operator==(const JointLearnedFrom&, const JointLearnedFrom&) = default;
};

struct JointDocument {
  JointPolicy policy;
  std::optional<JointLearnedFrom> learned;
};

// Whether the fields of `text` are those of a joint policy's document; it may still have errors.
// Give other texts to ReadPolicyDocument. Cost: parses it.
bool IsJointDocument(std::string_view text);

// Reads a document; `where` names it in errors. Errors: kInvalidArgument the text is not such a
// document (the message has the place of the error); kUnimplemented it has another version.
absl::StatusOr<JointDocument> ReadJointDocument(std::string_view text, const std::string& where);

// The document on one line. ReadJointDocument reads an equal document from it.
std::string WriteJointDocument(const JointDocument& document);

}  // namespace coppice
