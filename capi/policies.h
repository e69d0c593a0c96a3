// Padding policies and claims as a C caller says them. Private to capi/.
//
// Threads: pure functions.

#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "coppice/base/padding_claim.h"
#include "coppice/coppice.h"
#include "coppice/padding/joint_policy.h"
#include "coppice/padding/padding_policy.h"

namespace coppice::capi {

// Errors: kInvalidArgument, as coppice_policy says what a text may be.
absl::StatusOr<PaddingPolicy> PolicyOf(const coppice_policy& policy);
// The same, as coppice_joint_policy says it.
absl::StatusOr<JointPolicy> PolicyOf(const coppice_joint_policy& policy);

// The two symbols of a joint policy, by name. Errors: kInvalidArgument a name is missing.
absl::StatusOr<std::pair<std::string, std::string>> SymbolsOf(const coppice_joint_policy& policy);

// Nothing for COPPICE_PADDING_NO_CLAIM. Errors: kInvalidArgument no such padding.
absl::StatusOr<std::optional<PaddingClaim>> ClaimOf(const coppice_claim& claim);

}  // namespace coppice::capi
