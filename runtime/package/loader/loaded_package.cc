// From targets to functions.

#include "coppice/runtime/loaded_package.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/runtime/safetensors.h"

namespace coppice::package {
namespace {

constexpr uint64_t kPortableClusterBlocks = 8;

absl::StatusOr<TargetDevice> DeviceOf(const Context& context, const LoadOptions& options) {
  const Driver& driver = context.driver();
  const RelaxedCaptureScope relaxed(driver);
  int major = 0;
  int minor = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceGetAttribute>(
      &major, CuDeviceAttribute::kComputeCapabilityMajor, context.device()));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceGetAttribute>(
      &minor, CuDeviceAttribute::kComputeCapabilityMinor, context.device()));
  const int capability = 10 * major + minor;
  return driver.kind() == DriverKind::kEmulator ? TargetDevice::Emulator(capability)
                                                : TargetDevice::Gpu(capability, options.allow_ptx);
}

absl::Status CheckParameters(const Driver& driver,
                             const Package& package,
                             const Kernel& kernel,
                             const Target& target,
                             CuFunction function) {
  const absl::StatusOr<std::vector<KernelParameter>> found = ParametersOf(driver, function);
  if (found.status().code() == absl::StatusCode::kUnimplemented) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(found.status());
  const std::vector<int32_t>& said = kernel.parameter_bytes;
  for (size_t i = 0; i < std::max(said.size(), found->size()); ++i) {
    const int64_t expected = i < said.size() ? said[i] : -1;
    const int64_t actual = i < found->size() ? static_cast<int64_t>((*found)[i].bytes) : -1;
    if (expected == actual) continue;
    const auto text = [](int64_t bytes) {
      return bytes < 0 ? std::string("none") : fmt::format("{} bytes", bytes);
    };
    return InvalidArgument(
        "{}: /kernels/{}/parameters/{}: {}, but '{}' of module '{}' has {}; export the kernel "
        "again",
        package.path(), kernel.name, i, text(expected), target.symbol,
        package.manifest().modules[static_cast<size_t>(target.module)].name, text(actual));
  }
  return absl::OkStatus();
}

// The same error, after the place in the package that it is about.
absl::Status At(const Package& package, const Kernel& kernel, int target, const absl::Status& why) {
  return WithFailureOf(why, MakeError(why.code(), "{}: /kernels/{}/targets/{}: {}", package.path(),
                                      kernel.name, target, MessageOf(why)));
}

}  // namespace

LoadedPackage::LoadedPackage(Package package)
    : package_(std::move(package)), number_([] {
        static std::atomic<uint64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
      }()) {}

absl::StatusOr<std::unique_ptr<const LoadedPackage>> LoadedPackage::Load(
    const Context& context, Package package, const LoadOptions& options) {
  std::unique_ptr<LoadedPackage> loaded(new LoadedPackage(std::move(package)));
  COPPICE_RETURN_IF_ERROR(loaded->FindConstants());
  COPPICE_ASSIGN_OR_RETURN(TargetDevice device, DeviceOf(context, options));
  const Driver& driver = context.driver();
  absl::Status status = loaded->LoadKernels(driver, device);
  // Code that fits and is refused: such a driver takes PTX alone.
  if (CuResultOf(status) == CuResult::kNoBinaryForGpu && device.ptx_capability_max != 0) {
    device.cubins = false;
    if (loaded->LoadKernels(driver, device).ok()) return loaded;
  }
  if (!status.ok()) return status;
  return loaded;
}

absl::Status LoadedPackage::LoadKernels(const Driver& driver, const TargetDevice& device) {
  kernels_.clear();
  libraries_.clear();
  std::map<int, size_t> library_of;  // Of a module.
  for (const Kernel& kernel : manifest().kernels) {
    std::vector<LoadedKernel>& variants = kernels_.emplace_back();
    absl::StatusOr<std::vector<TargetFit>> chosen = ChooseTargets(manifest(), kernel, device);
    if (!chosen.ok())
      return MakeError(chosen.status().code(), "{}: {}", package_.path(),
                       MessageOf(chosen.status()));
    for (TargetFit& fit : *chosen) {
      const Target& target = kernel.targets[static_cast<size_t>(fit.target)];
      const auto found = library_of.try_emplace(target.module, libraries_.size());
      if (found.second) {
        const Module& module = manifest().modules[static_cast<size_t>(target.module)];
        COPPICE_ASSIGN_OR_RETURN(
            const std::span<const std::byte> image,
            package_.Read(manifest().files[static_cast<size_t>(module.file)].name));
        absl::StatusOr<KernelLibrary> library = KernelLibrary::Load(driver, image);
        if (!library.ok()) return At(package_, kernel, fit.target, library.status());
        libraries_.push_back(*std::move(library));
      }
      const uint64_t cluster = uint64_t{target.cluster[0]} * target.cluster[1] * target.cluster[2];
      const absl::StatusOr<coppice::Kernel> function = libraries_[found.first->second].Get(
          target.symbol.c_str(), {.shared_bytes = target.shared_bytes,
                                  .large_clusters = cluster > kPortableClusterBlocks});
      if (!function.ok()) return At(package_, kernel, fit.target, function.status());
      COPPICE_RETURN_IF_ERROR(
          CheckParameters(driver, package_, kernel, target, function->function));
      variants.push_back({.kernel = *function, .fit = std::move(fit)});
    }
  }
  return absl::OkStatus();
}

absl::Status LoadedPackage::FindConstants() {
  std::map<int, Safetensors> files;
  for (const Constant& constant : manifest().constants) {
    constants_.emplace_back();
    if (constant.file < 0) continue;
    const std::string& name = manifest().files[static_cast<size_t>(constant.file)].name;
    auto file = files.find(constant.file);
    if (file == files.end()) {
      COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, package_.Read(name));
      COPPICE_ASSIGN_OR_RETURN(
          Safetensors read,
          Safetensors::FromMemory(bytes, fmt::format("{}: {}", package_.path(), name)));
      file = files.emplace(constant.file, std::move(read)).first;
    }
    COPPICE_ASSIGN_OR_RETURN(const SafeTensor tensor, file->second.Get(constant.tensor));
    if (tensor.dtype != constant.dtype || tensor.shape != constant.shape) {
      return InvalidArgument(
          "{}: /constants/{}: {} of shape [{}], but {} has {} of shape [{}]; export the weights "
          "again",
          package_.path(), constant.name, coppice::NameOf(constant.dtype),
          fmt::join(constant.shape, ", "), name, coppice::NameOf(tensor.dtype),
          fmt::join(tensor.shape, ", "));
    }
    constants_.back() = tensor.bytes;
  }
  return absl::OkStatus();
}

}  // namespace coppice::package
