// `coppice package bench`: what a kernel package costs the host, before and while it runs.
//
// Times are medians of host time. Of what calls the driver, the time inside it is told apart: on
// the emulator that is the emulator's, and says nothing of a GPU's.
//
// Units: microseconds. Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/support/console.h"
#include "tools/support/device.h"

namespace coppice {

struct PackageBenchOptions {
  std::string package;
  std::string program;                // Empty: the package's entry.
  std::vector<std::string> inputs;    // As of run; what is not given is zeros.
  std::vector<std::string> statics;   // As of run.
  std::vector<std::string> policies;  // As of run.
  std::string constants;              // A safetensors file, or empty.
  int64_t repetitions = 11;
  int64_t buckets_max = 64;  // Recorded at most.
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// Opens, loads and registers the package over and over, records its buckets, and replays one.
// Returns as PackageRun.
ExitCode PackageBench(const PackageBenchOptions& options, const Console& console);

}  // namespace coppice
