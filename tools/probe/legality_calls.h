// The calls of the legality table, on objects that take no part in the capture: the conformance
// suite asks about those that do.
//
// Threads: stateless.

#pragma once

#include <vector>

#include "coppice/runtime/driver.h"

#include "tools/probe/legality_scene.h"

namespace coppice {

struct LegalityCall {
  int entry = 0;                                     // Index for DriverEntryAt().
  CuResult (*call)(LegalityScene& scene) = nullptr;  // Once, on a scene whose capture has begun.
};

// In the order of the driver's entries: every one but cuInit, which comes before anything else, and
// cuDevicePrimaryCtxRelease, which takes the context from the capture.
const std::vector<LegalityCall>& LegalityCalls();

}  // namespace coppice
