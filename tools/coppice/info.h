// `coppice info`: what this build and this machine offer.
//
// Threads: one at a time per process.

#pragma once

#include "tools/support/console.h"
#include "tools/support/device.h"

namespace coppice {

struct InfoOptions {
  DeviceChoice device = DeviceChoice::kAuto;
  bool json = false;
};

// Prints driver, device, build and, on the host, why CUDA was not taken.
ExitCode InfoCommand(const InfoOptions& options, const Console& console);

}  // namespace coppice
