// Devices: a driver, a context, and what lies on it for callers without a library for that.

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "coppice/base/status.h"

#include "capi/answer.h"

namespace coppice::capi {
namespace {

absl::StatusOr<Held<coppice_device>> OpenOn(const Driver& driver,
                                            std::unique_ptr<Emulator> emulator,
                                            int32_t ordinal) {
  auto device = Held<coppice_device>::Adopt(new coppice_device);
  device->emulator = std::move(emulator);
  device->driver.emplace(driver);
  device->ordinal = ordinal;
  CuContext before = nullptr;  // None, too, where nobody has initialised the driver.
  (void)driver.table().CtxGetCurrent(&before);
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(*device->driver, ordinal));
  device->context.emplace(std::move(context));
  if (before != nullptr) COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::CtxSetCurrent>(before));
  return device;
}

absl::StatusOr<Held<coppice_device>> OpenCuda(int32_t ordinal) {
  COPPICE_ASSIGN_OR_RETURN(const Driver driver, Driver::LoadCuda());
  return OpenOn(driver, nullptr, ordinal);
}

absl::StatusOr<Held<coppice_device>> OpenEmulator(const coppice_device_options& options) {
  Emulator::Options emulator;
  if (options.compute_capability != 0) emulator.compute_capability = options.compute_capability;
  if (options.memory_bytes != 0) emulator.memory_bytes = options.memory_bytes;
  if (options.seed != 0) emulator.seed = options.seed;
  emulator.compiled_kernels = options.compiled_kernels != 0;
  emulator.strictness.uninitialized_read = options.uninitialized_read != 0;
  emulator.strictness.harmless_race = options.harmless_races != 0;
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Emulator> made, Emulator::Create(emulator));
  const Driver driver = made->driver();
  return OpenOn(driver, std::move(made), 0);
}

absl::StatusOr<Held<coppice_device>> OpenKind(const coppice_device_options& options) {
  switch (options.kind) {
    case COPPICE_DEVICE_CUDA:
      return OpenCuda(options.ordinal);
    case COPPICE_DEVICE_EMULATOR:
      return OpenEmulator(options);
    case COPPICE_DEVICE_AUTO: {
      absl::StatusOr<Held<coppice_device>> cuda = OpenCuda(options.ordinal);
      if (cuda.ok() || !absl::IsUnavailable(cuda.status())) return cuda;
      return OpenEmulator(options);
    }
    default:
      return InvalidArgument("coppice_device_options: kind {} is not one of COPPICE_DEVICE_...",
                             options.kind);
  }
}

absl::StatusOr<Held<coppice_device>> OpenDevice(const coppice_device_options* given) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_device_options options, ReadOptions(given));
  if (options.provider == nullptr) return OpenKind(options);
  COPPICE_ASSIGN_OR_RETURN(const coppice_memory_provider provider, ReadStruct(options.provider));
  if (provider.allocate == nullptr || provider.free == nullptr)
    return InvalidArgument("coppice_memory_provider: give both allocate and free");
  COPPICE_ASSIGN_OR_RETURN(Held<coppice_device> device, OpenKind(options));
  device->source = MemorySource(provider);
  return device;
}

absl::StatusOr<coppice_device_info> InfoOf(const coppice_device& device) {
  COPPICE_ASSIGN_OR_RETURN(const int64_t total_bytes, device.context->TotalMemory());
  coppice_device_info info{};
  info.kind = device.emulator == nullptr ? COPPICE_DEVICE_CUDA : COPPICE_DEVICE_EMULATOR;
  info.dl_device_type = device.dl().device_type;
  info.ordinal = device.ordinal;
  info.total_bytes = total_bytes;
  CopyText(device.context->DeviceName(), info.name, sizeof(info.name));
  return info;
}

// The stream by its handle, and the work behind it.
absl::Status Synchronize(coppice_device& device, void* stream) {
  COPPICE_RETURN_IF_ERROR(CheckStream(stream));
  COPPICE_RETURN_IF_ERROR(
      device.driver->Call<&DriverTable::StreamSynchronize>(static_cast<CuStream>(stream)));
  return device.TakeFailure();
}

