// The kernels of a library: host code, or PTX that is executed.
//
// Units: bytes. Threads: immutable once made.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "coppice/runtime/kernel_image.h"

#include "runtime/emulator/ptx/program.h"

namespace coppice::emulator {

struct KernelCode {
  const char* name = "";  // As long as the process.
  std::vector<KernelParameter> parameters;
  size_t parameter_bytes = 0;
  int threads_max = 0;                                   // Of a block.
  std::array<unsigned, 3> threads_required = {0, 0, 0};  // The only block; 0: any number.
  int static_shared_bytes = 0;
  // Host code, which runs if there is no PTX. Beside PTX it only declares what is touched.
  const HostKernel* host = nullptr;
  const ptx::Kernel* ptx = nullptr;

  // Whether what a launch touches is known before it has run.
  bool is_declared() const {
    return ptx == nullptr || (host != nullptr && host->declare != nullptr);
  }
};

KernelCode CodeOf(const HostKernel& kernel);
// `declared`, which may be null, is the same kernel as host code.
KernelCode CodeOf(const ptx::Kernel& kernel, const HostKernel* declared);

}  // namespace coppice::emulator
