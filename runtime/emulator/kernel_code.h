// The kernels of a library: host code, or PTX that is executed.
//
// Units: bytes. Threads: immutable once made.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "coppice/runtime/kernel_image.h"

#include "runtime/emulator/ptx/program.h"
#include "runtime/package/cubin.h"

namespace coppice::emulator {

// What runs when a kernel is launched. Host code is of static storage, PTX of a loaded library.
struct KernelCode {
  const char* name = "";  // As long as the process.
  // Host code, which runs if there is no PTX. Beside PTX it only declares what is touched.
  const HostKernel* host = nullptr;
  const ptx::Kernel* ptx = nullptr;
  const package::CubinKernel* cubin = nullptr;  // Of a device's own code: known, and never run.

  size_t parameter_count() const;
  KernelParameter parameter(size_t index) const;  // Requires: index < parameter_count().
  size_t parameter_bytes() const;
  int threads_max() const;                           // Of a block.
  std::array<unsigned, 3> threads_required() const;  // The only block; 0: any number.
  std::array<unsigned, 3> cluster_required() const;  // Zeros: none.
  int64_t static_shared_bytes() const;
  // Whether what a launch touches is known before it has run.
  bool is_declared() const {
    return ptx == nullptr || (host != nullptr && host->declare != nullptr);
  }
};

KernelCode CodeOf(const HostKernel& kernel);
KernelCode CodeOf(const package::CubinKernel& kernel);
// `declared`, which may be null, is the same kernel as host code.
KernelCode CodeOf(const ptx::Kernel& kernel, const HostKernel* declared);

}  // namespace coppice::emulator
