// `coppice package`: what a kernel package holds, and what is wrong with it.
//
// Nothing of a package is loaded or run, and no driver is asked.
//
// Units: bytes. Threads: one at a time per process.

#pragma once

#include <string>
#include <vector>

#include "tools/support/console.h"

namespace coppice {

struct PackageOptions {
  std::string path;                       // A folder or a zip file.
  std::vector<std::string> trusted_keys;  // PEM files; not empty: one of them signed it.
  bool json = false;
};

// Prints what the linter finds, one line each, as package::ToText has them. Returns kExitMismatch
// if it finds something; kExitUsage for a package that cannot be read, or has a damaged file.
ExitCode PackageLint(const PackageOptions& options, const Console& console);

// Prints programs with their symbols, buffers and peak of live bytes, kernels with their targets,
// constants and files. Returns kExitUsage as PackageLint.
ExitCode PackageInspect(const PackageOptions& options, const Console& console);

}  // namespace coppice
