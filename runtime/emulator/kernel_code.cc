// What is asked of a kernel, from what it is made of.

#include "runtime/emulator/kernel_code.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "runtime/emulator/device_limits.h"

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
  if (cubin != nullptr) return cubin->parameters.size();
  return ptx != nullptr ? ptx->code->parameters.size() : host->parameter_count();
}

KernelParameter KernelCode::parameter(size_t index) const {
  if (cubin != nullptr)
    return {.offset = static_cast<size_t>(cubin->parameters[index].offset),
            .bytes = static_cast<size_t>(cubin->parameters[index].bytes)};
  if (ptx == nullptr) return host->parameter(index);
  const ptx::Place& place = ptx->code->parameters[index];
  return {.offset = static_cast<size_t>(place.offset), .bytes = static_cast<size_t>(place.bytes)};
}

size_t KernelCode::parameter_bytes() const {
  if (cubin != nullptr) return static_cast<size_t>(cubin->parameter_bytes);
  return ptx != nullptr ? static_cast<size_t>(ptx->parameter_bytes) : host->parameter_bytes;
}

int KernelCode::threads_max() const {
  if (cubin != nullptr) {
    const std::array<uint32_t, 3>& most = cubin->max_threads;
    return most[0] == 0 ? kBlockThreadsMax : static_cast<int>(most[0] * most[1] * most[2]);
  }
  return ptx != nullptr ? ptx->max_threads : static_cast<int>(host->block_threads);
}

std::array<unsigned, 3> KernelCode::threads_required() const {
  if (cubin != nullptr) return cubin->required_threads;
  if (ptx == nullptr) return {host->block_threads, 1, 1};
  std::array<unsigned, 3> threads = {};
  std::ranges::copy(ptx->required_threads, threads.begin());
  return threads;
}

std::array<unsigned, 3> KernelCode::cluster_required() const {
  return ptx != nullptr ? ptx->required_cluster : std::array<unsigned, 3>{0, 0, 0};
}

int64_t KernelCode::static_shared_bytes() const {
  if (cubin != nullptr) return cubin->shared_bytes;
  return ptx != nullptr ? ptx->shared_bytes : 0;
}

KernelCode CodeOf(const HostKernel& kernel) {
  return {.name = kernel.name, .host = &kernel};
}

KernelCode CodeOf(const package::CubinKernel& kernel) {
  return {.name = KeepName(kernel.name), .cubin = &kernel};
}

KernelCode CodeOf(const ptx::Kernel& kernel, const HostKernel* declared) {
  return {.name = KeepName(kernel.code->name), .host = declared, .ptx = &kernel};
}

}  // namespace coppice::emulator
