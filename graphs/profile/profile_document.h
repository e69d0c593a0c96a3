// A profile as a value, and as text. Private to graphs/.
//
// Units: bytes. Threads: pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "graphs/parts/carried_buckets.h"

namespace coppice::internal {

inline constexpr int64_t kProfileBytesMax = int64_t{64} << 20;

struct ProfilePolicy {
  std::string symbol;
  std::string buckets;  // Its policy's name, be that a joint one.
  int64_t maximum = 0;

  friend bool operator==(const ProfilePolicy&, const ProfilePolicy&) = default;
};

struct ProfileProgram {
  std::string name;
  std::string variant;
  std::string digest;                                         // As DigestOf has it.
  std::vector<ProfilePolicy> policies;                        // Per symbol.
  std::vector<std::pair<ProfileKey, BucketFigures>> buckets;  // By key.

  friend bool operator==(const ProfileProgram&, const ProfileProgram&) = default;
};

struct ProfileDevice {
  std::string name;
  int64_t capability_major = 0;
  int64_t capability_minor = 0;
  std::string driver;  // "cuda" or "emulator".

  friend bool operator==(const ProfileDevice&, const ProfileDevice&) = default;
};

struct Profile {
  std::string library;                   // Version of the one that wrote it.
  std::optional<ProfileDevice> device;   // Nothing: made ahead of any.
  std::vector<ProfileProgram> programs;  // By name and variant.

  friend bool operator==(const Profile&, const Profile&) = default;
};

// Canonical JSON.
std::string TextOf(const Profile& profile);

// Reads all of `text`, of any layout; `name` is for messages. Errors: kInvalidArgument with the
// JSON pointer, or the offset where it is no JSON; kUnimplemented another major version.
absl::StatusOr<Profile> ParseProfile(std::string_view text, const std::string& name);

}  // namespace coppice::internal
