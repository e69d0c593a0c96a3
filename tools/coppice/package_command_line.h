// The command line of those parts of `coppice package` that run programs, or make packages.
//
// Threads: one at a time per process.

#pragma once

#include <optional>

#include "tools/package/package_bench.h"
#include "tools/package/package_build.h"
#include "tools/package/package_claim.h"
#include "tools/package/package_run.h"
#include "tools/support/command.h"
#include "tools/support/console.h"

namespace coppice {

struct PackageProgramsOptions {
  PackageRunOptions run;
  PackageClaimOptions claim;
  PackageBuildOptions build;
  PackageBenchOptions bench;
};

// Declares the subcommands of `command`, which write to `options`.
void AddPackagePrograms(Command& command, PackageProgramsOptions& options);

// Runs the one that was parsed; nothing: it was none of these.
std::optional<ExitCode> RunPackagePrograms(const Command& command,
                                           const PackageProgramsOptions& options,
                                           const Console& console);

}  // namespace coppice
