// The command line of `coppice package`.
//
// Threads: one at a time per process.

#pragma once

#include "tools/package/package.h"
#include "tools/package/package_bench.h"
#include "tools/package/package_build.h"
#include "tools/package/package_claim.h"
#include "tools/package/package_pack.h"
#include "tools/package/package_run.h"
#include "tools/package/package_sign.h"
#include "tools/support/command.h"
#include "tools/support/console.h"

namespace coppice {

struct PackageCommandOptions {
  PackageOptions look;  // Of lint and inspect.
  PackageRunOptions run;
  PackageClaimOptions claim;
  PackageBuildOptions build;
  PackageBenchOptions bench;
  PackageSignOptions sign;
  PackagePackOptions pack;
};

// Declares the subcommands of `command`, which write to `options`.
void AddPackage(Command& command, PackageCommandOptions& options);

// Runs the one that was parsed.
ExitCode RunPackage(const Command& command,
                    const PackageCommandOptions& options,
                    const Console& console);

}  // namespace coppice
