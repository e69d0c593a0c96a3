// `coppice package run`: a program of a kernel package on arrays in files, through a session.
//
// On the emulator every access of every kernel is looked at. With --verify each call is compared
// with a run of its own size without graphs, and with --poison once more for each poison.
//
// Units: elements. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coppice/base/padding_claim.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/runtime/emulator.h"

#include "tools/package/call_set.h"
#include "tools/package/package_device.h"
#include "tools/support/console.h"

namespace coppice {

struct PackageRunOptions {
  std::string package;
  std::string program;  // Empty: the package's entry.
  CallSetTexts sets;
  std::vector<std::string> statics;       // As tools/package/given_value.h has them.
  std::vector<std::string> policies;      // "n=pow2:64".
  std::vector<std::string> claims;        // "n=any".
  std::string constants;                  // A safetensors file, or empty.
  std::vector<std::string> trusted_keys;  // PEM files; not empty: one of them signed it.
  std::string output_dir;                 // Empty: outputs are not written.
  std::string case_path;                  // Of what the calls were given; empty: none.
  int64_t calls = 2;                      // Of each set.
  bool verify = false;
  bool poison = false;
  DeviceChoice device = DeviceChoice::kAuto;
  uint64_t seed = 1;
  Emulator::Strictness checks = AllKernelChecks();
  bool json = false;
};

// Runs the program, writes what it made, and prints how each call ran. Returns kExitMismatch if a
// call differs from its reference; kExitDevice if the driver failed or a kernel did what it may
// not; kExitUsage for a package, a file or an option that does not fit; kExitOutput if a file
// cannot be written.
ExitCode PackageRun(const PackageRunOptions& options, const Console& console);

// What symbols claim, in place of the package: none of one that is never padded.
using GivenClaims = std::map<std::string, std::optional<PaddingClaim>>;

// "NAME=CLAIM", as ParseClaim has them. Errors: kInvalidArgument quotes the text.
absl::StatusOr<GivenClaims> ParseClaims(const package::Program& program,
                                        const std::vector<std::string>& texts);

// "NAME=SPELLING" or "NAME=SPELLING:MAXIMUM", as "n=pow2:64" or "n=1,2,4,8"; and, as coppice.load
// begins, powers of two for each symbol with a claim and neither a policy nor buckets, if its
// maximum is at most 65,536 and it is no multiple. Errors: kInvalidArgument quotes the text.
absl::StatusOr<std::map<std::string, PaddingPolicy>> ParsePolicies(
    const package::Program& program,
    const std::vector<std::string>& texts,
    const GivenClaims& claims);

}  // namespace coppice
