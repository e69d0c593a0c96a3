// A step of many small kernels: y = x + 1, again and again, each kernel after the one before.
//
// Units: plain numbers. Threads: stateless.

#pragma once

#include <cstdint>

#include "coppice/graphs/program.h"
#include "coppice/runtime/kernel_library.h"

namespace coppice {

extern const KernelImage bench_image;  // bench.cu; it has the kernel "Increment".

// A callable that sets its output 0 to its input 0, both dense floats, plus `kernels`, by as many
// launches. `kernel` is "Increment", whose library must outlive the callable.
Callable IncrementChain(Kernel kernel, int64_t kernels);

}  // namespace coppice
