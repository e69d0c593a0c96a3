// Padding policies and claims as a C caller says them. Private to capi/.
//
// Threads: pure functions.

#pragma once

#include <optional>

#include "absl/status/statusor.h"

#include "coppice/base/padding_claim.h"
#include "coppice/coppice.h"
#include "coppice/padding/padding_policy.h"

namespace coppice::capi {

// Errors: kInvalidArgument, as coppice_policy says what a text may be.
absl::StatusOr<PaddingPolicy> PolicyOf(const coppice_policy& policy);

// Nothing for COPPICE_PADDING_NO_CLAIM. Errors: kInvalidArgument no such padding.
absl::StatusOr<std::optional<PaddingClaim>> ClaimOf(const coppice_claim& claim);

}  // namespace coppice::capi
