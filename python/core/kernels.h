// Kernels of the caller's own as objects of Python, and launches of them.
//
// Threads: the GIL is held; it is released while an image is loaded and while a launch is queued.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "coppice/coppice.h"

#include "python/core/gil.h"

namespace coppice::python {

namespace nb = nanobind;

// A loaded image.
class Kernels {
 public:
  Kernels(coppice_kernels* handle, nb::object device)
      : handle_(handle), device_(std::move(device)) {}
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels() { EndHandle<&coppice_kernels_release>(handle_); }

  coppice_kernels* handle() const { return handle_; }
  const nb::object& device() const { return device_; }

 private:
  coppice_kernels* handle_;
  nb::object device_;
};

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
