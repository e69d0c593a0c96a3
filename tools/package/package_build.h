// `coppice package build`: a kernel package from CUDA source and a manifest without images.
//
// nvcc compiles the source once per architecture. Of the manifest, a kernel's targets are what all
// architectures share (symbol, block, shared_bytes, values); each becomes one target per image.
// What follows from the images is filled in: modules, files, digests, and the bytes of parameters
// where the manifest has none.
//
// Units: bytes. Threads: one at a time per process.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/support/console.h"

namespace coppice {

struct BuildArchitecture {
  std::string name;    // "90a"
  bool cubin = false;  // Else PTX.
};

struct PackageBuildOptions {
  std::string source;    // CUDA C++.
  std::string manifest;  // JSON, of any layout.
  std::string output;    // A zip file.
  std::vector<BuildArchitecture> architectures = {{"80", false}, {"90a", true}};
  std::string nvcc = "nvcc";
  std::vector<std::string> flags;  // More arguments for nvcc.
  bool json = false;
};

// "80,90a,86:cubin": PTX below 90 and cubins from there on, if nothing else is said. Errors:
// kInvalidArgument quotes the text.
absl::StatusOr<std::vector<BuildArchitecture>> ParseArchitectures(const std::string& text);

// Writes the package, and prints its modules and what the linter finds. Returns kExitMismatch if
// that has an error, the package being written; kExitUsage for a source that does not compile and a
// manifest that does not fit; kExitOutput if the package cannot be written.
ExitCode PackageBuild(const PackageBuildOptions& options, const Console& console);

}  // namespace coppice
