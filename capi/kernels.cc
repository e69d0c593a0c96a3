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

#include "capi/answer.h"
#include "capi/context.h"

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
  COPPICE_ASSIGN_OR_RETURN(const coppice_launch_shape read, ReadStruct(given));
  COPPICE_ASSIGN_OR_RETURN(const auto values, SpanOf(arguments, argument_count, "arguments"));
  COPPICE_RETURN_IF_ERROR(CheckStream(stream));
  COPPICE_RETURN_IF_ERROR(
      CheckNotReset(*kernel.kernels->device, kernel.kernels->resets, "kernels"));
  const LaunchShape shape = ShapeOf(read);
  COPPICE_RETURN_IF_ERROR(Allow(kernel, shape));
  if (ProgramNeeds* const needs = WhoseCode().needs) needs->Keep(*kernel.kernels);
  return Launch(*kernel.kernels->device->driver, kernel.kernel, static_cast<CuStream>(stream),
                values, shape);
}

}  // namespace

extern "C" {

coppice_status coppice_kernels_load(coppice_device* device,
                                    const void* image,
                                    int64_t image_bytes,
                                    coppice_kernels** out) {
  return AnswerOn(device, out, [&]() -> absl::StatusOr<Held<coppice_kernels>> {
    if (image == nullptr || image_bytes < 1 || image_bytes > kImageBytesMax)
      return InvalidArgument("image: {} bytes at {}; give a cubin, a fatbin or PTX", image_bytes,
                             fmt::ptr(image));
    auto kernels = MakeOn<coppice_kernels>(*device);
    const std::span bytes(static_cast<const std::byte*>(image), static_cast<size_t>(image_bytes));
    COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(*device->driver, bytes));
    kernels->library.emplace(std::move(library));
    return kernels;
  });
}

void coppice_kernels_release(coppice_kernels* kernels) {
  Release(kernels);
}

coppice_status coppice_kernel_get(coppice_kernels* kernels,
                                  const char* name,
                                  coppice_kernel** out) {
  return AnswerOn(kernels, out, [&]() -> absl::StatusOr<coppice_kernel*> {
    COPPICE_ASSIGN_OR_RETURN(const std::string of, NameIn(name, "kernel"));
    return GetKernel(*kernels, of);
  });
}

coppice_status coppice_kernel_describe(coppice_kernel* kernel, coppice_kernel_info* out) {
  return AnswerTo(kernel, out, [&] {
    const bool has_parameters = !kernel->parameter_bytes.empty();
    return coppice_kernel_info{
        .struct_size = 0,
        .parameter_count = kernel->kernel.parameter_count,
        .name = kernel->name.c_str(),
        .parameter_offsets = has_parameters ? kernel->parameter_offsets.data() : nullptr,
        .parameter_bytes = has_parameters ? kernel->parameter_bytes.data() : nullptr};
  });
}

coppice_status coppice_launch(coppice_kernel* kernel,
                              const coppice_launch_shape* shape,
                              void* const* arguments,
                              int32_t argument_count,
                              void* stream) {
  return AnswerOn(kernel,
                  [&] { return LaunchOn(*kernel, shape, arguments, argument_count, stream); });
}

}  // extern "C"
}  // namespace coppice::capi

coppice_kernels::~coppice_kernels() {
  const coppice::capi::CurrentScope current(device.get());
  kernels.clear();
  library.reset();
}
