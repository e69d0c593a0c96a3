// What is asked of a kernel, from what it is made of.

#include "runtime/emulator/kernel_code.h"

#include <mutex>
#include <set>
#include <string>

namespace coppice::emulator {
namespace {

// Reports and histories of accesses name kernels whose libraries are gone.
const char* KeepName(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::lock_guard lock(mutex);
  return names.emplace(name).first->c_str();
}

}  // namespace

KernelCode CodeOf(const HostKernel& kernel) {
  KernelCode code{.name = kernel.name,
                  .parameter_bytes = kernel.parameter_bytes,
                  .threads_max = static_cast<int>(kernel.block_threads),
                  .threads_required = {kernel.block_threads, 1, 1},
                  .host = &kernel};
  for (size_t i = 0; i < kernel.parameter_count(); ++i)
    code.parameters.push_back(kernel.parameter(i));
  return code;
}

KernelCode CodeOf(const ptx::Kernel& kernel, const HostKernel* declared) {
  KernelCode code{.name = KeepName(kernel.code->name),
                  .parameter_bytes = static_cast<size_t>(kernel.parameter_bytes),
                  .threads_max = kernel.max_threads,
                  .static_shared_bytes = static_cast<int>(kernel.shared_bytes),
                  .host = declared,
                  .ptx = &kernel};
  for (const ptx::Place& parameter : kernel.code->parameters)
    code.parameters.push_back({.offset = static_cast<size_t>(parameter.offset),
                               .bytes = static_cast<size_t>(parameter.bytes)});
  for (size_t i = 0; i < code.threads_required.size(); ++i)
    code.threads_required[i] = static_cast<unsigned>(kernel.required_threads[i]);
  return code;
}

}  // namespace coppice::emulator
