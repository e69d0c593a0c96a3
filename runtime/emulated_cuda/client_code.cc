// Modules, libraries, kernels and launches, as other clients ask for them.
//
// A module is a library: one handle stands for both.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "runtime/emulated_cuda/client_entries.h"
#include "runtime/emulated_cuda/entries.h"
#include "runtime/emulator/device_limits.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/ptx/program.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/submit.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulated_cuda {

using emulator::KernelState;
using emulator::LibraryState;
using emulator::State;
using emulator::TheState;

namespace {

CuLibrary LibraryOf(Module module) {
  return reinterpret_cast<CuLibrary>(module);
}

CuFunction FunctionOf(CuKernel kernel) {
  return reinterpret_cast<CuFunction>(kernel);
}

const KernelState* FindKernel(CuFunction function) {
  return TheState().kernels.Find(reinterpret_cast<CuKernel>(function));
}

}  // namespace

CuResult ModuleLoadDataEx(
    Module* module, const void* image, unsigned count, CuJitOption* options, void** values) {
  if (module == nullptr || image == nullptr) return CuResult::kInvalidValue;
  if (IsHostCode(image)) return CuResult::kInvalidImage;
  CuLibrary library = nullptr;
  const CuResult result =
      emulator::LibraryLoadData(&library, image, options, values, count, nullptr, nullptr, 0);
  if (result == CuResult::kSuccess) *module = reinterpret_cast<Module>(library);
  return result;
}

CuResult ModuleLoadData(Module* module, const void* image) {
  return ModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CuResult ModuleUnload(Module module) {
  return emulator::LibraryUnload(LibraryOf(module));
}

CuResult ModuleGetFunction(CuFunction* function, Module module, const char* name) {
  CuKernel kernel = nullptr;
  if (function == nullptr) return CuResult::kInvalidValue;
  const CuResult result = emulator::LibraryGetKernel(&kernel, LibraryOf(module), name);
  if (result == CuResult::kSuccess) *function = FunctionOf(kernel);
  return result;
}

CuResult ModuleGetGlobal(CuDeviceAddress* address, size_t* bytes, Module module, const char* name) {
  return LibraryGetGlobal(address, bytes, LibraryOf(module), name);
}

CuResult ModuleGetLoadingMode(int* mode) {
  constexpr int kEager = 1;
  if (mode == nullptr) return CuResult::kInvalidValue;
  *mode = kEager;
  return CuResult::kSuccess;
}

CuResult LibraryGetModule(Module* module, CuLibrary library) {
  if (module == nullptr) return CuResult::kInvalidValue;
  if (TheState().libraries.Find(library) == nullptr) return CuResult::kInvalidHandle;
  *module = reinterpret_cast<Module>(library);
  return CuResult::kSuccess;
}

CuResult LibraryGetGlobal(CuDeviceAddress* address,
                          size_t* bytes,
                          CuLibrary library,
                          const char* name) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CuResult::kInvalidValue;
  const LibraryState* const found = TheState().libraries.Find(library);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const ptx::Place* const place =
      found->program == nullptr ? nullptr : found->program->FindVariable(name);
  if (place == nullptr) return CuResult::kNotFound;
  if (address != nullptr) *address = found->globals + static_cast<uint64_t>(place->offset);
  if (bytes != nullptr) *bytes = static_cast<size_t>(place->bytes);
  return CuResult::kSuccess;
}

CuResult LibraryLoadFromFile(CuLibrary* library,
                             const char* path,
                             CuJitOption* jit_options,
                             void** jit_values,
                             unsigned jit_count,
                             int* library_options,
                             void** library_values,
                             unsigned library_count) {
  constexpr CuResult kFileNotFound{301};
  if (library == nullptr || path == nullptr) return CuResult::kInvalidValue;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rb"), &std::fclose);
  if (file == nullptr) return kFileNotFound;
  std::string image;
  char chunk[65536];
  for (size_t read = 0; (read = std::fread(chunk, 1, sizeof(chunk), file.get())) > 0;)
    image.append(chunk, read);
  image.append(1, '\0');
  if (IsHostCode(image.data())) return CuResult::kInvalidImage;
  return emulator::LibraryLoadData(library, image.data(), jit_options, jit_values, jit_count,
                                   library_options, library_values, library_count);
}

