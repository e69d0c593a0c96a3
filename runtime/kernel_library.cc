// Loads kernel images and resolves their functions.

#include "coppice/runtime/kernel_library.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "runtime/device_image.h"

namespace coppice {
namespace {

// Errors: the driver's; its message ends with what the driver says of `code`.
absl::StatusOr<CuLibrary> LoadCode(const Driver& driver, const void* code) {
  // Both loading and the first look-up of a function may allocate.
  const RelaxedCaptureScope relaxed(driver);
  std::array<char, 4096> log = {};
  CuJitOption options[] = {CuJitOption::kErrorLog, CuJitOption::kErrorLogBytes};
  void* values[] = {log.data(),
                    reinterpret_cast<void*>(log.size())};  // NOLINT(performance-no-int-to-ptr)
  int* const no_options = nullptr;
  void** const no_values = nullptr;
  CuLibrary handle = nullptr;
  const absl::Status loaded = driver.Call<&DriverTable::LibraryLoadData>(
      &handle, code, options, values, 2U, no_options, no_values, 0U);
  if (loaded.ok()) return handle;
  std::string_view said(log.data());
  while (said.ends_with('\n'))
    said.remove_suffix(1);
  if (said.empty()) return loaded;
  return WithFailureOf(loaded, MakeError(loaded.code(), "{}: {}", MessageOf(loaded), said));
}

const char* AdviceFor(const Driver& driver, CuResult result) {
  if (driver.kind() == DriverKind::kEmulator)
    return "; the emulator executes PTX of sm_80, sm_89 or sm_90";
  if (result == CuResult::kNoBinaryForGpu)
    return "; compile it for the architecture of this device, or add PTX";
  if (result == CuResult::kUnsupportedPtxVersion)
    return "; upgrade the driver, or compile with an older Toolkit";
  return "";
}

absl::StatusOr<std::vector<std::byte>> ReadFile(const std::string& path) {
  constexpr size_t kChunkBytes = 65536;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  std::vector<std::byte> bytes;
  while (file != nullptr && std::ferror(file.get()) == 0) {
    const size_t before = bytes.size();
    bytes.resize(before + kChunkBytes);
    const size_t read = std::fread(bytes.data() + before, 1, kChunkBytes, file.get());
    bytes.resize(before + read);
    if (read < kChunkBytes && std::ferror(file.get()) == 0) return bytes;
  }
  const int error = errno;
  return MakeError(absl::ErrnoToStatusCode(error),
                   "KernelLibrary::LoadFile: '{}' cannot be read: {}; give a file that contains a "
                   "cubin, a fatbin or PTX",
                   path, std::generic_category().message(error));
}

// The kernel of `image` called `name`, or null.
const HostKernel* FindHost(const KernelImage& image, std::string_view name) {
  const std::span<const HostKernel* const> kernels(image.kernels, image.kernel_count);
  const auto found = std::ranges::find_if(
      kernels, [name](const HostKernel* kernel) { return kernel->name == name; });
  return found == kernels.end() ? nullptr : *found;
}

int64_t EndOf(const KernelParameter& parameter) {
  return static_cast<int64_t>(parameter.offset + parameter.bytes);
}

// What is known of a kernel of the build's own, without the driver.
Kernel KernelOf(const HostKernel& host, CuFunction function) {
  return {.function = function,
          .name = host.name,
          .block_threads = host.block_threads,
          .parameter_count = static_cast<int>(host.parameter_count()),
          .parameter_bytes = host.parameter_bytes};
}

}  // namespace

absl::StatusOr<KernelLibrary> KernelLibrary::Load(const Driver& driver, const KernelImage& image) {
  const bool has_gpu = driver.kind() == DriverKind::kCuda;
  const void* const code = has_gpu ? image.fatbin : &image;
  if (code == nullptr) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "KernelLibrary::Load: the image has no code for a GPU; build with nvcc and "
                     "COPPICE_DEVICE_CODE=ON");
  }
  COPPICE_ASSIGN_OR_RETURN(const CuLibrary handle, LoadCode(driver, code));
  return KernelLibrary(driver, &image, handle);
}

absl::StatusOr<KernelLibrary> KernelLibrary::Load(const Driver& driver,
                                                  std::span<const std::byte> image) {
  COPPICE_ASSIGN_OR_RETURN(const internal::DeviceImageKind kind,
                           internal::ClassifyDeviceImage(image));
  std::string text;  // A driver reads PTX up to a NUL.
  if (kind == internal::DeviceImageKind::kPtx)
    text.assign(reinterpret_cast<const char*>(image.data()), image.size());
  const void* const code = text.empty() ? image.data() : static_cast<const void*>(text.c_str());
  const absl::StatusOr<CuLibrary> handle = LoadCode(driver, code);
  if (handle.ok()) return KernelLibrary(driver, nullptr, *handle);
  const CuResult result = CuResultOf(handle.status()).value_or(CuResult::kUnknown);
  return WithFailureOf(
      handle.status(),
      MakeError(handle.status().code(), "KernelLibrary::Load: {} of {} bytes: {}{}",
                internal::NameOf(kind), image.size(), MessageOf(handle.status()),
                AdviceFor(driver, result)));
}

