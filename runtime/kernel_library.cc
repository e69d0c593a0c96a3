// Loads kernel images and resolves their functions.

#include "coppice/runtime/kernel_library.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

namespace coppice {

absl::StatusOr<KernelLibrary> KernelLibrary::Load(const Driver& driver, const KernelImage& image) {
  const bool has_gpu = driver.kind() == DriverKind::kCuda;
  const void* const code = has_gpu ? image.fatbin : image.host;
  if (code == nullptr) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "KernelLibrary::Load: the image has no code for a GPU; build where nvcc is "
                     "found and with COPPICE_DEVICE_CODE=ON");
  }
  // Both loading and the first look-up of a function may allocate.
  const RelaxedCaptureScope relaxed(driver);
  CuLibrary handle = nullptr;
  int* const no_options = nullptr;
  void** const no_values = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::LibraryLoadData>(
      &handle, code, no_options, no_values, 0U, no_options, no_values, 0U));
  return KernelLibrary(driver, image, handle);
}

KernelLibrary::~KernelLibrary() {
  if (handle_ == nullptr) return;
  const RelaxedCaptureScope relaxed(*driver_);
  driver_->table().LibraryUnload(handle_);
}

absl::StatusOr<Kernel> KernelLibrary::Get(const char* name) const {
  const std::span<const HostKernel* const> kernels(image_->host->kernels,
                                                   image_->host->kernel_count);
  const auto host = std::ranges::find_if(
      kernels, [name](const HostKernel* kernel) { return std::string_view(kernel->name) == name; });
  if (host == kernels.end()) {
    return MakeError(absl::StatusCode::kNotFound,
                     "KernelLibrary::Get: the image has no kernel `{}` among its {}; check the "
                     "name and COPPICE_KERNEL_IMAGE",
                     name, kernels.size());
  }
  const RelaxedCaptureScope relaxed(*driver_);
  CuKernel kernel = nullptr;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::LibraryGetKernel>(&kernel, handle_, name));
  CuFunction function = nullptr;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::KernelGetFunction>(&function, kernel));
  return Kernel{.function = function, .block_threads = (*host)->block_threads};
}

}  // namespace coppice
