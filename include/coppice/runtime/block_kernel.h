// Block-style kernels: one source for the GPU (nvcc, CUB) and for the emulator (g++).
//
// A kernel is written for a whole block. Per-thread code goes into ForEach; a value that lives
// across two ForEach calls is a Register; threads meet only in the collectives and in Sync.
//
//   struct ScaleParams { const float* x; float* y; int64_t count; float factor; };
//   COPPICE_KERNEL(Scale, 256, ScaleParams) {
//     block.ForEach([&](int thread) {
//       const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
//       if (i < params.count) params.y[i] = params.factor * params.x[i];
//     });
//   }
//   COPPICE_KERNEL_IMAGE(scale_image, &ScaleHostKernel)      // Once per file, after the kernels.
//
// On the device ForEach runs its body for the calling thread, a Register is a register and the
// collectives are CUB's. On the host ForEach loops over the threads, a Register is an array and the
// collectives are serial: results do not depend on the schedule.
//
// Rules: a body names its parameters `params` and its block `block`; code outside ForEach is
// uniform (the same for all threads) and must not write memory; kernels throw nothing and hold
// nothing that needs a destructor. The build compiles a file with coppice_kernels() (CMake).
//
// Threads: a kernel file is compiled twice; nothing here keeps state.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"
