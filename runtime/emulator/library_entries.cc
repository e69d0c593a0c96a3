// The driver entries for code: libraries of host kernels, and the functions in them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "coppice/runtime/kernel_image.h"

#include "runtime/emulator/entries.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {
namespace {

// True if `image` starts with the bytes of HostImage::kMagic. Looks at no byte behind the first
// that differs, since an image may be shorter.
bool IsHostImage(const void* image) {
  for (size_t i = 0; i < sizeof(HostImage::kMagic); ++i) {
    if (static_cast<const unsigned char*>(image)[i] !=
        static_cast<unsigned char>(HostImage::kMagic >> (8 * i)))
      return false;
  }
  return true;
}

}  // namespace

CuResult LibraryLoadData(CuLibrary* library,  // NOLINT(readability-function-size)
                         const void* image,
                         int* /*jit_options*/,
                         void** /*jit_values*/,
                         unsigned jit_count,
                         int* /*library_options*/,
                         void** /*library_values*/,
                         unsigned library_count) {
  if (library == nullptr || image == nullptr || jit_count != 0 || library_count != 0)
    return CuResult::kInvalidValue;
  if (!IsHostImage(image)) return CuResult::kNoBinaryForGpu;
  const auto& host = *static_cast<const HostImage*>(image);
  State& state = TheState();
  auto loaded = std::make_unique<LibraryState>();
  LibraryState& added = *loaded;
  *library = state.libraries.Insert(std::move(loaded));
  for (uint32_t i = 0; i < host.kernel_count; ++i) {
    auto kernel = std::make_unique<KernelState>();
    *kernel = {.library = *library, .kernel = host.kernels[i]};
    added.kernels.push_back(state.kernels.Insert(std::move(kernel)));
  }
  return CuResult::kSuccess;
}

CuResult LibraryUnload(CuLibrary library) {
  State& state = TheState();
  const std::unique_ptr<LibraryState> unloaded = state.libraries.Take(library);
  if (unloaded == nullptr) return CuResult::kInvalidHandle;
  for (const CuKernel kernel : unloaded->kernels)
    state.kernels.Take(kernel);
  return CuResult::kSuccess;
}

CuResult LibraryGetKernel(CuKernel* kernel, CuLibrary library, const char* name) {
  if (kernel == nullptr || name == nullptr) return CuResult::kInvalidValue;
  const State& state = TheState();
  const LibraryState* const found = state.libraries.Find(library);
  if (found == nullptr) return CuResult::kInvalidHandle;
  for (const CuKernel candidate : found->kernels) {
    if (std::string_view(state.kernels.Find(candidate)->kernel->name) != name) continue;
    *kernel = candidate;
    return CuResult::kSuccess;
  }
  return CuResult::kNotFound;
}

CuResult KernelGetFunction(CuFunction* function, CuKernel kernel) {
  if (function == nullptr) return CuResult::kInvalidValue;
  if (TheState().kernels.Find(kernel) == nullptr) return CuResult::kInvalidHandle;
  *function = reinterpret_cast<CuFunction>(kernel);
  return CuResult::kSuccess;
}

CuResult FuncGetName(const char** name, CuFunction function) {
  if (name == nullptr || function == nullptr) return CuResult::kInvalidValue;
  const KernelState* const found = TheState().kernels.Find(reinterpret_cast<CuKernel>(function));
  if (found == nullptr) return CuResult::kInvalidHandle;
  *name = found->kernel->name;
  return CuResult::kSuccess;
}

CuResult FuncGetParamInfo(CuFunction function, size_t index, size_t* offset, size_t* bytes) {
  const KernelState* const found = TheState().kernels.Find(reinterpret_cast<CuKernel>(function));
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (offset == nullptr || index > 0)
    return CuResult::kInvalidValue;  // One struct is all it takes.
  *offset = 0;
  if (bytes != nullptr) *bytes = found->kernel->parameter_bytes;
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
