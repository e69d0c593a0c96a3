// The calls of the legality table.
//
// Threads: stateless.

#pragma once

#include <string>
#include <vector>

#include "coppice/runtime/driver.h"

#include "tools/probe/legality_scene.h"

namespace coppice {

struct LegalityCall {
  int entry = 0;          // Index for DriverEntryAt().
  const char* note = "";  // Empty: bystanders only. Else what of the capture the call touches.
  CuResult (*call)(LegalityScene& scene) = nullptr;  // Once, on a scene whose capture has begun.

  // "cuMemAlloc", or "cuStreamQuery(capturing)".
  std::string Name() const;
};

// In the order of the driver's entries, each entry's own row first.
const std::vector<LegalityCall>& LegalityCalls();

// What the table leaves out, and why.
struct UntriedCall {
  std::string name;  // As LegalityCall::Name.
  const char* reason;
};
std::vector<UntriedCall> UntriedCalls();

}  // namespace coppice
