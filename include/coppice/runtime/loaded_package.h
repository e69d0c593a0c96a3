// A kernel package on a device: its modules loaded, its kernels found and checked.
//
//   LoadedPackage::Load(driver, std::move(package), {})
//
// Of each kernel the targets that fit the device best are taken, one per variant (package_target.h
// has the order); their modules are loaded once each, from where the package has them. What a
// kernel needs beyond every launch (shared memory, large clusters) is asked for here, so that
// nothing is left to do when it is recorded.
//
// Units: bytes. Threads: immutable once loaded.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/launch.h"
#include "coppice/runtime/package.h"
#include "coppice/runtime/package_target.h"

namespace coppice::package {

struct LoadOptions {
  // Whether a GPU may compile PTX where a kernel has nothing else for it: seconds, at the first
  // load on a machine.
  bool allow_ptx = false;
};

// One variant of a kernel, ready to be launched.
struct LoadedKernel {
  coppice::Kernel kernel;
  TargetFit fit;  // Which target it is, and why.
};

class LoadedPackage {
 public:
  // Loads every kernel of `package`, which it keeps. Call it outside of captures; the current
  // context is the driver's. `driver` must outlive it, and it must outlive its programs: until
  // Session::Unregister has returned, or their session has ended.
  //
  // Errors: kNotFound         no target of a kernel fits the device: what each was compiled for;
  //         kInvalidArgument  a constant that its file has not, or in another shape; a file with
  //                           another digest; a symbol that its image lacks;
  //                           parameters that are not those of the image: which, and both sizes;
  //                           more shared memory than the device has;
  //         otherwise as KernelLibrary::Load.
  static absl::StatusOr<std::unique_ptr<const LoadedPackage>> Load(const Driver& driver,
                                                                   Package package,
                                                                   const LoadOptions& options);

  const Package& package() const { return package_; }
  const Manifest& manifest() const { return package_.manifest(); }

  // Its number among those that the process has loaded, from 1: no two have the same.
  uint64_t number() const { return number_; }

  // The variants of kernel `index` of the manifest, at least one.
  std::span<const LoadedKernel> kernel(int index) const {
    return kernels_[static_cast<size_t>(index)];
  }

  // The bytes of constant `index`, in place; empty if the caller gives it.
  std::span<const std::byte> constant(int index) const {
    return constants_[static_cast<size_t>(index)];
  }

 private:
  explicit LoadedPackage(Package package);

  const Package package_;
  const uint64_t number_;
  absl::Status LoadKernels(const Driver& driver, const LoadOptions& options);
  absl::Status FindConstants();

  std::vector<std::span<const std::byte>> constants_;
  std::vector<KernelLibrary> libraries_;
  std::vector<std::vector<LoadedKernel>> kernels_;
};

}  // namespace coppice::package
