// Profiles: what a session's traffic recorded, kept in a file, for the next session to record it
// before traffic comes.
//
//   session->SaveProfile("decoder.profile")     while serving, or at the end
//   session->LoadProfile("decoder.profile", {.bindings = {{weights}}})     after Register and Bind
//
// A profile says which buckets of which programs were launched how often; it holds no graph, no
// kernel and no address, so that loading one can make calls faster, never wrong. A program is
// recognised by its name, its variant and a digest: of a package's program that of the package, of
// a callable that of its spec without policies. The code of a callable is in no digest: give it
// another variant when it changes much. Buckets come from policies, so that those which a policy
// has no more are left out.
//
// The file is canonical JSON, of schema "coppice-profile" version [1, 0]: equal profiles are equal
// files. A later minor version may have fields that are ignored, another major one is refused.
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
  // As WarmOptions::scratch: what a callable that mutates static inputs warms up on.
  const Binding* scratch = nullptr;
};

struct LoadProfileOptions {
  // Of programs that bind something; of one with several, each bucket is recorded for each.
  std::vector<ProfileBinding> bindings;
  int lane = 0;  // Load once for each lane that traffic comes to.
  // Graphs to record; 0: as many as the session's limits allow. >= 0.
  int64_t graphs_max = 0;
  // Bytes that what is recorded may take, in plan and staging windows and as graphs; 0: as many as
  // the session's budget allows. Held to what the profile says of each bucket before, and to the
  // session's books after it. >= 0.
  int64_t bytes_max = 0;
  // Called behind each bucket with (done, total), recorded or not, with no lock held; null: nobody.
  std::function<void(int64_t done, int64_t total)> progress;
};

// Why something of a profile was not recorded.
enum class ProfileSkip : uint8_t {
  kDevice,   // It was made on another device: all of it.
  kProgram,  // No program of this name and variant is registered.
  kDigest,   // It is another program.
  kBinding,  // The program binds something, and no binding of it was given.
  kBucket,   // A symbol's policy has no such bucket, or the program none of this form.
  kLimit,    // The options' graphs or bytes, or the session's.
  kFailed,   // Warming it failed.
};
// "device", "program", "digest", "binding", "bucket", "limit", "failed".
const char* NameOf(ProfileSkip reason);

struct SkippedBucket {
  ProfileSkip reason = ProfileSkip::kFailed;
  std::string program{};  // Empty: all of the profile.
  std::string variant{};
  std::vector<int64_t> bucket{};   // Padded extent of each symbol; empty with reasons that concern
                                   // all buckets of the program.
  std::vector<int64_t> scalars{};  // Of the key.
  absl::Status why;                // Never OK: what, and what to do.
};

struct LoadedProfile {
  int64_t recorded = 0;  // Graphs that it recorded and that are there.
  int64_t present = 0;   // That were there before.
  std::vector<SkippedBucket> skipped{};
};

}  // namespace coppice
