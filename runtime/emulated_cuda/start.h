// The emulator behind the library: one per process, which the first cuInit makes.
//
// What the environment says of it:
//   COPPICE_EMULATED_SEED       draws the order of work (1)
//   COPPICE_EMULATED_DEVICES    how many there are (1)
//   COPPICE_EMULATED_MEMORY     MiB of memory of each, a multiple of 2 (4096)
//   COPPICE_EMULATED_STRICT     off: refuses and reports nothing that a GPU may tolerate (on)
//   CUDA_FORCE_PTX_JIT          0: loads cubins, whose kernels it refuses when they are launched;
//                               else it refuses cubins when they are loaded (1)
//
// What it finds wrong is printed to standard error when the process ends.
//
// Threads: any thread.

#pragma once

#include "coppice/runtime/driver.h"

namespace coppice::emulated_cuda {

// The driver's table; null before the emulator was made.
const DriverTable* FindTable();

// Makes the emulator, unless there is one.
// Results: kInvalidValue    the environment says what cannot be, as standard error tells;
//          kNotInitialized  the process was forked from one that has an emulator;
//          kOutOfMemory     the host refuses the memory.
CuResult Start();

}  // namespace coppice::emulated_cuda
