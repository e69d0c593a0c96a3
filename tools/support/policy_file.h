// Padding policies out of files, as `coppice tune` writes them, where options take policies.
//
// Units: elements. Threads: pure functions, apart from the file system.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "coppice/padding/padding_policy.h"

namespace coppice {

// Whether an option's text names a file and spells no policy: it ends with .json.
bool IsPolicyFile(const std::string& text);

// The policy in the file at `path`, of whatever maximum it has; `maximum` is that of a ladder that
// gives none, or 0. Errors: kInvalidArgument  no such file, or no policy in it, with the place.
absl::StatusOr<PaddingPolicy> ReadPolicyFile(const std::string& path, int64_t maximum = 0);

// The policy up to another maximum, which becomes its last bucket; larger buckets are gone. Errors:
// kInvalidArgument  `maximum` is no policy's, or a guard has bounds by bucket.
absl::StatusOr<PaddingPolicy> FitPolicy(const PaddingPolicy& policy, int64_t maximum);

// What an option's text says of a symbol of this maximum: a spelling of PaddingPolicy::Parse, or a
// file. A list loses the buckets above the maximum, so that programs of several maxima may share
// one. Errors: kInvalidArgument  as PaddingPolicy::Parse, ReadPolicyFile and FitPolicy.
absl::StatusOr<PaddingPolicy> ParseFittingPolicy(const std::string& text, int64_t maximum);

}  // namespace coppice
