// Uses of virtual memory that a driver refuses, or that one would like it to: what it answers.
//
// Threads: one at a time.

#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"

#include "tools/probe/virtual_range.h"

namespace coppice {

struct VmmMisuse {
  static constexpr size_t kGranules = 8;  // That `range` has.

  const char* name;
  // Sets the scene in `range`, which is fresh, and returns what the misuse returned. `granule` is
  // the mapping granularity in bytes. Errors: of the set-up.
  absl::StatusOr<CuResult> (*attempt)(VirtualRange& range, size_t granule);
};

std::span<const VmmMisuse> VmmMisuses();

}  // namespace coppice
