// Kernels of the caller's own: loaded, found, launched.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/launch.h"

#include "capi/context.h"
#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/on_device.h"
#include "capi/structs.h"

namespace coppice::capi {
namespace {

constexpr int64_t kImageBytesMax = int64_t{1} << 40;
constexpr unsigned kPortableClusterBlocks = 8;  // More need leave.

absl::StatusOr<std::unique_ptr<coppice_kernel>> MakeKernel(coppice_kernels& of,
                                                           const std::string& name) {
  COPPICE_ASSIGN_OR_RETURN(const Kernel kernel, of.library->Get(name.c_str()));
  std::vector<int64_t> offsets;
  std::vector<int64_t> bytes;
  if (kernel.parameter_count > 0) {
    COPPICE_ASSIGN_OR_RETURN(const std::vector<KernelParameter> parameters,
                             ParametersOf(*of.device->driver, kernel.function));
    for (const KernelParameter& parameter : parameters) {
      offsets.push_back(static_cast<int64_t>(parameter.offset));
      bytes.push_back(static_cast<int64_t>(parameter.bytes));
    }
  }
  return std::unique_ptr<coppice_kernel>(new coppice_kernel{.kernels = &of,
                                                            .name = name,
                                                            .kernel = kernel,
                                                            .parameter_offsets = std::move(offsets),
                                                            .parameter_bytes = std::move(bytes)});
}

absl::StatusOr<coppice_kernel*> GetKernel(coppice_kernels& of, const std::string& name) {
  const std::lock_guard lock(of.mutex);
  std::unique_ptr<coppice_kernel>& kernel = of.kernels[name];
  if (kernel == nullptr) {
    absl::StatusOr<std::unique_ptr<coppice_kernel>> made = MakeKernel(of, name);
    if (!made.ok()) {
      of.kernels.erase(name);
      return made.status();
    }
    kernel = *std::move(made);
  }
  return kernel.get();
}

Dim3 SizeOf(const uint32_t (&given)[3]) {
  return {.x = given[0], .y = given[1] == 0 ? 1 : given[1], .z = given[2] == 0 ? 1 : given[2]};
}

LaunchShape ShapeOf(const coppice_launch_shape& given) {
  return {.grid = SizeOf(given.grid),
          .block = SizeOf(given.block),
          .shared_bytes = given.shared_bytes,
          .cooperative = given.cooperative != 0,
          .programmatic = given.programmatic != 0,
          .cluster = given.cluster[0] == 0 ? Dim3() : SizeOf(given.cluster)};
}

// Has the driver allow what launches of this shape need, once. Errors: as KernelLibrary::Get.
absl::Status Allow(coppice_kernel& kernel, const LaunchShape& shape) {
  const uint64_t cluster_blocks = uint64_t{shape.cluster.x} * shape.cluster.y * shape.cluster.z;
  const KernelNeeds needs = {.shared_bytes = shape.shared_bytes,
                             .large_clusters = cluster_blocks > kPortableClusterBlocks};
  const bool is_allowed = needs.shared_bytes <= kernel.shared_bytes.load() &&
                          (!needs.large_clusters || kernel.large_clusters.load());
  if (is_allowed) return absl::OkStatus();
  const std::lock_guard lock(kernel.kernels->mutex);
  const absl::StatusOr<Kernel> allowed = kernel.kernels->library->Get(kernel.name.c_str(), needs);
  if (!allowed.ok()) return allowed.status();
  if (needs.shared_bytes > kernel.shared_bytes.load()) kernel.shared_bytes = needs.shared_bytes;
  if (needs.large_clusters) kernel.large_clusters = true;
  return absl::OkStatus();
}

absl::Status LaunchOn(coppice_kernel& kernel,
                      const coppice_launch_shape* given,
                      void* const* arguments,
                      int32_t argument_count,
                      void* stream) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_launch_shape read,
                           ReadStruct(given, "coppice_launch_shape"));
  COPPICE_RETURN_IF_ERROR(CheckArray(arguments, argument_count, "arguments"));
  COPPICE_RETURN_IF_ERROR(CheckStream(stream));
  COPPICE_RETURN_IF_ERROR(
      CheckNotReset(*kernel.kernels->device, kernel.kernels->resets, "kernels"));
  const LaunchShape shape = ShapeOf(read);
  COPPICE_RETURN_IF_ERROR(Allow(kernel, shape));
  if (ProgramNeeds* const needs = WhoseCode().needs) needs->Keep(*kernel.kernels);
  return Launch(*kernel.kernels->device->driver, kernel.kernel, static_cast<CuStream>(stream),
                std::span(arguments, static_cast<size_t>(argument_count)), shape);
}

}  // namespace
}  // namespace coppice::capi

using coppice::InvalidArgument;
using coppice::capi::Answer;
using coppice::capi::AnswerOn;
using coppice::capi::CheckHandle;
using coppice::capi::ClearOut;
using coppice::capi::Held;

coppice_kernels::~coppice_kernels() {
  const coppice::capi::CurrentScope current(device.get());
  kernels.clear();
  library.reset();
}

coppice_status coppice_kernels_load(coppice_device* device,
                                    const void* image,
                                    int64_t image_bytes,
                                    coppice_kernels** out) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_kernels_load"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    if (image == nullptr || image_bytes < 1 || image_bytes > coppice::capi::kImageBytesMax)
      return InvalidArgument("image: {} bytes at {}; give a cubin, a fatbin or PTX", image_bytes,
                             fmt::ptr(image));
    auto kernels = Held<coppice_kernels>::Adopt(new coppice_kernels);
    kernels->device = Held<coppice_device>::Share(device);
    kernels->resets = device->resets.load();
    const std::span bytes(static_cast<const std::byte*>(image), static_cast<size_t>(image_bytes));
    COPPICE_ASSIGN_OR_RETURN(coppice::KernelLibrary library,
                             coppice::KernelLibrary::Load(*device->driver, bytes));
    kernels->library.emplace(std::move(library));
    *out = kernels.Leak();
    return absl::OkStatus();
  });
}

void coppice_kernels_release(coppice_kernels* kernels) {
  coppice::capi::Release(kernels);
}

coppice_status coppice_kernel_get(coppice_kernels* kernels,
                                  const char* name,
                                  coppice_kernel** out) {
  return AnswerOn(kernels, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_kernel_get"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(kernels, "kernels"));
    COPPICE_ASSIGN_OR_RETURN(const std::string of, coppice::capi::NameIn(name, "kernel"));
    COPPICE_ASSIGN_OR_RETURN(*out, coppice::capi::GetKernel(*kernels, of));
    return absl::OkStatus();
  });
}

coppice_status coppice_kernel_describe(coppice_kernel* kernel, coppice_kernel_info* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(kernel, "kernel"));
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckOut(out, "coppice_kernel_info"));
    const bool has_parameters = !kernel->parameter_bytes.empty();
    coppice_kernel_info info{};
    info.parameter_count = kernel->kernel.parameter_count;
    info.name = kernel->name.c_str();
    info.parameter_offsets = has_parameters ? kernel->parameter_offsets.data() : nullptr;
    info.parameter_bytes = has_parameters ? kernel->parameter_bytes.data() : nullptr;
    coppice::capi::WriteStruct(info, out);
    return absl::OkStatus();
  });
}

coppice_status coppice_launch(coppice_kernel* kernel,
                              const coppice_launch_shape* shape,
                              void* const* arguments,
                              int32_t argument_count,
                              void* stream) {
  return AnswerOn(kernel, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(kernel, "kernel"));
    return coppice::capi::LaunchOn(*kernel, shape, arguments, argument_count, stream);
  });
}
