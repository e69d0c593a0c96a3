// `coppice package sign`: a signature of the manifest, and by its digests of every file.
//
// Threads: one at a time per process.

#pragma once

#include <string>

#include "tools/support/console.h"

namespace coppice {

struct PackageSignOptions {
  std::string package;
  std::string key;  // A PEM file.
};

// Checks every byte of the package and writes its signature into it, in place of one that is there.
// Returns kExitUsage for a package or a key that cannot be read; kExitOutput if the package cannot
// be written, which is then as it was.
ExitCode PackageSign(const PackageSignOptions& options, const Console& console);

}  // namespace coppice
