// What a kernel, a copy, a fill and a host function may be asked to do.

#include "runtime/emulator/arguments.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coppice/runtime/access_bounds.h"

#include "runtime/emulator/device_limits.h"

namespace coppice::emulator {
namespace {

// True if `pointer` may be one to host memory: not null, and not where device memory is.
bool IsHostPointer(State& state, const void* pointer) {
  const MemoryKind kind = state.memory->RegionAt(reinterpret_cast<CuDeviceAddress>(pointer)).kind;
  return pointer != nullptr && kind != MemoryKind::kDevice;
}

bool IsMapped(State& state, CuDeviceAddress address, size_t bytes) {
  return bytes <= static_cast<size_t>(INT64_MAX) &&
         state.memory->Covers(address, static_cast<int64_t>(bytes), CuMemAccessFlags::kNone,
                              state.Device());
}

void* HostOf(CuDeviceAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

uint64_t CountOf(const std::array<unsigned, 3>& size) {
  return uint64_t{size[0]} * size[1] * size[2];
}

// A kernel's registers are not known, so that a multiprocessor is sure to take one block only, and
// a cooperative grid of clusters is sure to fit nowhere.
CuResult CheckAttributes(const KernelState& kernel,
                         const DeviceLimits& limits,
                         const std::array<unsigned, 3>& grid,
                         const LaunchAttributes& attributes) {
  constexpr std::array<unsigned, 3> kAny = {0, 0, 0};
  const std::array<unsigned, 3> required = kernel.code.cluster_required();
  const std::array<unsigned, 3>& cluster =
      attributes.cluster == kAny ? required : attributes.cluster;
  if (required != kAny && cluster != required) return CuResult::kInvalidClusterSize;
  if (attributes.cooperative && CountOf(grid) > kMultiprocessors)
    return CuResult::kCooperativeLaunchTooLarge;
  if (cluster == kAny) return CuResult::kSuccess;
  for (size_t i = 0; i < grid.size(); ++i)
    if (cluster[i] == 0 || grid[i] % cluster[i] != 0) return CuResult::kInvalidValue;
  const uint64_t blocks = CountOf(cluster);
  if (blocks > 1 && !limits.has_clusters) return CuResult::kNotSupported;
  const bool large = blocks > kPortableClusterBlocksMax;
  if (blocks > kClusterBlocksMax || (large && !kernel.large_clusters))
    return CuResult::kInvalidClusterSize;
  return large || (attributes.cooperative && blocks > 1) ? CuResult::kNotSupported
                                                         : CuResult::kSuccess;
}

// Copies what the pointers to the arguments of `kernel` point to.
std::vector<std::byte> CopyArguments(const KernelCode& kernel, void* const* arguments) {
  std::vector<std::byte> copy(kernel.parameter_bytes());
  for (size_t i = 0; i < kernel.parameter_count(); ++i) {
    const KernelParameter parameter = kernel.parameter(i);
    std::memcpy(copy.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return copy;
}

bool HasArguments(const KernelCode& kernel, const CuKernelNodeParams& params) {
  if (params.extra != nullptr) return false;
  if (params.kernel_params == nullptr) return kernel.parameter_count() == 0;
  const std::span arguments(params.kernel_params, kernel.parameter_count());
  return std::ranges::find(arguments, nullptr) == arguments.end();
}

bool IsBlockOf(const KernelCode& kernel, const std::array<unsigned, 3>& block) {
  const std::array<unsigned, 3> required = kernel.threads_required();
  for (size_t i = 0; i < block.size(); ++i)
    if (block[i] == 0 || block[i] > kBlockMax[i] || (required[i] != 0 && block[i] != required[i]))
      return false;
  return CountOf(block) <= static_cast<uint64_t>(kernel.threads_max());
}

LaunchStep StepOfThread() {
  const AccessBounds* const bounds = AccessBounds::Current();
  return bounds == nullptr ? LaunchStep() : bounds->step();
}

// What the calling thread says that a launch of this kernel may access, with the variables of its
// library; empty: it says nothing, or nobody sees what the kernel accesses.
std::vector<ptx::ArgumentRange> BoundsOf(State& state, const KernelState& kernel) {
  const AccessBounds* const bounds = AccessBounds::Current();
  if (bounds == nullptr || kernel.code.ptx == nullptr) return {};
  std::vector<ptx::ArgumentRange> ranges;
  const auto add = [&](int argument, std::string_view name, const ptx::MemoryRange& range) {
    ranges.push_back({.argument = argument, .name = std::string(name), .range = range});
  };
  for (const ArgumentBytes& argument : bounds->arguments()) {
    add(argument.argument, argument.name,
        {argument.begin, argument.begin + static_cast<DeviceAddress>(argument.bytes),
         argument.writes});
  }
  const LibraryState& library = *state.libraries.Find(kernel.library);
  const auto globals = static_cast<DeviceAddress>(library.program->global_bytes());
  add(-1, "variables of the module", {library.globals, library.globals + globals});
  return ranges;
}

}  // namespace

CuResult ReadLaunchAttributes(const CuLaunchAttribute* list,
                              unsigned count,
                              LaunchAttributes* attributes) {
  if (list == nullptr && count > 0) return CuResult::kInvalidValue;
  LaunchAttributes read;
  for (unsigned i = 0; i < count; ++i) {
    const CuLaunchAttributeValue& value = list[i].value;
    switch (list[i].id) {
      case CuLaunchAttributeId::kIgnore:
        break;
      case CuLaunchAttributeId::kCooperative:
        read.cooperative = value.cooperative != 0;
        break;
      case CuLaunchAttributeId::kProgrammaticStreamSerialization:
        read.programmatic = value.programmatic != 0;
        break;
      case CuLaunchAttributeId::kClusterDimension:
        read.cluster = {value.cluster.x, value.cluster.y, value.cluster.z};
        if (CountOf(read.cluster) == 0) return CuResult::kInvalidValue;
        break;
      default:
        return CuResult::kNotSupported;
    }
  }
  *attributes = read;
  return CuResult::kSuccess;
}

CuResult MakeKernelWork(State& state,
                        const CuKernelNodeParams& params,
                        const LaunchAttributes& attributes,
                        Work* work) {
  // A CUkernel may stand for a CUfunction; here they are one handle.
  const CuKernel handle =
      params.function != nullptr ? reinterpret_cast<CuKernel>(params.function) : params.kernel;
  const KernelState* const found = state.kernels.Find(handle);
  if (found == nullptr) return CuResult::kInvalidHandle;
  // A module's variables are on the device that it was loaded on.
  const LibraryState& library = *state.libraries.Find(found->library);
  if (library.globals != 0 && library.device != state.Device()) return CuResult::kNotSupported;
  const KernelCode& kernel = found->code;
  if (kernel.cubin != nullptr) return CuResult::kNotSupported;
  if (params.grid_x == 0 || params.grid_y == 0 || params.grid_z == 0 || params.grid_x > kGridXMax ||
      params.grid_y > kGridYzMax || params.grid_z > kGridYzMax)
    return CuResult::kInvalidValue;
  const std::array<unsigned, 3> block = {params.block_x, params.block_y, params.block_z};
  if (!IsBlockOf(kernel, block) ||
      params.shared_bytes > static_cast<unsigned>(found->shared_bytes_max))
    return CuResult::kInvalidValue;
  if (!HasArguments(kernel, params)) return CuResult::kInvalidValue;
  const std::array<unsigned, 3> grid = {params.grid_x, params.grid_y, params.grid_z};
  const CuResult result = CheckAttributes(*found, state.options.limits, grid, attributes);
  if (result != CuResult::kSuccess) return result;
  *work = KernelWork{.kernel = kernel,
                     .function = reinterpret_cast<CuFunction>(handle),
                     .library = found->library,
                     .grid = grid,
                     .block = block,
                     .shared_bytes = params.shared_bytes,
                     .attributes = attributes,
                     .parameters = CopyArguments(kernel, params.kernel_params),
                     .bounds = BoundsOf(state, *found),
                     .program = std::string(StepOfThread().program),
                     .step = StepOfThread().step};
  return CuResult::kSuccess;
}

CuResult ChangeAttributes(State& state, const LaunchAttributes& attributes, KernelWork& work) {
  const KernelState* const found = state.kernels.Find(reinterpret_cast<CuKernel>(work.function));
  if (found == nullptr) return CuResult::kInvalidHandle;
  const CuResult result = CheckAttributes(*found, state.options.limits, work.grid, attributes);
  if (result == CuResult::kSuccess) work.attributes = attributes;
  return result;
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

}  // namespace coppice::emulator
