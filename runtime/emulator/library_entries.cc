// The driver entries for code: libraries of host kernels, and the functions in them.

#include <algorithm>
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

CuResult LibraryGetKernelCount(unsigned* count, CuLibrary library) {
  if (count == nullptr) return CuResult::kInvalidValue;
  const LibraryState* const found = TheState().libraries.Find(library);
  if (found == nullptr) return CuResult::kInvalidHandle;
  *count = static_cast<unsigned>(found->kernels.size());
  return CuResult::kSuccess;
}

CuResult LibraryEnumerateKernels(CuKernel* kernels, unsigned capacity, CuLibrary library) {
  if (kernels == nullptr) return CuResult::kInvalidValue;
  const LibraryState* const found = TheState().libraries.Find(library);
  if (found == nullptr) return CuResult::kInvalidHandle;
  std::copy_n(found->kernels.begin(), std::min<size_t>(capacity, found->kernels.size()), kernels);
  return CuResult::kSuccess;
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
  if (offset == nullptr || index >= found->kernel->parameter_count())
    return CuResult::kInvalidValue;
  const KernelParameter parameter = found->kernel->parameter(index);
  *offset = parameter.offset;
  if (bytes != nullptr) *bytes = parameter.bytes;
  return CuResult::kSuccess;
}

CuResult FuncGetAttribute(int* value, CuFunctionAttribute attribute, CuFunction function) {
  const KernelState* const found = TheState().kernels.Find(reinterpret_cast<CuKernel>(function));
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (value == nullptr) return CuResult::kInvalidValue;
  switch (attribute) {
    case CuFunctionAttribute::kMaxThreadsPerBlock:
      *value = static_cast<int>(found->kernel->block_threads);
      return CuResult::kSuccess;
    case CuFunctionAttribute::kMaxDynamicSharedBytes:
      *value = found->shared_bytes_max;
      return CuResult::kSuccess;
    case CuFunctionAttribute::kNonPortableClusterSizeAllowed:
      *value = found->large_clusters ? 1 : 0;
      return CuResult::kSuccess;
  }
  return CuResult::kInvalidValue;
}

CuResult FuncSetAttribute(CuFunction function, CuFunctionAttribute attribute, int value) {
  KernelState* const found = TheState().kernels.Find(reinterpret_cast<CuKernel>(function));
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (attribute == CuFunctionAttribute::kMaxDynamicSharedBytes) {
    if (value < 0 || value > kSharedBytesMax) return CuResult::kInvalidValue;
    found->shared_bytes_max = value;
    return CuResult::kSuccess;
  }
  if (attribute == CuFunctionAttribute::kNonPortableClusterSizeAllowed) {
    if (value != 0 && value != 1) return CuResult::kInvalidValue;
    found->large_clusters = value == 1;
    return CuResult::kSuccess;
  }
  return CuResult::kInvalidValue;
}

}  // namespace coppice::emulator
