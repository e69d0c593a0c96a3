// What is asked of a kernel, from what it is made of.

#include "runtime/emulator/kernel_code.h"

#include <algorithm>
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

size_t KernelCode::parameter_count() const {
  return ptx != nullptr ? ptx->code->parameters.size() : host->parameter_count();
}

KernelParameter KernelCode::parameter(size_t index) const {
  if (ptx == nullptr) return host->parameter(index);
  const ptx::Place& place = ptx->code->parameters[index];
  return {.offset = static_cast<size_t>(place.offset), .bytes = static_cast<size_t>(place.bytes)};
}

size_t KernelCode::parameter_bytes() const {
  return ptx != nullptr ? static_cast<size_t>(ptx->parameter_bytes) : host->parameter_bytes;
}

int KernelCode::threads_max() const {
  return ptx != nullptr ? ptx->max_threads : static_cast<int>(host->block_threads);
}

std::array<unsigned, 3> KernelCode::threads_required() const {
  if (ptx == nullptr) return {host->block_threads, 1, 1};
  std::array<unsigned, 3> threads = {};
  std::ranges::copy(ptx->required_threads, threads.begin());
  return threads;
}

int64_t KernelCode::static_shared_bytes() const {
  return ptx != nullptr ? ptx->shared_bytes : 0;
}

KernelCode CodeOf(const HostKernel& kernel) {
  return {.name = kernel.name, .host = &kernel};
}

KernelCode CodeOf(const ptx::Kernel& kernel, const HostKernel* declared) {
  return {.name = KeepName(kernel.code->name), .host = declared, .ptx = &kernel};
}

}  // namespace coppice::emulator
