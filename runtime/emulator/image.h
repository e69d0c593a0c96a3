// What an image holds that a library is loaded from.
//
// Threads: any thread.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/kernel_code.h"
#include "runtime/emulator/ptx/program.h"

namespace coppice::emulator {

struct LoadedImage {
  std::vector<KernelCode> kernels;
  std::unique_ptr<ptx::Program> program;  // Null: host code. Not linked.
};

// Reads a KernelImage, a fatbin with PTX or the text of PTX, for a device of `capability`: 89 is
// 8.9. `compiled`: of a KernelImage, the PTX. Where it refuses, `log` becomes the reason.
// Results: kInvalidPtx       text that is no PTX, or is for a newer device;
//          kNotSupported     a kernel needs what is not executed;
//          kNoBinaryForGpu   anything else.
CuResult ReadImage(
    const void* image, int capability, bool compiled, LoadedImage* loaded, std::string* log);

}  // namespace coppice::emulator
