// Work that a call submits to a stream, or to its capture.
//
// Threads: under the emulator's mutex.

#pragma once

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/work.h"

namespace coppice::emulator {

// Results: those of UseStream, and of what makes work of the parameters (arguments.h).
CuResult SubmitWork(CuStream stream, Work work);
CuResult SubmitCopy(CuStream stream, const CuMemcpyParams& params);
CuResult SubmitFill(CuStream stream, const CuMemsetNodeParams& params);
CuResult SubmitKernel(CuStream stream,
                      const CuKernelNodeParams& params,
                      const LaunchAttributes& attributes);

}  // namespace coppice::emulator