CuResult KernelGetName(const char** name, CuKernel kernel) {
  return emulator::FuncGetName(name, FunctionOf(kernel));
}

CuResult KernelGetParamInfo(CuKernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return emulator::FuncGetParamInfo(FunctionOf(kernel), index, offset, bytes);
}

CuResult KernelGetAttribute(int* value,
                            CuFunctionAttribute attribute,
                            CuKernel kernel,
                            CuDevice device) {
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  return emulator::FuncGetAttribute(value, attribute, FunctionOf(kernel));
}

CuResult KernelSetAttribute(CuFunctionAttribute attribute,
                            int value,
                            CuKernel kernel,
                            CuDevice device) {
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  return emulator::FuncSetAttribute(FunctionOf(kernel), attribute, value);
}

CuResult KernelGetLibrary(CuLibrary* library, CuKernel kernel) {
  const KernelState* const found = FindKernel(FunctionOf(kernel));
  if (library == nullptr) return CuResult::kInvalidValue;
  if (found == nullptr) return CuResult::kInvalidHandle;
  *library = found->library;
  return CuResult::kSuccess;
}

CuResult LaunchCooperativeKernel(CuFunction function,
                                 unsigned grid_x,
                                 unsigned grid_y,
                                 unsigned grid_z,
                                 unsigned block_x,
                                 unsigned block_y,
                                 unsigned block_z,
                                 unsigned shared_bytes,
                                 CuStream stream,
                                 void** kernel_params) {
  return emulator::SubmitKernel(stream,
                                {.function = function,
                                 .grid_x = grid_x,
                                 .grid_y = grid_y,
                                 .grid_z = grid_z,
                                 .block_x = block_x,
                                 .block_y = block_y,
                                 .block_z = block_z,
                                 .shared_bytes = shared_bytes,
                                 .kernel_params = kernel_params},
                                {.cooperative = true});
}

// The registers of a kernel are not known, so that one block is all that is sure to fit.
CuResult OccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                   CuFunction function,
                                                   int threads,
                                                   size_t shared_bytes) {
  const KernelState* const found = FindKernel(function);
  if (blocks == nullptr || threads <= 0) return CuResult::kInvalidValue;
  if (found == nullptr) return CuResult::kInvalidHandle;
  const bool fits = threads <= found->code.threads_max() &&
                    shared_bytes <= static_cast<size_t>(found->shared_bytes_max);
  *blocks = fits ? 1 : 0;
  return CuResult::kSuccess;
}

CuResult OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CuFunction function, int threads, size_t shared_bytes, unsigned flags) {
  constexpr unsigned kDisableCachingOverride = 1;
  if (flags > kDisableCachingOverride) return CuResult::kInvalidValue;
  return OccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}

CuResult OccupancyMaxPotentialBlockSize(int* grid,
                                        int* threads,
                                        CuFunction function,
                                        SharedBytesOfBlock shared_of,
                                        size_t shared_bytes,
                                        int limit) {
  constexpr int kWarp = 32;
  const KernelState* const found = FindKernel(function);
  if (grid == nullptr || threads == nullptr || limit < 0) return CuResult::kInvalidValue;
  if (found == nullptr) return CuResult::kInvalidHandle;
  int size = found->code.threads_max();
  if (limit > 0) size = std::min(size, limit);
  const auto allowed = static_cast<size_t>(found->shared_bytes_max);
  emulator::ThisThread().runs_host_code = true;  // It may call no driver.
  while (size > 0 && (shared_of != nullptr ? shared_of(size) : shared_bytes) > allowed)
    size = std::max(0, (size - 1) / kWarp * kWarp);
  emulator::ThisThread().runs_host_code = false;
  *threads = size;
  *grid = size > 0 ? emulator::kMultiprocessors : 0;
  return CuResult::kSuccess;
}

CuResult OccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes,
                                               CuFunction function,
                                               int blocks,
                                               int threads) {
  const KernelState* const found = FindKernel(function);
  if (shared_bytes == nullptr || blocks < 1 || threads < 1) return CuResult::kInvalidValue;
  if (found == nullptr) return CuResult::kInvalidHandle;
  *shared_bytes = static_cast<size_t>(found->shared_bytes_max) / static_cast<size_t>(blocks);
  return CuResult::kSuccess;
}

}  // namespace coppice::emulated_cuda
