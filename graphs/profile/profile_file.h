// The file of a profile. Private to graphs/.
//
// Units: bytes. Threads: any.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "graphs/profile/profile_document.h"

namespace coppice::internal {

// Puts a file of this text to `path`, in place of one that is there: whoever reads the path finds
// either, and never a part. Errors: by errno; the file that was there is still there.
absl::Status WriteWhole(const std::string& path, std::string_view text);

// Errors: by errno, a file that cannot be read; kInvalidArgument one that is no regular file or
// larger than kProfileBytesMax; otherwise as ParseProfile.
absl::StatusOr<Profile> ReadProfile(const std::string& path);

}  // namespace coppice::internal
