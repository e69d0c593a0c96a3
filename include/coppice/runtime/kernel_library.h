// Loaded kernels: from images to launchable functions (launch.h).
//
// An image is a KernelImage that the build compiled into the program, or the caller's own: a cubin,
// a fatbin or PTX, in memory or in a file, as nvcc, NVRTC and Triton write them. Kernels are found
// by name; of a C++ kernel that is the mangled one.
//
// Loading happens once, outside any capture. A driver that loads lazily loads a function no earlier
// than at its first launch, and a capture may forbid what that takes: launch each kernel once
// before a capture. A session does so for programs, by warming each bucket up, and for its own
// kernels when it is created.
//
// Units: bytes. Threads: immutable once loaded; launches from any thread.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_image.h"
#include "coppice/runtime/launch.h"

namespace coppice {

// What a kernel's launches need beyond what every launch may have.
struct KernelNeeds {
  unsigned shared_bytes = 0;    // Dynamic, per block; 48 KiB need no leave.
  bool large_clusters = false;  // More than 8 blocks, which not every device of SM 90 has.
};

class KernelLibrary {
 public:
  // Loads what `driver` understands of `image`: CUDA its fatbin, the emulator all of it. `image`
  // must outlive the library. Errors: kUnavailable if the driver is CUDA and the image has no
  // fatbin (build with nvcc).
  static absl::StatusOr<KernelLibrary> Load(const Driver& driver, const KernelImage& image);

  // Loads a cubin, a fatbin or the text of PTX. The driver keeps a copy.
  //
  // Errors: kInvalidArgument   it is neither, it was cut off, or the driver finds it wrong;
  //         kUnimplemented     it has no code for this device, or the driver is too old for its
  //                            PTX; the emulator executes PTX (emulator.h says which).
  // The message has what the driver's compiler says, such as a line of the PTX.
  static absl::StatusOr<KernelLibrary> Load(const Driver& driver, std::span<const std::byte> image);

  // The same of a file. Errors: also that of reading it, kNotFound for one.
  static absl::StatusOr<KernelLibrary> LoadFile(const Driver& driver, const std::string& path);

  KernelLibrary(KernelLibrary&& other) noexcept
      : driver_(other.driver_),
        image_(other.image_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  KernelLibrary& operator=(KernelLibrary&&) = delete;
  ~KernelLibrary();

  // Finds a kernel by the name given to COPPICE_KERNEL, or by the name in the caller's own image,
  // and has the driver allow what its launches need. What is allowed stays so.
  //
  // Errors: kNotFound         there is none; the message lists the kernels that are there, as far
  //                           as the driver can;
  //         kInvalidArgument  the device has less shared memory than `needs`.
  absl::StatusOr<Kernel> Get(const char* name, const KernelNeeds& needs = {}) const;

  // The names of all kernels, sorted. Errors: kUnimplemented if the driver is older than CUDA 12.4.
  absl::StatusOr<std::vector<std::string>> GetNames() const;

 private:
  KernelLibrary(const Driver& driver, const KernelImage* image, CuLibrary handle)
      : driver_(&driver), image_(image), handle_(handle) {}

  std::string ListNames() const;
  absl::Status Allow(CuFunction function, const char* name, const KernelNeeds& needs) const;

  const Driver* driver_;
  const KernelImage* image_;  // Null if the image is the caller's own.
  CuLibrary handle_;
};

// Where the parameters of `function` lie, in order. Runs in a RelaxedCaptureScope.
// Errors: kUnimplemented if the driver is older than CUDA 12.4. Cost: a driver call per parameter
// and one more; allocates.
absl::StatusOr<std::vector<KernelParameter>> ParametersOf(const Driver& driver,
                                                          CuFunction function);

}  // namespace coppice
