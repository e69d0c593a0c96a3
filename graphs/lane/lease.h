// What reading a lease takes, whoever reads. Private to graphs/.
//
// Threads: as each says.

#pragma once

#include <cstddef>

#include "absl/status/status.h"

#include "coppice/base/tensor.h"
#include "coppice/runtime/driver.h"

#include "graphs/lane/slot.h"

namespace coppice::internal {

// Whether a lease of `slot`, which may be null, can be read on `stream` at all. Without the lane's
// lock. Errors: kFailedPrecondition an empty lease, or its session is gone; kInvalidArgument null
// or the per-thread stream.
absl::Status CheckReader(const Slot* slot, CuStream stream);

// Whether the outputs are there, under the lane's lock. Errors: kFailedPrecondition a later call
// wrote over one, or the lane's memory is away.
absl::Status CheckReadable(const char* where, const Slot& slot);

// Output `index` at the call's real extents. Requires: the slot can be read, and has it.
Tensor OutputOf(const Slot& slot, size_t index);

}  // namespace coppice::internal
