// `coppice package claim`: what padding a package's program stands, found out by trying.
//
// Of each symbol, kinds of padding are tried, the strongest first: any bits, any bits in floats
// alone, if other inputs are padded, too, finite values, the fill. For pairs of sizes that a seed
// draws, the program runs at the smaller one by itself, and padded to the larger one with each
// poison of that kind. Floats without a given range are drawn from [-1, 1), [-2, -1) and [1, 2) in
// turn. What is found held at those sizes; no finite number of them proves a claim.
//
// Units: elements. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coppice/base/padding_claim.h"

#include "tools/package/package_device.h"
#include "tools/support/console.h"

namespace coppice {

struct PackageClaimOptions {
  std::string package;
  std::string program;               // Empty: the package's entry.
  std::vector<std::string> inputs;   // As tools/package/given_value.h has them, without files.
  std::vector<std::string> statics;  // The same, files as well.
  std::string constants;             // A safetensors file, or empty.
  int64_t pairs = 20;                // Of sizes, per symbol.
  int64_t size_max = 64;             // Sizes are drawn up to this, or the first few that there are.
  Equality tolerance = {.bits = false, .absolute = 1e-5, .relative = 0};
  DeviceChoice device = DeviceChoice::kAuto;
  uint64_t seed = 1;
  bool explain = false;  // Follows padding through kernels, too.
  bool write = false;    // What is found becomes what the package says.
  bool json = false;
};

// "1e-05" or "1e-05:1e-03", absolute and relative. Errors: kInvalidArgument quotes the text.
absl::StatusOr<Equality> ParseTolerance(const std::string& text);

// Prints the strongest claim of each symbol, and where the stronger ones fail. Returns
// kExitMismatch if the package claims more than holds, or claims hold of each symbol and not of all
// at once; otherwise as PackageRun.
ExitCode PackageClaim(const PackageClaimOptions& options, const Console& console);

}  // namespace coppice
