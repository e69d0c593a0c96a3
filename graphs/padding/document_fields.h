// What the documents of policies and of joint policies have in common. Private to graphs/padding.
//
// Threads: pure functions.

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"

#include "base/json_document.h"

namespace coppice::internal {

// Errors: kInvalidArgument no object; kUnimplemented another version than kPolicyDocumentVersion.
absl::Status CheckPolicyVersion(Json root);

// A finite fraction of 0 or more. Errors: kInvalidArgument with its place.
absl::StatusOr<double> AmountOf(Json value);

// What the policy itself refuses is wrong with this value.
template <typename Policy>
absl::StatusOr<Policy> At(Json value, absl::StatusOr<Policy> policy) {
  if (!policy.ok()) return value.Error("{}", MessageOf(policy.status()));
  return policy;
}

}  // namespace coppice::internal
