// Profiles: a file of the buckets that a session's traffic recorded, so that the next session can
// record them before its traffic comes.
//
//   session->warming().SaveProfile("decoder.profile")        while serving, or at the end
//   session->warming().LoadProfile("decoder.profile", {.bindings = {{weights}}})
//                                                            after Register and Bind
//
// A profile says how often each bucket of each program was launched. It holds no graph, no kernel
// and no address, so loading one can make calls faster, but never wrong. A program is recognised by
// its name, its variant and a digest. The digest of a package's program is that of the package; the
// digest of a callable is that of its spec without policies. The code of a callable is in no
// digest, so give it another variant when it changes a lot. Buckets that a policy no longer has are
// left out. A profile made by `coppice fit` names no device, and fits any device. Its programs are
// recognised by name and digest.
//
// The file is canonical JSON, of schema "coppice-profile" version [1, 0]: equal profiles are equal
// files. A later minor version may have more fields, which are ignored; another major version is
// refused.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace coppice {

class Binding;

// Static inputs to record a program with.
struct ProfileBinding {
  const Binding* binding = nullptr;  // Not null.
  // As WarmOptions::scratch: the static inputs for warm-up runs of a callable that mutates them.
  const Binding* scratch = nullptr;
};

struct LoadProfileOptions {
  // Bindings of the programs that have static inputs or outputs. If a program has several bindings,
  // each bucket is recorded for each of them.
  std::vector<ProfileBinding> bindings;
  int lane = 0;  // Load the profile once for each lane that gets traffic.
  // Graphs to record; 0: as many as the session's limits allow. >= 0.
  int64_t graphs_max = 0;
  // Bytes that the recorded buckets may take, in plan and staging windows and as graphs; 0: as many
  // as the session's budget allows. The limit is checked before each bucket with the bytes in the
  // profile, and after it with the bytes that the session counts. >= 0.
  int64_t bytes_max = 0;
  // Called after each bucket, recorded or not, with (done, total). No lock is held. May be null.
  std::function<void(int64_t done, int64_t total)> progress;
};

// Why a bucket, or all of a profile, was not recorded.
enum class ProfileSkip : uint8_t {
  kDevice,   // The whole profile was made on another device. A profile that `coppice fit` writes
             // names no device.
  kProgram,  // No program of this name and variant is registered.
  kDigest,   // The program has another digest.
  kBinding,  // The program has static inputs or outputs, and no binding was given for it.
  kBucket,   // A symbol's policy has no such bucket, or the bucket's form does not fit the program.
  kLimit,    // The limit of graphs or bytes, of the options or of the session, is reached.
  kFailed,   // Warming it failed.
};
// "device", "program", "digest", "binding", "bucket", "limit", "failed".
const char* NameOf(ProfileSkip reason);

struct SkippedBucket {
  ProfileSkip reason = ProfileSkip::kFailed;
  std::string program{};  // Empty: the whole profile.
  std::string variant{};
  std::vector<int64_t> bucket{};   // Padded extent of each symbol; empty if the reason concerns all
                                   // buckets of the program.
  std::vector<int64_t> scalars{};  // Scalars of the key.
  absl::Status why;                // What is wrong, and what to do. Never OK.
};

struct LoadedProfile {
  int64_t recorded = 0;  // Graphs that loading recorded and that still exist.
  int64_t present = 0;   // Graphs that existed before.
  std::vector<SkippedBucket> skipped{};
};

}  // namespace coppice
