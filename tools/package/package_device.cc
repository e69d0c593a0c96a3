// One driver, one context, one package.

#include "tools/package/package_device.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/runtime/package_uses.h"
#include "coppice/runtime/safetensors.h"

#include "tools/package/key_file.h"
#include "tools/support/random_constant.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

// The elements that the manifest says how to draw.
absl::StatusOr<HostArray> DrawnConstant(const package::Constant& constant,
                                        const nlohmann::json& described) {
  const absl::StatusOr<std::vector<float>> values = DrawConstant(constant, described);
  if (!values.ok())
    return InvalidArgument("{}, or give --constants FILE.safetensors", MessageOf(values.status()));
  const auto* const first = reinterpret_cast<const char*>(values->data());
  return HostArray{constant.dtype, constant.shape,
                   std::string(first, values->size() * sizeof(float))};
}

absl::StatusOr<HostArray> ConstantFrom(const package::Safetensors& file,
                                       const std::string& path,
                                       const package::Constant& constant) {
  absl::StatusOr<package::SafeTensor> tensor = file.Get(constant.name);
  if (!tensor.ok()) return tensor.status();
  if (tensor->dtype != constant.dtype || tensor->shape != constant.shape)
    return InvalidArgument(
        "{}: '{}' is {}, but the package's constant is {}; give a tensor of that type and shape",
        path, constant.name, ShapeText(tensor->dtype, tensor->shape),
        ShapeText(constant.dtype, constant.shape));
  const auto* const first = reinterpret_cast<const char*>(tensor->bytes.data());
  return HostArray{constant.dtype, constant.shape, std::string(first, tensor->bytes.size())};
}

// Marks what `mark(program)` marks of a program and those inside it.
template <typename Mark>
void MarkPrograms(const package::Manifest& manifest, int index, Mark mark) {
  for (const int program : package::ProgramsWithin(manifest, index))
    mark(manifest.programs[static_cast<size_t>(program)]);
}

}  // namespace

absl::StatusOr<Emulator::Strictness> ParseKernelChecks(const std::string& text) {
  Emulator::Strictness strictness;
  const bool all = text == "all";
  strictness.kernel_race = strictness.uninitialized_read = strictness.undeclared_access = all;
  if (all || text == "none") return strictness;
  const std::string ended = text + ",";  // So that a last comma has a name behind it, an empty one.
  for (std::string_view rest = ended; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(name.size() + 1);
    bool* const check = name == "races"            ? &strictness.kernel_race
                        : name == "harmless_races" ? &strictness.harmless_race
                        : name == "uninitialized"  ? &strictness.uninitialized_read
                        : name == "undeclared"     ? &strictness.undeclared_access
                                                   : nullptr;
    if (check == nullptr)
      return InvalidArgument(
          "{} is not a check; give all, none, or some of races, harmless_races, uninitialized and "
          "undeclared, separated by commas",
          Quote(name));
    *check = true;
  }
  strictness.kernel_race = strictness.kernel_race || strictness.harmless_race;
  return strictness;
}

absl::StatusOr<package::Package> PackageDevice::OpenPackage(
    const std::string& path, const std::vector<std::string>& trusted_keys) {
  COPPICE_ASSIGN_OR_RETURN(package::Package package, OpenSigned(path, trusted_keys));
  COPPICE_RETURN_IF_ERROR(package.Verify());
  return package;
}

absl::StatusOr<std::unique_ptr<PackageDevice>> PackageDevice::Create(
    const PackageDeviceOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(ChosenDriver chosen,
                           ChosenDriver::Open(options.choice, options.emulator));
  std::unique_ptr<PackageDevice> device(new PackageDevice(std::move(chosen)));
  if (options.time_driver) {
    COPPICE_ASSIGN_OR_RETURN(device->ledger_,
                             DriverLedger::Create(device->chosen_.driver(), {.time_calls = true}));
    device->instant_.emplace(device->ledger_->driver());
  }
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(device->driver()));
  device->context_.emplace(std::move(context));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device->driver()));
  device->stream_.emplace(std::move(stream));
  return device;
}

absl::Status PackageDevice::Load(package::Package package) {
  package::LoadOptions options;
  options.allow_ptx = true;
  COPPICE_ASSIGN_OR_RETURN(loaded_,
                           package::LoadedPackage::Load(context(), std::move(package), options));
  return absl::OkStatus();
}