// Queues a copy between the host and the device by an entry of the driver, and waits for it. What
// fails here may leave it queued, as where a capture forbids to wait: it is waited for all the
// same, since the caller's memory may be gone from then on.
template <auto Entry, typename To, typename From>
absl::Status Copy(
    coppice_device& device, const void* host, To to, From from, int64_t bytes, void* stream) {
  const auto on = static_cast<CuStream>(stream);
  COPPICE_RETURN_IF_ERROR(CheckStream(stream));
  if (bytes < 0) return InvalidArgument("copy: {} bytes; give 0 or more", bytes);
  if (host == nullptr && bytes > 0) return InvalidArgument("copy: the host address is null");
  if (bytes > 0)
    COPPICE_RETURN_IF_ERROR(device.driver->Call<Entry>(to, from, static_cast<size_t>(bytes), on));
  absl::Status waited = Synchronize(device, stream);
  if (waited.ok()) return waited;
  const RelaxedCaptureScope relaxed(*device.driver);
  (void)device.driver->table().StreamSynchronize(on);
  return waited;
}

std::string FindingsOf(const coppice_device& device, int64_t since) {
  std::string text;
  if (device.emulator == nullptr) return text;
  for (const std::string& finding : device.emulator->FindingsSince(since))
    text += finding + "\n";
  return text;
}

// Whatever is left of the device ends while its context is there.
absl::Status Reset(coppice_device& device) {
  if (device.emulator == nullptr)
    return MakeError(absl::StatusCode::kUnimplemented,
                     "device: a GPU cannot be reset, because other libraries share its context; "
                     "end the process");
  device.EndRetired();
  if (const int sessions = device.sessions.load(); sessions > 0)
    return FailedPrecondition(
        "device: still in use by {} of its sessions, or by reads of their outputs; release them "
        "first",
        sessions);
  (void)device.context->MakeCurrent().ok();
  device.Clear();
  device.context.reset();
  device.emulator->Restart();
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(*device.driver, device.ordinal));
  device.context.emplace(std::move(context));
  ++device.resets;
  return device.context->MakeCurrent();
}

}  // namespace

extern "C" {

int32_t coppice_api_version(void) {
  return COPPICE_API_MAJOR * 1000 + COPPICE_API_MINOR;
}

const char* coppice_version(void) {
  return COPPICE_VERSION;
}

coppice_status coppice_device_open(const coppice_device_options* options, coppice_device** out) {
  return AnswerTo(out, [&] { return OpenDevice(options); });
}

void coppice_device_release(coppice_device* device) {
  if (device != nullptr) (void)Held<coppice_device>::Adopt(device);
}

coppice_status coppice_device_make_current(coppice_device* device) {
  return AnswerOf(device, [&] { return device->context->MakeCurrent(); });
}

coppice_status coppice_device_describe(coppice_device* device, coppice_device_info* out) {
  return AnswerTo(device, out, [&] { return InfoOf(*device); });
}

coppice_status coppice_device_synchronize(coppice_device* device) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(device->driver->Call<&DriverTable::CtxSynchronize>());
    device->EndRetired();
    return device->TakeFailure();
  });
}

size_t coppice_device_findings(coppice_device* device, char* buffer, size_t buffer_bytes) {
  size_t text_bytes = 0;
  const coppice_status told =
      coppice_device_findings_since(device, 0, buffer, buffer_bytes, &text_bytes);
  return told == COPPICE_OK ? text_bytes : coppice_last_error(buffer, buffer_bytes);
}

coppice_status coppice_device_finding_count(coppice_device* device, int64_t* count) {
  return AnswerTo(device, count, [&] {
    return device->emulator == nullptr ? 0 : device->emulator->finding_count();
  });
}

coppice_status coppice_device_findings_since(
    coppice_device* device, int64_t since, char* buffer, size_t buffer_bytes, size_t* written) {
  return AnswerTo(device, TextOut{buffer, buffer_bytes, written},
                  [&] { return FindingsOf(*device, since); });
}

coppice_status coppice_device_reset(coppice_device* device) {
  return AnswerOf(device, [&] { return Reset(*device); });
}

coppice_status coppice_driver_entry(coppice_device* device,
                                    const char* name,
                                    coppice_driver_function* out) {
  return AnswerTo(device, out, [&]() -> absl::StatusOr<coppice_driver_function> {
    COPPICE_ASSIGN_OR_RETURN(const std::string entry, NameIn(name, "entry"));
    const std::optional<int> index = FindDriverEntry(entry);
    if (!index)
      return MakeError(absl::StatusCode::kNotFound, "driver: coppice uses no entry called {}",
                       entry);
    const auto* const table = reinterpret_cast<const std::byte*>(&device->driver->table());
    coppice_driver_function found = nullptr;
    std::memcpy(&found, table + static_cast<size_t>(*index) * sizeof(found), sizeof(found));
    return found;
  });
}

