// What one operation does: kernels, copies, fills and host functions; and the driver entries that
// load kernels and submit such work.

#include <cstring>
#include <numeric>
#include <string_view>

#include "fmt/format.h"

#include "emulator_state.h"

namespace coppice::emulator {
namespace {

struct Launch {
  const KernelWork* work;
  uint64_t draw;
};

// Blocks run one after another in a drawn order, since no kernel may rely on one: from a drawn
// first block in steps of a drawn stride that meets every block. A draw of 0 is the natural order.
void RunKernel(const void* argument) {
  const auto& [work, draw] = *static_cast<const Launch*>(argument);
  const auto& grid = work->grid;
  const uint64_t blocks = uint64_t{grid[0]} * grid[1] * grid[2];
  uint64_t stride = 1 + (draw >> 32) % blocks;
  while (std::gcd(stride, blocks) != 1)
    ++stride;
  uint64_t next = draw % blocks;
  HostBlock block{.grid = {grid[0], grid[1], grid[2]}, .index = {0, 0, 0}};
  for (uint64_t i = 0; i < blocks; ++i, next = (next + stride) % blocks) {
    block.index[0] = static_cast<unsigned>(next % grid[0]);
    block.index[1] = static_cast<unsigned>(next / grid[0] % grid[1]);
    block.index[2] = static_cast<unsigned>(next / grid[0] / grid[1]);
    work->kernel->run(work->parameters.data(), block);
  }
}

void RunCopy(const void* argument) {
  const auto& work = *static_cast<const CopyWork*>(argument);
  std::memmove(work.target, work.source, work.bytes);
}

void RunFill(const void* argument) {
  const auto& work = *static_cast<const FillWork*>(argument);
  auto* const target = static_cast<std::byte*>(work.target);
  if (work.element_size == 1) {
    std::memset(target, static_cast<int>(work.value), work.count);
    return;
  }
  for (size_t i = 0; i < work.count; ++i)
    std::memcpy(target + i * work.element_size, &work.value, work.element_size);
}

std::optional<std::string> Describe(std::optional<uint64_t> fault, const char* what) {
  if (!fault.has_value()) return std::nullopt;
  return DescribeFault(what, *fault);
}

struct Executor {
  uint64_t draw;

