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
  std::unique_ptr<ptx::Program> program;  // Null: none. Not linked.
  std::unique_ptr<package::Cubin> cubin;  // Null: none.
};

struct ImageRules {
  int capability = 90;    // Of the device: 89 is 8.9.
  bool compiled = false;  // Of a KernelImage, its PTX is taken.
  bool cubins = true;     // Off: refuses them.
};

// Reads a KernelImage, a fatbin with PTX, the text of PTX, or a cubin. Of a cubin no kernel can be
// launched; of a fatbin one counts only without PTX. Where it refuses, `log` becomes the reason.
// Results: kInvalidPtx       text that is no PTX, or is for a newer device;
//          kNotSupported     a kernel needs what is not executed;
//          kNoBinaryForGpu   anything else.
CuResult ReadImage(const void* image,
                   const ImageRules& rules,
                   LoadedImage* loaded,
                   std::string* log);

}  // namespace coppice::emulator
