// Pools of memory that is allocated and freed in the order of streams.
//
// A pool of the emulator keeps nothing: what is freed goes back to the device when its stream comes
// to that point, so that whoever uses it behind that faults, and so does who uses it before the
// stream comes to its allocation, as far as that is seen.
//
// Threads: under the emulator's mutex.

#pragma once

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulated_cuda/client_entries.h"

namespace coppice::emulated_cuda {

// The pool that memory at `start` was allocated from, or null.
MemPool PoolOf(CuDeviceAddress start);

}  // namespace coppice::emulated_cuda
