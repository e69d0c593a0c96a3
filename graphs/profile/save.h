// What a session's traffic left, as a profile. Private to graphs/.
//
// Threads: any; takes one lane's lock after another.

#pragma once

#include "absl/status/statusor.h"

#include "graphs/parts/session_parts.h"
#include "graphs/profile/profile_document.h"

namespace coppice::internal {

// The device that the session runs on. Errors: the driver's.
absl::StatusOr<ProfileDevice> DeviceOf(const SessionParts& parts);

// The policies of a program's symbols, under a lane's lock.
std::vector<ProfilePolicy> PoliciesOf(const Program& program);

// The scalars of a bucket, in spec order; 0 for those that are not part of the key.
std::vector<int64_t> ScalarsOf(const Program& program, const ProfileKey& key);

// Errors: the driver's.
absl::StatusOr<Profile> ProfileOf(const SessionParts& parts);

}  // namespace coppice::internal
