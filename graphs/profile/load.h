// Recording what a profile says. Private to graphs/.
//
// Threads: any; takes the lane's lock for one bucket after another.

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/profile.h"

#include "graphs/parts/session_parts.h"
#include "graphs/profile/profile_document.h"

namespace coppice::internal {

// Errors: as SessionWarming::LoadProfile for its options and the state of the lane.
absl::Status CheckLoad(const SessionParts& parts, const LoadProfileOptions& options);

// Requires: options that were checked. Errors: the driver's.
absl::StatusOr<LoadedProfile> LoadProfile(SessionParts& parts,
                                          const Profile& profile,
                                          const LoadProfileOptions& options);

}  // namespace coppice::internal
