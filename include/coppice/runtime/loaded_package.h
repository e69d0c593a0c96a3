// A kernel package on a device: its modules loaded, its kernels found and checked.
//
//   LoadedPackage::Load(context, std::move(package), {})
//
// For each variant of a kernel, the target that fits the device best is used (package_target.h has
// the order). Each module is loaded once, in place. If a kernel needs more than every launch may
// use (shared memory, large clusters), that is requested here, so nothing is left to do when it is
// recorded.
//
// Units: bytes. Threads: immutable once loaded.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/launch.h"
#include "coppice/runtime/package.h"
#include "coppice/runtime/package_target.h"
#include "coppice/runtime/stream.h"

namespace coppice::package {

struct LoadOptions {
  // Whether a GPU may compile PTX if a kernel has no other code for it. That takes seconds at the
  // first load on a machine. It is also needed if the driver takes no cubins
  // (CUDA_FORCE_PTX_JIT=1).
  bool allow_ptx = false;
};

// One variant of a kernel, ready to be launched.
struct LoadedKernel {
  coppice::Kernel kernel;
  TargetFit fit;  // Which target is used, and why.
};

class LoadedPackage {
 public:
  // Loads every kernel of `package` for the device of `context`. The result keeps the package. Call
  // it outside captures, with that context current. The context's driver must outlive the result.
  // The result must live until Session::Unregister has returned for each of its programs, or their
  // session has ended.
  //
  // Errors: kNotFound         no target of a kernel fits the device (the message lists their
  //                           architectures);
  //         kInvalidArgument  the file of a constant lacks it, or has it with another shape; a file
  //                           has another digest; an image lacks a symbol; the parameters differ
  //                           from those of the image (the message has both sizes); a kernel needs
  //                           more shared memory than the device has;
  //         otherwise as KernelLibrary::Load.
  static absl::StatusOr<std::unique_ptr<const LoadedPackage>> Load(const Context& context,
                                                                   Package package,
                                                                   const LoadOptions& options);

  const Package& package() const { return package_; }
  const Manifest& manifest() const { return package_.manifest(); }

  // A number from 1 that is unique among the packages that the process has loaded.
  uint64_t number() const { return number_; }

  // The variants of kernel `index` of the manifest, at least one.
  std::span<const LoadedKernel> kernel(int index) const {
    return kernels_[static_cast<size_t>(index)];
  }

  // The bytes of constant `index`, in place; empty if the caller provides it.
  std::span<const std::byte> constant(int index) const {
    return constants_[static_cast<size_t>(index)];
  }

 private:
  explicit LoadedPackage(Package package);

  const Package package_;
  const uint64_t number_;
  absl::Status LoadKernels(const Driver& driver, const TargetDevice& device);
  absl::Status FindConstants();

  std::vector<std::span<const std::byte>> constants_;
  std::vector<KernelLibrary> libraries_;
  std::vector<std::vector<LoadedKernel>> kernels_;
};

}  // namespace coppice::package
