// Kernels of the caller's own as objects of Python, and launches of them.
//
// Threads: the GIL is held; it is released while an image is loaded and while a launch is queued.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "python/core/device.h"

namespace coppice::python {

// A loaded image.
using Kernels = Loaded<coppice_kernels, &coppice_kernels_release>;

// A kernel of an image. It keeps the image.
struct Kernel {
  nb::object kernels;
  coppice_kernel* handle;
  std::string name;
  bool sized;                            // Whether the driver tells of parameters.
  std::vector<int64_t> parameter_bytes;  // Of each, in order; empty if it does not.
};

// Adds Device.load_kernels and Device.launch, so that it comes behind BindDevices.
void BindKernels(nb::module_& module);

}  // namespace coppice::python