coppice_status coppice_memory_allocate(coppice_device* device, int64_t bytes, uint64_t* address) {
  return AnswerOn(device, address, [&]() -> absl::StatusOr<uint64_t> {
    if (bytes < 1)
      return InvalidArgument("memory: {} bytes were requested; request at least 1", bytes);
    device->EndRetired();
    COPPICE_ASSIGN_OR_RETURN(DeviceBlock memory,
                             DeviceBlock::Create(device->source, *device->driver, bytes, nullptr));
    const uint64_t at = memory.address();
    const std::lock_guard lock(device->mutex);
    device->memory.emplace(at, std::move(memory));
    return at;
  });
}

coppice_status coppice_memory_free(coppice_device* device, uint64_t address) {
  return AnswerOn(device, [&]() -> absl::Status {
    device->EndRetired();
    std::unique_lock lock(device->mutex);
    auto freed = device->memory.extract(address);  // Ends without the lock.
    lock.unlock();
    if (!freed.empty() && Emulator::RunsThisThread()) device->Retire(std::move(freed.mapped()));
    if (!freed.empty()) return absl::OkStatus();
    return InvalidArgument("memory: {:#x} is not an address that coppice_memory_allocate returned",
                           address);
  });
}

coppice_status coppice_copy_to_device(
    coppice_device* device, uint64_t to, const void* from, int64_t bytes, void* stream) {
  return AnswerOn(device, [&] {
    return Copy<&DriverTable::MemcpyHtoDAsync>(*device, from, to, from, bytes, stream);
  });
}

coppice_status coppice_copy_to_host(
    coppice_device* device, void* to, uint64_t from, int64_t bytes, void* stream) {
  return AnswerOn(device, [&] {
    return Copy<&DriverTable::MemcpyDtoHAsync>(*device, to, to, from, bytes, stream);
  });
}

coppice_status coppice_stream_create(coppice_device* device, void** stream) {
  return AnswerOn(device, stream, [&]() -> absl::StatusOr<void*> {
    COPPICE_ASSIGN_OR_RETURN(Stream made, Stream::Create(*device->driver));
    void* const handle = made.handle();
    const std::lock_guard lock(device->mutex);
    device->streams.emplace(handle, std::move(made));
    return handle;
  });
}

coppice_status coppice_stream_destroy(coppice_device* device, void* stream) {
  return AnswerOn(device, [&]() -> absl::Status {
    std::unique_lock lock(device->mutex);
    const auto destroyed = device->streams.extract(stream);
    lock.unlock();
    if (!destroyed.empty()) return absl::OkStatus();
    return InvalidArgument("stream: {} was not made by coppice_stream_create", fmt::ptr(stream));
  });
}

coppice_status coppice_stream_synchronize(coppice_device* device, void* stream) {
  return AnswerOn(device, [&] { return Synchronize(*device, stream); });
}

}  // extern "C"
}  // namespace coppice::capi

coppice_device::~coppice_device() {
  const coppice::capi::CurrentScope current(this);
  Clear();
}

void coppice_device::Clear() {
  retired.clear();
  host_operations.reset();
  streams.clear();
  memory.clear();
  untold = absl::OkStatus();
}

void coppice_device::Retire(Retired ending) {
  const std::lock_guard lock(mutex);
  retired.push_back(std::move(ending));
}

void coppice_device::EndRetired() {
  if (coppice::Emulator::RunsThisThread()) return;
  std::unique_lock lock(mutex);
  auto ending = std::move(retired);
  retired.clear();
  lock.unlock();  // Ends without the lock.
}

DLDevice coppice_device::dl() const {
  return {.device_type = coppice::capi::DeviceTypeOf(kind()), .device_id = ordinal};
}

void coppice_device::TellHostFailure(const absl::Status& status) {
  const std::lock_guard lock(mutex);
  if (untold.ok()) untold = status;
  emulator->Report(coppice::MessageOf(status));
}

absl::Status coppice_device::TakeFailure() {
  const std::lock_guard lock(mutex);
  return std::exchange(untold, absl::OkStatus());
}
