// `coppice package pack`: a folder as the zip that packages are, as what another zip tool wrote.
//
// Threads: one at a time per process.

#pragma once

#include <string>

#include "tools/support/console.h"

namespace coppice {

struct PackagePackOptions {
  std::string folder;
  std::string output;
};

// Writes the folder, with the digests of its files as they are now, and opens what was written.
// Returns kExitUsage for a folder that is no package; kExitOutput if the zip cannot be written.
ExitCode PackagePack(const PackagePackOptions& options, const Console& console);

}  // namespace coppice