absl::StatusOr<KernelLibrary> KernelLibrary::LoadFile(const Driver& driver,
                                                      const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(path));
  absl::StatusOr<KernelLibrary> loaded = Load(driver, bytes);
  if (loaded.ok()) return loaded;
  return WithFailureOf(loaded.status(), MakeError(loaded.status().code(), "{} (file '{}')",
                                                  MessageOf(loaded.status()), path));
}

KernelLibrary::~KernelLibrary() {
  if (handle_ == nullptr) return;
  const RelaxedCaptureScope relaxed(*driver_);
  driver_->table().LibraryUnload(handle_);
}

absl::StatusOr<Kernel> KernelLibrary::Get(const char* name, const KernelNeeds& needs) const {
  const RelaxedCaptureScope relaxed(*driver_);
  const HostKernel* const host = image_ != nullptr ? FindHost(*image_, name) : nullptr;
  CuKernel kernel = nullptr;
  CuResult result = CuResult::kNotFound;
  if (image_ == nullptr || host != nullptr)
    result = driver_->table().LibraryGetKernel(&kernel, handle_, name);
  if (result == CuResult::kNotFound)
    return MakeError(absl::StatusCode::kNotFound,
                     "KernelLibrary::Get: the image has no kernel '{}'; {}", name, ListNames());
  if (result != CuResult::kSuccess) return driver_->ErrorOf(result, "cuLibraryGetKernel");
  CuFunction function = nullptr;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::KernelGetFunction>(&function, kernel));
  COPPICE_RETURN_IF_ERROR(Allow(function, name, needs));
  if (host != nullptr) return KernelOf(*host, function);
  Kernel own{.function = function};
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::FuncGetName>(&own.name, function));
  if (const auto parameters = ParametersOf(*driver_, function); parameters.ok()) {
    own.parameter_count = static_cast<int>(parameters->size());
    own.parameter_bytes = parameters->empty() ? 0 : EndOf(parameters->back());
  }
  return own;
}

absl::Status KernelLibrary::Allow(CuFunction function,
                                  const char* name,
                                  const KernelNeeds& needs) const {
  if (needs.large_clusters)
    COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::FuncSetAttribute>(
        function, CuFunctionAttribute::kNonPortableClusterSizeAllowed, 1));
  if (needs.shared_bytes == 0) return absl::OkStatus();
  int allowed = 0;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::FuncGetAttribute>(
      &allowed, CuFunctionAttribute::kMaxDynamicSharedBytes, function));
  if (needs.shared_bytes <= static_cast<unsigned>(allowed)) return absl::OkStatus();
  const absl::Status raised = driver_->Call<&DriverTable::FuncSetAttribute>(
      function, CuFunctionAttribute::kMaxDynamicSharedBytes, static_cast<int>(needs.shared_bytes));
  if (raised.ok()) return raised;
  return WithFailureOf(
      raised, MakeError(raised.code(),
                        "KernelLibrary::Get: kernel '{}' is limited to {} bytes of dynamic shared "
                        "memory but needs {}: {}; compile it for smaller tiles or fewer stages",
                        name, allowed, needs.shared_bytes, MessageOf(raised)));
}

absl::StatusOr<std::vector<std::string>> KernelLibrary::GetNames() const {
  const RelaxedCaptureScope relaxed(*driver_);
  unsigned count = 0;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::LibraryGetKernelCount>(&count, handle_));
  std::vector<CuKernel> kernels(count);
  if (count > 0)
    COPPICE_RETURN_IF_ERROR(
        driver_->Call<&DriverTable::LibraryEnumerateKernels>(kernels.data(), count, handle_));
  std::vector<std::string> names;
  for (const CuKernel kernel : kernels) {
    CuFunction function = nullptr;
    const char* name = nullptr;
    COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::KernelGetFunction>(&function, kernel));
    COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::FuncGetName>(&name, function));
    names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

// What the message about a kernel that is missing says of those that are there.
std::string KernelLibrary::ListNames() const {
  constexpr size_t kNamesMax = 20;
  const absl::StatusOr<std::vector<std::string>> names = GetNames();
  if (!names.ok()) return fmt::format("its kernels are not known: {}", MessageOf(names.status()));
  if (names->empty()) return "it has no kernels";
  const size_t shown = std::min(names->size(), kNamesMax);
  std::string list =
      fmt::format("it has {}", fmt::join(names->begin(), names->begin() + shown, ", "));
  if (shown < names->size()) list += fmt::format(" and {} more", names->size() - shown);
  return list;
}

absl::StatusOr<std::vector<KernelParameter>> ParametersOf(const Driver& driver,
                                                          CuFunction function) {
  const RelaxedCaptureScope relaxed(driver);
  std::vector<KernelParameter> parameters;
  for (;;) {
    KernelParameter parameter;
    const CuResult result = driver.table().FuncGetParamInfo(function, parameters.size(),
                                                            &parameter.offset, &parameter.bytes);
    if (result == CuResult::kInvalidValue) return parameters;  // There are no more.
    if (result != CuResult::kSuccess) return driver.ErrorOf(result, "cuFuncGetParamInfo");
    parameters.push_back(parameter);
  }
}

}  // namespace coppice
