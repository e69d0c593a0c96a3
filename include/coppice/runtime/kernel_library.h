// Loaded kernels: from images to launchable functions (launch.h).
//
// An image is a KernelImage that is compiled into the program, or an image of the caller: a cubin,
// a fatbin or PTX, in memory or in a file, as nvcc, NVRTC and Triton write them. Kernels are found
// by name; for a C++ kernel that is the mangled name.
//
// Load once, outside any capture. A driver that loads lazily loads a function only at its first
// launch, and a capture may forbid that. So launch each kernel once before a capture. A session
// does this for programs when it warms up each bucket, and for its own kernels when it is created.
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

// The needs of a kernel's launches that exceed what every launch may use.
struct KernelNeeds {
  unsigned shared_bytes = 0;    // Dynamic shared memory per block; needed only above 48 KiB.
  bool large_clusters = false;  // Clusters of more than 8 blocks, which not every device of SM 90
                                // supports.
};

class KernelLibrary {
 public:
  // Loads the part of `image` that `driver` understands: its fatbin on CUDA, all of it on the
  // emulator. `image` must outlive the library. Errors: kUnavailable if the driver is CUDA and the
  // image has no fatbin (build with nvcc).
  static absl::StatusOr<KernelLibrary> Load(const Driver& driver, const KernelImage& image);

  // Loads a cubin, a fatbin or the text of PTX. The driver keeps a copy.
  //
  // Errors: kInvalidArgument   it is none of these, it is truncated, or the driver rejects it;
  //         kUnimplemented     it has no code for this device, or the driver is too old for its
  //                            PTX; the emulator executes PTX (emulator.h says which).
  // The message contains the message of the driver's compiler, for example the line of the PTX.
  static absl::StatusOr<KernelLibrary> Load(const Driver& driver, std::span<const std::byte> image);

  // The same for a file. Errors: also those of reading it, such as kNotFound.
  static absl::StatusOr<KernelLibrary> LoadFile(const Driver& driver, const std::string& path);

  KernelLibrary(KernelLibrary&& other) noexcept
      : driver_(other.driver_),
        image_(other.image_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  KernelLibrary& operator=(KernelLibrary&&) = delete;
  ~KernelLibrary();

  // Finds a kernel by the name given to COPPICE_KERNEL, or by the name in the caller's image, and
  // makes the driver allow what its launches need. Later calls never revoke that.
  //
  // Errors: kNotFound         there is no such kernel; the message lists the existing ones, if the
  //                           driver can;
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

// The places of the parameters of `function`, in order. Runs in a RelaxedCaptureScope. Errors:
// kUnimplemented if the driver is older than CUDA 12.4. Cost: a driver call per parameter and one
// more; allocates.
absl::StatusOr<std::vector<KernelParameter>> ParametersOf(const Driver& driver,
                                                          CuFunction function);

}  // namespace coppice
