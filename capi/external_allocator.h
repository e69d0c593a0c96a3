// The allocator that other libraries are pointed at. Private to capi/.
//
// Threads: any.

#pragma once

#include "capi/context.h"

namespace coppice::capi {

// Counts the blocks of a run whose callable has returned.
void CountLeftBlocks(const coppice_context& run);

}  // namespace coppice::capi