absl::Status PackageDevice::TakeConstants(int index, const std::string& path) {
  std::optional<package::Safetensors> file;
  std::vector<std::string> names;
  if (!path.empty()) {
    COPPICE_ASSIGN_OR_RETURN(package::Safetensors opened, package::Safetensors::Open(path));
    names = opened.names();
    file.emplace(std::move(opened));
  }
  const nlohmann::json manifest = nlohmann::json::parse(loaded().package().manifest_text(), nullptr,
                                                        /*allow_exceptions=*/false);
  const std::vector<bool> read = ConstantsRead(this->manifest(), index);
  std::vector<std::string> missing;
  for (size_t i = 0; i < read.size(); ++i) {
    const package::Constant& constant = this->manifest().constants[i];
    if (!read[i] || constant.file >= 0) continue;
    const nlohmann::json& described = manifest["constants"][constant.name];
    const bool in_file = std::ranges::find(names, constant.name) != names.end();
    if (!in_file && !described.contains("x-random")) {
      missing.push_back(fmt::format("constant '{}', {}", constant.name,
                                    ShapeText(constant.dtype, constant.shape)));
      continue;
    }
    COPPICE_ASSIGN_OR_RETURN(const HostArray array, in_file ? ConstantFrom(*file, path, constant)
                                                            : DrawnConstant(constant, described));
    COPPICE_ASSIGN_OR_RETURN(Placed placed, Place(array, constant.strides));
    constants_[constant.name] = placed.tensor;
    memory_.push_back(std::move(placed.memory));
  }
  if (missing.empty()) return absl::OkStatus();
  return InvalidArgument(
      "{}: the package has neither data nor x-random for {}; give the missing constants with "
      "--constants FILE.safetensors",
      loaded().package().path(), fmt::join(missing, "; "));
}

std::string PackageDevice::Name() const {
  std::string name = context_->DeviceName();
  return name.empty() ? chosen_.kind() : name;
}

absl::Status PackageDevice::Write(DeviceAddress address, std::string_view bytes) const {
  if (bytes.empty()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(
      driver().Call<&DriverTable::MemcpyHtoDAsync>(address, bytes.data(), bytes.size(), stream()));
  return stream_->Synchronize();
}

absl::StatusOr<HostArray> PackageDevice::Read(const Tensor& tensor) const {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.span() * SizeOf(tensor.dtype)));
  if (!bytes.empty()) {
    COPPICE_RETURN_IF_ERROR(driver().Call<&DriverTable::MemcpyDtoHAsync>(bytes.data(), tensor.data,
                                                                         bytes.size(), stream()));
    COPPICE_RETURN_IF_ERROR(stream_->Synchronize());
  }
  return Gather(bytes, tensor);
}

absl::StatusOr<PackageDevice::Placed> PackageDevice::Place(const HostArray& array,
                                                           std::span<const int64_t> strides) const {
  Tensor tensor = Tensor::Dense(0, array.dtype, array.dims);
  if (!strides.empty()) std::ranges::copy(strides, tensor.strides.begin());
  const std::string bytes = Spread(array, tensor);
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory,
                           DeviceMemory::Create(driver(), std::max<int64_t>(std::ssize(bytes), 1)));
  tensor.data = memory.address();
  COPPICE_RETURN_IF_ERROR(Write(tensor.data, bytes));
  return Placed{std::move(memory), tensor};
}

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return kExitStopped;
    case absl::StatusCode::kDataLoss:
      return kExitOutput;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
      return kExitUsage;
    default:
      return kExitDevice;
  }
}

absl::StatusOr<int> FindProgram(const package::Manifest& manifest, const std::string& name) {
  if (name.empty()) return manifest.entry;
  std::vector<std::string> names;
  for (size_t i = 0; i < manifest.programs.size(); ++i) {
    if (manifest.programs[i].name == name) return static_cast<int>(i);
    names.push_back(manifest.programs[i].name);
  }
  return InvalidArgument("{} is not a program of the package; its programs: {}", Quote(name),
                         fmt::join(names, ", "));
}

std::vector<bool> ConstantsRead(const package::Manifest& manifest, int index) {
  std::vector<bool> read(manifest.constants.size());
  MarkPrograms(manifest, index, [&](const package::Program& program) {
    for (const package::Buffer& buffer : program.buffers)
      if (buffer.role == package::Role::kConstant)
        read[static_cast<size_t>(buffer.constant)] = true;
  });
  return read;
}

std::vector<bool> KernelsRun(const package::Manifest& manifest, int index) {
  std::vector<bool> run(manifest.kernels.size());
  MarkPrograms(manifest, index, [&](const package::Program& program) {
    for (const package::Step& step : program.steps)
      if (const auto* kernel = std::get_if<package::KernelStep>(&step.action))
        run[static_cast<size_t>(kernel->kernel)] = true;
  });
  return run;
}

}  // namespace coppice
