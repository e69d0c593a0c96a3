// The driver entries for code: libraries, and the functions in them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/emulator/device_limits.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/image.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {
namespace {

// Where a caller wants to read why an image is refused.
struct ErrorLog {
  char* text = nullptr;
  size_t capacity = 0;
  void** used = nullptr;  // The value of the option that gave the capacity.

  void Write(std::string_view why) const {
    if (text == nullptr || capacity == 0) return;
    const size_t length = std::min(why.size(), capacity - 1);
    std::memcpy(text, why.data(), length);
    text[length] = '\0';
    *used = reinterpret_cast<void*>(length + 1);  // NOLINT(performance-no-int-to-ptr)
  }
};

bool ReadOptions(const CuJitOption* options, void** values, unsigned count, ErrorLog* log) {
  if (count > 0 && (options == nullptr || values == nullptr)) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CuJitOption::kErrorLog) {
      log->text = static_cast<char*>(values[i]);
    } else if (options[i] == CuJitOption::kErrorLogBytes) {
      log->capacity = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
      log->used = &values[i];
    } else {
      return false;
    }
  }
  return true;
}

// Gives the variables of the library's program their place in device memory.
CuResult PlaceGlobals(State& state, LibraryState& library) {
  const int64_t bytes = library.program->global_bytes();
  if (bytes == 0) return CuResult::kSuccess;
  const CuResult result =
      state.memory->Allocate(&library.globals, bytes, MemoryKind::kDevice, library.device);
  if (result != CuResult::kSuccess) return result;
  const Processor::ShownMemory shown(state.processor);
  library.program->Link(
      library.globals,
      reinterpret_cast<std::byte*>(library.globals));  // NOLINT(performance-no-int-to-ptr)
  state.processor.NoteWritten(library.globals, bytes);
  return CuResult::kSuccess;
}

}  // namespace

CuResult LibraryLoadData(CuLibrary* library,  // NOLINT(readability-function-size)
                         const void* image,
                         CuJitOption* jit_options,
                         void** jit_values,
                         unsigned jit_count,
                         int* /*library_options*/,
                         void** /*library_values*/,
                         unsigned library_count) {
  ErrorLog log;
  if (library == nullptr || image == nullptr || library_count != 0 ||
      !ReadOptions(jit_options, jit_values, jit_count, &log))
    return CuResult::kInvalidValue;
  State& state = TheState();
  LoadedImage read;
  std::string why;
  const DeviceLimits& limits = state.options.limits;
  const ImageRules rules = {.capability = limits.capability,
                            .compiled = state.options.compiled_kernels,
                            .cubins = state.options.cubins};
  CuResult result = ReadImage(image, rules, &read, &why);
  auto loaded = std::make_unique<LibraryState>();
  LibraryState& added = *loaded;
  added.device = state.Device();
  added.program = std::move(read.program);
  added.cubin = std::move(read.cubin);
  if (result == CuResult::kSuccess && added.program != nullptr) result = PlaceGlobals(state, added);
  if (result != CuResult::kSuccess) {
    log.Write(why);
    return result;
  }
  *library = state.libraries.Insert(std::move(loaded));
  for (KernelCode& code : read.kernels) {
    auto kernel = std::make_unique<KernelState>();
    *kernel = {.library = *library, .code = std::move(code)};
    // PTX with more than the default is refused.
    kernel->shared_bytes_max =
        kSharedBytesDefault - static_cast<int>(kernel->code.static_shared_bytes());
    added.kernels.push_back(state.kernels.Insert(std::move(kernel)));
  }
  return CuResult::kSuccess;
}

CuResult LibraryUnload(CuLibrary library) {
  State& state = TheState();
  // What is queued may run its code.
  if (const LibraryState* const found = state.libraries.Find(library);
      found != nullptr && found->program != nullptr)
    state.scheduler.WaitForAll();
  const std::unique_ptr<LibraryState> unloaded = state.libraries.Take(library);
  if (unloaded == nullptr) return CuResult::kInvalidHandle;
  if (unloaded->globals != 0) state.memory->Free(unloaded->globals);
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
    if (std::string_view(state.kernels.Find(candidate)->code.name) != name) continue;
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
  *name = found->code.name;
  return CuResult::kSuccess;
}

CuResult FuncGetParamInfo(CuFunction function, size_t index, size_t* offset, size_t* bytes) {
  const KernelState* const found = TheState().kernels.Find(reinterpret_cast<CuKernel>(function));
  if (found == nullptr) return CuResult::kInvalidHandle;
  if (offset == nullptr || index >= found->code.parameter_count()) return CuResult::kInvalidValue;
  const KernelParameter parameter = found->code.parameter(index);
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
      *value = found->code.threads_max();
      return CuResult::kSuccess;
    case CuFunctionAttribute::kStaticSharedBytes:
      *value = static_cast<int>(found->code.static_shared_bytes());
      return CuResult::kSuccess;
    case CuFunctionAttribute::kRegisters:
      // Of PTX nobody has allocated any.
      *value = found->code.cubin == nullptr ? 0 : found->code.cubin->registers;
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
    const int static_bytes = static_cast<int>(found->code.static_shared_bytes());
    if (value < 0 || value > TheState().options.limits.shared_bytes_max - static_bytes)
      return CuResult::kInvalidValue;
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