  std::optional<std::string> operator()(const KernelWork& work) const {
    const Launch launch{.work = &work, .draw = draw};
    return Describe(RunGuarded(RunKernel, &launch), work.kernel->name);
  }
  std::optional<std::string> operator()(const CopyWork& work) const {
    return Describe(RunGuarded(RunCopy, &work), "memcpy");
  }
  std::optional<std::string> operator()(const FillWork& work) const {
    return Describe(RunGuarded(RunFill, &work), "memset");
  }
  // A fault in a host function is the program's own.
  std::optional<std::string> operator()(const HostWork& work) const {
    ThisThread().in_host_function = true;
    work.function(work.user_data);
    ThisThread().in_host_function = false;
    return std::nullopt;
  }
  std::optional<std::string> operator()(const EmptyWork& /*work*/) const { return std::nullopt; }
  std::optional<std::string> operator()(const ChildWork& /*work*/) const { return std::nullopt; }
};

// True if `pointer` may be one to host memory: not null, and not where device memory is.
bool IsHostPointer(State& state, const void* pointer) {
  return pointer != nullptr && !state.memory->Covers(reinterpret_cast<CuDeviceAddress>(pointer), 1,
                                                     CuMemAccessFlags::kNone);
}

bool IsMapped(State& state, CuDeviceAddress address, size_t bytes) {
  return bytes <= static_cast<size_t>(INT64_MAX) &&
         state.memory->Covers(address, static_cast<int64_t>(bytes), CuMemAccessFlags::kNone);
}

void* HostOf(CuDeviceAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

CuResult Submit(State& state, CuStream stream, Work work) {
  StreamState* const target = state.scheduler.Find(stream);
  if (target == nullptr) return CuResult::kInvalidHandle;
  if (target->capture != nullptr) return CaptureWork(state, *target, std::move(work));
  return state.scheduler.Enqueue(*target, Mark{}, Task(std::move(work)));
}

CuResult SubmitCopy(CuStream stream, const CuMemcpyParams& params) {
  State& state = TheState();
  const StreamState* const target = state.scheduler.Find(stream);
  if (target == nullptr) return CuResult::kInvalidHandle;
  if (params.width_bytes == 0 && target->capture == nullptr) return CuResult::kSuccess;
  Work work;
  const CuResult result = MakeCopyWork(state, params, &work);
  return result == CuResult::kSuccess ? Submit(state, stream, std::move(work)) : result;
}

CuResult SubmitFill(CuStream stream, const CuMemsetNodeParams& params) {
  State& state = TheState();
  const StreamState* const target = state.scheduler.Find(stream);
  if (target == nullptr) return CuResult::kInvalidHandle;
  if (params.width == 0 && target->capture == nullptr) return CuResult::kSuccess;
  Work work;
  const CuResult result = MakeFillWork(state, params, &work);
  return result == CuResult::kSuccess ? Submit(state, stream, std::move(work)) : result;
}

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

std::string DescribeFault(const char* what, uint64_t address) {
  return fmt::format("{} touched address {:#x}, which is not mapped or not accessible", what,
                     address);
}

std::optional<std::string> Execute(const Work& work, uint64_t draw) {
  return std::visit(Executor{.draw = draw}, work);
}

Task::Task(Work its_work) : work(std::move(its_work)) {
  const auto add = [this](const void* start, size_t bytes, const char* name, bool writes,
                          bool host) {
    const auto begin = reinterpret_cast<uint64_t>(start);
    touched.push_back({{begin, begin + bytes}, name, writes, host});
  };
  if (const auto* const copy = std::get_if<CopyWork>(&work)) {
    add(copy->source, copy->bytes, "memcpy", false, copy->from_host);
    add(copy->target, copy->bytes, "memcpy", true, copy->to_host);
  } else if (const auto* const fill = std::get_if<FillWork>(&work)) {
    add(fill->target, fill->count * fill->element_size, "memset", true, false);
  } else if (const auto* const kernel = std::get_if<KernelWork>(&work)) {
    if (kernel->kernel->declare == nullptr) return;
    KernelAccesses accesses({kernel->grid[0], kernel->grid[1], kernel->grid[2]});
    kernel->kernel->declare(kernel->parameters.data(), accesses);
    for (const KernelAccesses::Range& range : accesses.ranges())
      touched.push_back({{range.begin, range.end}, kernel->kernel->name, range.writes, false});
  }
}

CuResult MakeKernelWork(State& state, const CuKernelNodeParams& params, Work* work) {
  // A CUkernel may stand for a CUfunction; here they are one handle.
  const CuKernel handle =
      params.function != nullptr ? reinterpret_cast<CuKernel>(params.function) : params.kernel;
  const KernelState* const found = state.kernels.Find(handle);
  if (found == nullptr) return CuResult::kInvalidHandle;
  const HostKernel& kernel = *found->kernel;
  constexpr unsigned kGridXMax = 0x7FFFFFFF;
  constexpr unsigned kGridYzMax = 65535;
  if (params.grid_x == 0 || params.grid_y == 0 || params.grid_z == 0 || params.grid_x > kGridXMax ||
      params.grid_y > kGridYzMax || params.grid_z > kGridYzMax)
    return CuResult::kInvalidValue;
  if (params.block_x != kernel.block_threads || params.block_y != 1 || params.block_z != 1 ||
      params.shared_bytes != 0)
    return CuResult::kInvalidValue;
  if (params.extra != nullptr || params.kernel_params == nullptr ||
      params.kernel_params[0] == nullptr)
    return CuResult::kInvalidValue;
  const auto* const parameters = static_cast<const std::byte*>(params.kernel_params[0]);
  *work = KernelWork{.kernel = &kernel,
                     .function = reinterpret_cast<CuFunction>(handle),
                     .library = found->library,
                     .grid = {params.grid_x, params.grid_y, params.grid_z},
                     .parameters = {parameters, parameters + kernel.parameter_bytes}};
  return CuResult::kSuccess;
}

CuResult MakeCopyWork(State& state, const CuMemcpyParams& params, Work* work) {
  const size_t bytes = params.width_bytes;
  const bool one_dimensional = params.height == 1 && params.depth == 1 && params.source_y == 0 &&
                               params.source_z == 0 && params.source_lod == 0 &&
                               params.target_y == 0 && params.target_z == 0 &&
                               params.target_lod == 0;
  if (!one_dimensional || bytes == 0) return CuResult::kInvalidValue;
  CopyWork copy{.bytes = bytes};
  if (params.source_type == CuMemoryType::kHost && IsHostPointer(state, params.source_host)) {
    copy.source = static_cast<const std::byte*>(params.source_host) + params.source_x;
    copy.from_host = true;
  } else if (params.source_type == CuMemoryType::kDevice &&
             IsMapped(state, params.source_device + params.source_x, bytes)) {
    copy.source = HostOf(params.source_device + params.source_x);
  } else {
    return CuResult::kInvalidValue;
  }
  if (params.target_type == CuMemoryType::kHost && IsHostPointer(state, params.target_host)) {
    copy.target = static_cast<std::byte*>(params.target_host) + params.target_x;
    copy.to_host = true;
  } else if (params.target_type == CuMemoryType::kDevice &&
             IsMapped(state, params.target_device + params.target_x, bytes)) {
    copy.target = HostOf(params.target_device + params.target_x);
  } else {
    return CuResult::kInvalidValue;
  }
  *work = copy;
  return CuResult::kSuccess;
}

CuResult MakeFillWork(State& state, const CuMemsetNodeParams& params, Work* work) {
  const unsigned size = params.element_size;
  if (size != 1 && size != 2 && size != 4) return CuResult::kInvalidValue;
  if (params.height != 1 || params.width == 0 || params.width > SIZE_MAX / size ||
      params.target % size != 0 || (size < 4 && params.value >> (8 * size) != 0))
    return CuResult::kInvalidValue;
  if (!IsMapped(state, params.target, params.width * size)) return CuResult::kInvalidValue;
  *work = FillWork{.target = HostOf(params.target),
                   .value = params.value,
                   .element_size = size,
                   .count = params.width};
  return CuResult::kSuccess;
}

CuResult MakeHostWork(const CuHostNodeParams& params, Work* work) {
  if (params.function == nullptr) return CuResult::kInvalidValue;
  *work = HostWork{.function = params.function, .user_data = params.user_data};
  return CuResult::kSuccess;
}

// Driver entries: work of streams.

CuResult MemcpyHtoDAsync(CuDeviceAddress target,
                         const void* source,
                         size_t bytes,
                         CuStream stream) {
  return SubmitCopy(stream, {.source_type = CuMemoryType::kHost,
                             .source_host = source,
                             .target_device = target,
                             .width_bytes = bytes});
}

CuResult MemcpyDtoHAsync(void* target, CuDeviceAddress source, size_t bytes, CuStream stream) {
  return SubmitCopy(stream, {.source_device = source,
                             .target_type = CuMemoryType::kHost,
                             .target_host = target,
                             .width_bytes = bytes});
}

CuResult MemcpyDtoDAsync(CuDeviceAddress target,
                         CuDeviceAddress source,
                         size_t bytes,
                         CuStream stream) {
  return SubmitCopy(stream,
                    {.source_device = source, .target_device = target, .width_bytes = bytes});
}

CuResult MemsetD8Async(CuDeviceAddress target, unsigned char value, size_t count, CuStream stream) {
  return SubmitFill(stream, {.target = target, .value = value, .element_size = 1, .width = count});
}

CuResult MemsetD32Async(CuDeviceAddress target, unsigned value, size_t count, CuStream stream) {
  return SubmitFill(stream, {.target = target, .value = value, .element_size = 4, .width = count});
}

CuResult LaunchHostFunc(CuStream stream, CuHostFunction function, void* user_data) {
  Work work;
  const CuResult result = MakeHostWork({.function = function, .user_data = user_data}, &work);
  return result == CuResult::kSuccess ? Submit(TheState(), stream, std::move(work)) : result;
}

CuResult LaunchKernel(CuFunction function,  // NOLINT(readability-function-size): CUDA's signature.
                      unsigned grid_x,
                      unsigned grid_y,
                      unsigned grid_z,
                      unsigned block_x,
                      unsigned block_y,
                      unsigned block_z,
                      unsigned shared_bytes,
                      CuStream stream,
                      void** kernel_params,
                      void** extra) {
  State& state = TheState();
  Work work;
  const CuResult result = MakeKernelWork(state,
                                         {.function = function,
                                          .grid_x = grid_x,
                                          .grid_y = grid_y,
                                          .grid_z = grid_z,
                                          .block_x = block_x,
                                          .block_y = block_y,
                                          .block_z = block_z,
                                          .shared_bytes = shared_bytes,
                                          .kernel_params = kernel_params,
                                          .extra = extra},
                                         &work);
  return result == CuResult::kSuccess ? Submit(state, stream, std::move(work)) : result;
}

// Driver entries: code.

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
