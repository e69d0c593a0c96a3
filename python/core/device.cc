// Devices and packages as objects of Python.

#include "python/core/device.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "python/core/arrays.h"
#include "python/core/dtypes.h"
#include "python/core/given.h"
#include "python/core/session_call.h"
#include "python/core/spec.h"
#include "python/core/status.h"
#include "python/core/tensor.h"

namespace coppice::python {
namespace {

int64_t PowerAbove(int64_t bytes) {
  int64_t power = 512;
  while (power < bytes)
    power *= 2;
  return power;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// A method that is one call of C on the device.
template <auto Function>
auto AskDevice(const Device& device) {
  const CallbackScope callbacks;
  return AskUnlocked<Function>(device.handle());
}

// A property out of what the device says of itself.
template <auto Field>
auto DeviceInfo(const Device& device) {
  return device.info().*Field;
}

std::unique_ptr<Package> LoadPackage(const nb::object& self,
                                     const nb::object& path,
                                     bool allow_ptx,
                                     const std::vector<nb::bytes>& trusted_keys) {
  constexpr size_t kKeyBytes = 32;
  const Device& device = nb::cast<const Device&>(self);
  std::string keys;
  for (const nb::bytes& key : trusted_keys) {
    if (key.size() != kKeyBytes)
      Raise("InvalidArgument", "trusted_keys: an Ed25519 key has 32 bytes");
    keys.append(key.c_str(), key.size());
  }
  const coppice_package_options options = {
      .struct_size = sizeof options,
      .allow_ptx = allow_ptx ? 1 : 0,
      .trusted_keys = reinterpret_cast<const uint8_t*>(keys.data()),
      .trusted_key_count = static_cast<int64_t>(trusted_keys.size())};
  if (nb::isinstance<nb::bytes>(path)) {
    const nb::bytes zip = nb::borrow<nb::bytes>(path);
    return std::make_unique<Package>(
        AskUnlocked<&coppice_package_load_memory>(
            device.handle(), zip.c_str(), static_cast<int64_t>(zip.size()), "package", &options),
        self);
  }
  const nb::object text = nb::module_::import_("os").attr("fspath")(path);
  const auto name = Given<std::string>(text, "package");
  return std::make_unique<Package>(
      AskUnlocked<&coppice_package_load>(device.handle(), name.c_str(), &options), self);
}

std::unique_ptr<Tensor> Upload(const nb::object& self, const nb::object& array, uintptr_t stream) {
  Array read;
  read.Read(array, "array", 0, 0, nb::cast<const Device&>(self));
  auto made = std::make_unique<Tensor>(self, Layout::Of(read.tensor()));
  made->CopyFrom(array, stream);
  return made;
}

std::unique_ptr<Tensor> View(const nb::object& self,
                             uint64_t address,
                             const std::vector<int64_t>& shape,
                             const std::string& dtype,
                             const nb::object& strides,
                             const nb::object& owner) {
  Layout layout = Layout::Dense(DTypeNamed(dtype), shape);
  if (!strides.is_none()) layout.strides = Given<std::vector<int64_t>>(strides, "strides");
  if (layout.strides.size() != layout.shape.size())
    Raise("InvalidArgument", "strides: give one stride for each axis");
  layout.Check();
  return std::make_unique<Tensor>(self, std::move(layout), address, owner);
}

}  // namespace

Device::Device(const coppice_device_options& options)
    : handle_(AskUnlocked<&coppice_device_open>(&options)),
      info_(Ask<&coppice_device_describe>(handle_)) {}

DLDevice Device::dl() const {
  return {.device_type = static_cast<DLDeviceType>(info_.dl_device_type),
          .device_id = info_.ordinal};
}

DLDevice Device::exported_device() const {
  return is_emulator() ? DLDevice{.device_type = kDLCPU, .device_id = 0} : dl();
}

std::vector<std::string> Device::FindingsSince(int64_t since) const {
  return LinesOf(AskText<&coppice_device_findings_since>(handle_, since));
}

void Device::Reset() {
  AskUnlocked<&coppice_device_reset>(handle_);
  own_stream_ = 0;
  staging_.clear();
}

uint64_t Device::Allocate(int64_t bytes) const {
  return AskUnlocked<&coppice_memory_allocate>(handle_, bytes);
}

void Device::Free(uint64_t address) const noexcept {
  if (IsLeftToProcess()) return;
  const GilRelease release;
  // What this can fail with is an error of the device, which every later call tells of.
  (void)coppice_memory_free(handle_, address);
}

void Device::CopyToDevice(uint64_t to, const void* from, int64_t bytes, uintptr_t stream) const {
  const CallbackScope callbacks;
  AskUnlocked<&coppice_copy_to_device>(handle_, to, from, bytes, StreamAt(stream));
}

void Device::CopyToHost(void* to, uint64_t from, int64_t bytes, uintptr_t stream) const {
  const CallbackScope callbacks;
  AskUnlocked<&coppice_copy_to_host>(handle_, to, from, bytes, StreamAt(stream));
}

uintptr_t Device::CreateStream() const {
  return reinterpret_cast<uintptr_t>(Ask<&coppice_stream_create>(handle_));
}

void Device::DestroyStream(uintptr_t stream) {
  if (stream == own_stream_ && stream != 0)
    Raise("InvalidArgument",
          "destroy_stream: this is the device's own stream, which ends with the "
          "device");
  AskUnlocked<&coppice_stream_destroy>(handle_, reinterpret_cast<void*>(stream));
  const auto first = staging_.lower_bound({stream, 0});
  const auto last = staging_.lower_bound({stream + 1, 0});
  for (auto sized = first; sized != last; ++sized) {
    for (const uint64_t address : sized->second)
      Free(address);
  }
  staging_.erase(first, last);
}

void Device::SynchronizeStream(uintptr_t stream) const {
  const CallbackScope callbacks;
  AskUnlocked<&coppice_stream_synchronize>(handle_, StreamAt(stream));
}

uintptr_t Device::own_stream() const {
  if (own_stream_ == 0) own_stream_ = CreateStream();
  return own_stream_;
}

uintptr_t Device::StreamOf(const nb::object& stream) const {
  if (is_emulator() || stream.is_none()) return 0;
  const auto number = Given<int64_t>(stream, "stream");
  return number > 0 ? static_cast<uintptr_t>(number) : 0;  // -1: the consumer wants no order.
}

bool Device::ExportsCopies(const nb::object& dl_device, const nb::object& copy) const {
  bool asked_for_host = false;
  if (!dl_device.is_none()) {
    const nb::tuple parts = GivenParts(dl_device, "dl_device", "(type, id)", 2);
    asked_for_host = nb::cast<int>(nb::int_(parts[0])) == kDLCPU;
  }
  if (!is_emulator() && !asked_for_host) return false;
  if (!copy.is_none() && !Given<bool>(copy, "copy"))
    Raise("InvalidArgument", "__dlpack__: only a copy can be on the CPU, but copy is False");
  return true;
}

void Device::OrderConsumer(const nb::object& stream) const {
  const bool unordered = !stream.is_none() && Given<int64_t>(stream, "stream") == -1;
  if (!unordered && own_stream_ != 0) SynchronizeStream(own_stream_);
}

uint64_t Device::TakeStaging(int64_t bytes, uintptr_t stream) {
  const int64_t rounded = PowerAbove(bytes);
  std::vector<uint64_t>& free = staging_[{stream, rounded}];
  if (free.empty()) return Allocate(rounded);
  const uint64_t address = free.back();
  free.pop_back();
  return address;
}

void Device::GiveStaging(uint64_t address, int64_t bytes, uintptr_t stream) {
  staging_[{stream, PowerAbove(bytes)}].push_back(address);
}

namespace {

nb::str Manifest(const Package& package) {
  const char* text = nullptr;
  const int64_t bytes = Ask<&coppice_package_manifest>(package.handle(), &text);
  return nb::str(text, static_cast<size_t>(bytes));
}

void BindPackages(nb::module_& module) {
  nb::class_<Package>(module, "Package", "A kernel package, loaded on a device.")
      .def_prop_ro("manifest", &Manifest, "manifest.json, as canonical JSON.")
      .def_prop_ro("device", &Package::device, "The device that the package is loaded on.");
}

void BindFindings(nb::class_<Device>& device) {
  device
      .def("findings", &Device::FindingsSince, nb::arg("since") = 0,
           "The findings of the emulator so far, such as races and accesses out of bounds: one\n"
           "line each, without duplicates. `since`: an earlier finding_count(); only later\n"
           "findings are returned.")
      .def("finding_count", &AskDevice<&coppice_device_finding_count>,
           "The number of findings so far, including duplicates.")
      .def("_reset", &Device::Reset);  // coppice.reset_device closes the sessions before.
}

constexpr const char* kOpens =
    "Opens \"cuda\", \"emulator\", or \"auto\": CUDA if it has a device, else the emulator.\n"
    "\n"
    "The other options are for the emulator: its compute capability, 80, 86, 89 or 90 (0:\n"
    "90), the bytes of its memory (0: 4 GiB), the seed of the order in which it runs\n"
    "work, and whether two things are findings: reads of unwritten bytes, and races that\n"
    "change no bit of what a kernel writes. Raises Unavailable if there is no such device,\n"
    "FailedPrecondition if the process already has an emulator.";

}  // namespace

void BindDevices(nb::module_& module) {
  BindPackages(module);
  nb::class_<Device> device(
      module, "Device", "A GPU, or the emulator. A process has at most one emulator at a time.");
  BindFindings(device);
  device
      .def(
          "__init__",
          [](Device* self, const std::string& kind, int ordinal, int compute_capability,
             int64_t memory_bytes, uint64_t seed, bool uninitialized_read, bool harmless_races) {
            new (self) Device({.struct_size = sizeof(coppice_device_options),
                               .kind = NumberOf(kind, {"auto", "cuda", "emulator"}, "device"),
                               .ordinal = ordinal,
                               .compute_capability = compute_capability,
                               .memory_bytes = memory_bytes,
                               .seed = seed,
                               .compiled_kernels = 0,
                               .uninitialized_read = uninitialized_read ? 1 : 0,
                               .provider = nullptr,
                               .harmless_races = harmless_races ? 1 : 0,
                               .reserved = 0});
          },
          nb::arg("kind") = "auto", nb::arg("ordinal") = 0, nb::kw_only(),
          nb::arg("compute_capability") = 0, nb::arg("memory_bytes") = 0, nb::arg("seed") = 0,
          nb::arg("uninitialized_read") = false, nb::arg("harmless_races") = false, kOpens)
      .def_prop_ro(
          "kind", [](const Device& self) { return self.is_emulator() ? "emulator" : "cuda"; },
          "\"cuda\" or \"emulator\".")
      .def_prop_ro("ordinal", &DeviceInfo<&coppice_device_info::ordinal>,
                   "The number of the CUDA device; 0 for the emulator.")
      .def_prop_ro(
          "name", [](const Device& self) { return std::string(self.info().name); },
          "Its name in the driver.")
      .def_prop_ro("total_bytes", &DeviceInfo<&coppice_device_info::total_bytes>,
                   "Bytes of its memory.")
      .def_prop_ro("stream", &Device::own_stream, "The device's own stream, made at its first use.")
      .def("make_current", &AskDevice<&coppice_device_make_current>,
           "Makes the device's context current on this thread.")
      .def("synchronize", &AskDevice<&coppice_device_synchronize>,
           "Waits for all work. If that work failed, raises its error (only once).")
      .def("create_stream", &Device::CreateStream, "Creates a stream, which belongs to the caller.")
      .def("destroy_stream", &Device::DestroyStream, nb::arg("stream"))
      .def("synchronize_stream", &Device::SynchronizeStream, nb::arg("stream") = 0,
           "Waits for a stream; 0 is the device's own.")
      .def(
          "empty",
          [](const nb::object& self, const std::vector<int64_t>& shape, const std::string& dtype) {
            Layout layout = Layout::Dense(DTypeNamed(dtype), shape);
            layout.Check();
            return std::make_unique<Tensor>(self, std::move(layout));
          },
          nb::arg("shape"), nb::arg("dtype"), "A dense tensor in memory of its own.")
      .def("upload", &Upload, nb::arg("array"), nb::arg("stream") = 0,
           "A copy of a CPU tensor, with its strides.")
      .def("view", &View, nb::arg("address"), nb::arg("shape"), nb::arg("dtype"),
           nb::arg("strides").none() = nb::none(), nb::arg("owner").none() = nb::none(),
           "A tensor in memory that `owner` keeps alive.")
      .def("load_package", &LoadPackage, nb::arg("package"), nb::kw_only(),
           nb::arg("allow_ptx") = false, nb::arg("trusted_keys") = nb::make_tuple(),
           "Loads a kernel package: the path of a folder or zip file, or the bytes of a zip file.\n"
           "`allow_ptx`: whether a GPU may compile PTX, which takes seconds. `trusted_keys`:\n"
           "Ed25519 keys of 32 bytes, one of which must have signed the package.");
}

}  // namespace coppice::python
