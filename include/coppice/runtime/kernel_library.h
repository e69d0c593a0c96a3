// Loaded kernels: from a KernelImage to launchable functions.
//
// Loading happens once, outside any capture; a launch allocates nothing. A driver that loads lazily
// loads a function no earlier than at its first launch, and a capture may forbid what that takes:
// launch each kernel once before a capture. A session does so for programs, by warming each bucket
// up, and for its own kernels when it is created.
//
// Units: grids count blocks. Threads: immutable once loaded; launches from any thread.

#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_image.h"

namespace coppice {

// A launchable kernel. A plain value; valid while its KernelLibrary lives.
struct Kernel {
  CuFunction function = nullptr;
  unsigned block_threads = 0;
};

class KernelLibrary {
 public:
  // Loads the half of `image` that `driver` understands. `image` must outlive the library.
  // Errors: kUnavailable if the driver is CUDA and the image has no fatbin (build with nvcc).
  static absl::StatusOr<KernelLibrary> Load(const Driver& driver, const KernelImage& image);
  KernelLibrary(KernelLibrary&& other) noexcept
      : driver_(other.driver_),
        image_(other.image_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  KernelLibrary& operator=(KernelLibrary&&) = delete;
  ~KernelLibrary();

  // Finds a kernel by the name given to COPPICE_KERNEL. Errors: kNotFound.
  absl::StatusOr<Kernel> Get(const char* name) const;

 private:
  KernelLibrary(const Driver& driver, const KernelImage& image, CuLibrary handle)
      : driver_(&driver), image_(&image), handle_(handle) {}

  const Driver* driver_;
  const KernelImage* image_;
  CuLibrary handle_;
};

// Launches `kernel` with a parameter struct, which the driver copies before the call returns. Its
// padding is passed as zeros where the compiler can tell what is padding, so that launches with
// equal parameters pass equal bytes. Requires: every grid dimension >= 1. Cost: one driver call; no
// allocation.
template <typename Parameters>
absl::Status Launch(const Driver& driver,
                    const Kernel& kernel,
                    CuStream stream,
                    const Parameters& parameters,
                    unsigned grid_x,
                    unsigned grid_y = 1) {
  const auto launch = [&](const Parameters& copied) {
    void* arguments[] = {const_cast<Parameters*>(&copied)};
    return driver.Call<&DriverTable::LaunchKernel>(
        kernel.function, grid_x, grid_y, 1U, kernel.block_threads, 1U, 1U, 0U, stream,
        static_cast<void**>(arguments), static_cast<void**>(nullptr));
  };
#if __has_builtin(__builtin_clear_padding)
  if constexpr (!std::has_unique_object_representations_v<Parameters>) {
    Parameters clear = parameters;
    __builtin_clear_padding(&clear);
    return launch(clear);
  }
#endif
  return launch(parameters);
}

}  // namespace coppice
