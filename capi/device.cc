// Devices: a driver, a context, and what lies on it for callers without a library for that.

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "coppice/base/status.h"

#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/host_operation.h"
#include "capi/on_device.h"
#include "capi/structs.h"
#include "capi/tensors.h"

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
      return InvalidArgument("coppice_device_options: kind {} is none of COPPICE_DEVICE_...",
                             options.kind);
  }
}

absl::StatusOr<Held<coppice_device>> OpenDevice(const coppice_device_options* given) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_device_options options,
                           ReadOptions(given, "coppice_device_options"));
  if (options.provider == nullptr) return OpenKind(options);
  COPPICE_ASSIGN_OR_RETURN(const coppice_memory_provider provider,
                           ReadStruct(options.provider, "coppice_memory_provider"));
  if (provider.allocate == nullptr || provider.free == nullptr)
    return InvalidArgument("coppice_memory_provider: give both allocate and free");
  COPPICE_ASSIGN_OR_RETURN(Held<coppice_device> device, OpenKind(options));
  device->source = MemorySource(provider);
  return device;
}

absl::Status Describe(const coppice_device& device, coppice_device_info* out) {
  COPPICE_RETURN_IF_ERROR(CheckOut(out, "coppice_device_info"));
  COPPICE_ASSIGN_OR_RETURN(const int64_t total_bytes, device.context->TotalMemory());
  coppice_device_info info{};
  info.kind = device.emulator == nullptr ? COPPICE_DEVICE_CUDA : COPPICE_DEVICE_EMULATOR;
  info.dl_device_type = device.dl().device_type;
  info.ordinal = device.ordinal;
  info.total_bytes = total_bytes;
  CopyText(device.context->DeviceName(), info.name, sizeof(info.name));
  WriteStruct(info, out);
  return absl::OkStatus();
}

// The stream by its handle, and the work behind it.
absl::Status Synchronize(coppice_device& device, void* stream) {
  COPPICE_RETURN_IF_ERROR(CheckStream(stream));
  COPPICE_RETURN_IF_ERROR(
      device.driver->Call<&DriverTable::StreamSynchronize>(static_cast<CuStream>(stream)));
  return device.TakeFailure();
}

absl::Status CheckCopy(const coppice_device* device,
                       const void* host,
                       int64_t bytes,
                       const void* stream) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
  COPPICE_RETURN_IF_ERROR(CheckStream(stream));
  if (bytes < 0) return InvalidArgument("copy: {} bytes", bytes);
  if (host == nullptr && bytes > 0) return InvalidArgument("copy: the host's address is null");
  return absl::OkStatus();
}

// Waits for a copy that is queued. What fails here may leave it queued, as where a capture forbids
// to wait: it is waited for all the same, since the caller's memory may be gone from then on.
absl::Status FinishCopy(coppice_device& device, void* stream) {
  absl::Status waited = Synchronize(device, stream);
  if (waited.ok()) return waited;
  const RelaxedCaptureScope relaxed(*device.driver);
  (void)device.driver->table().StreamSynchronize(static_cast<CuStream>(stream));
  return waited;
}

absl::Status ReadFindings(const coppice_device* device, int64_t since, std::string& text) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
  if (device->emulator == nullptr) return absl::OkStatus();
  for (const std::string& finding : device->emulator->FindingsSince(since))
    text += finding + "\n";
  return absl::OkStatus();
}

// Whatever is left of the device ends while its context is there.
absl::Status Reset(coppice_device& device) {
  if (device.emulator == nullptr)
    return MakeError(absl::StatusCode::kUnimplemented,
                     "device: a GPU's context is shared with other libraries; end the process");
  device.EndRetired();
  if (const int sessions = device.sessions.load(); sessions > 0)
    return FailedPrecondition(
        "device: {} sessions exist, or somebody reads outputs of them; release them first",
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
}  // namespace coppice::capi

using coppice::DriverTable;
using coppice::InvalidArgument;
using coppice::capi::Answer;
using coppice::capi::AnswerOn;
using coppice::capi::CheckHandle;
using coppice::capi::ClearOut;
using coppice::capi::Held;

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

absl::StatusOr<coppice::Kernel> coppice_device::HostOperationKernel() {
  if (emulator == nullptr)
    return coppice::FailedPrecondition(
        "COPPICE_ON_HOST: a GPU runs no functions of the host; launch on the stream");
  const std::lock_guard lock(mutex);
  if (!host_operations) {
    COPPICE_ASSIGN_OR_RETURN(
        coppice::KernelLibrary library,
        coppice::KernelLibrary::Load(*driver, coppice::capi::HostOperationImage()));
    host_operations.emplace(std::move(library));
  }
  return host_operations->Get(coppice::capi::kHostOperationName);
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

int32_t coppice_api_version(void) {
  return COPPICE_API_MAJOR * 1000 + COPPICE_API_MINOR;
}

const char* coppice_version(void) {
  return COPPICE_VERSION;
}

coppice_status coppice_device_open(const coppice_device_options* options, coppice_device** out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_device_open"));
    COPPICE_ASSIGN_OR_RETURN(Held<coppice_device> device, coppice::capi::OpenDevice(options));
    *out = device.Leak();
    return absl::OkStatus();
  });
}

void coppice_device_release(coppice_device* device) {
  if (device != nullptr) (void)Held<coppice_device>::Adopt(device);
}

coppice_status coppice_device_make_current(coppice_device* device) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    return device->context->MakeCurrent();
  });
}

coppice_status coppice_device_describe(coppice_device* device, coppice_device_info* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    return coppice::capi::Describe(*device, out);
  });
}

coppice_status coppice_device_synchronize(coppice_device* device) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    COPPICE_RETURN_IF_ERROR(device->driver->Call<&DriverTable::CtxSynchronize>());
    device->EndRetired();
    return device->TakeFailure();
  });
}

size_t coppice_device_findings(coppice_device* device, char* buffer, size_t buffer_bytes) {
  std::string text;
  const coppice_status collected =
      Answer([&] { return coppice::capi::ReadFindings(device, 0, text); });
  if (collected != COPPICE_OK) return coppice_last_error(buffer, buffer_bytes);
  return coppice::capi::CopyText(text, buffer, buffer_bytes);
}

coppice_status coppice_device_finding_count(coppice_device* device, int64_t* count) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(count, "coppice_device_finding_count"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    if (device->emulator != nullptr) *count = device->emulator->finding_count();
    return absl::OkStatus();
  });
}

coppice_status coppice_device_findings_since(
    coppice_device* device, int64_t since, char* buffer, size_t buffer_bytes, size_t* written) {
  return Answer([&]() -> absl::Status {
    std::string text;
    COPPICE_RETURN_IF_ERROR(coppice::capi::ReadFindings(device, since, text));
    const size_t bytes = coppice::capi::CopyText(text, buffer, buffer_bytes);
    if (written != nullptr) *written = bytes;
    return absl::OkStatus();
  });
}

coppice_status coppice_device_reset(coppice_device* device) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    return coppice::capi::Reset(*device);
  });
}

coppice_status coppice_driver_entry(coppice_device* device,
                                    const char* name,
                                    coppice_driver_function* out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_driver_entry"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    COPPICE_ASSIGN_OR_RETURN(const std::string entry, coppice::capi::NameIn(name, "entry"));
    const std::optional<int> index = coppice::FindDriverEntry(entry);
    if (!index)
      return coppice::MakeError(absl::StatusCode::kNotFound,
                                "driver: coppice uses no entry called {}", entry);
    const auto* const table = reinterpret_cast<const std::byte*>(&device->driver->table());
    std::memcpy(out, table + static_cast<size_t>(*index) * sizeof(*out), sizeof(*out));
    return absl::OkStatus();
  });
}

coppice_status coppice_memory_allocate(coppice_device* device, int64_t bytes, uint64_t* address) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(address, "coppice_memory_allocate"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    if (bytes < 1) return InvalidArgument("memory: {} bytes; at least 1", bytes);
    device->EndRetired();
    COPPICE_ASSIGN_OR_RETURN(
        coppice::capi::DeviceBlock memory,
        coppice::capi::DeviceBlock::Create(device->source, *device->driver, bytes, nullptr));
    const uint64_t at = memory.address();
    const std::lock_guard lock(device->mutex);
    device->memory.emplace(at, std::move(memory));
    *address = at;
    return absl::OkStatus();
  });
}

coppice_status coppice_memory_free(coppice_device* device, uint64_t address) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    device->EndRetired();
    std::unique_lock lock(device->mutex);
    auto freed = device->memory.extract(address);  // Ends without the lock.
    lock.unlock();
    if (!freed.empty() && coppice::Emulator::RunsThisThread())
      device->Retire(std::move(freed.mapped()));
    if (!freed.empty()) return absl::OkStatus();
    return InvalidArgument("memory: {:#x} is no address of coppice_memory_allocate", address);
  });
}

coppice_status coppice_copy_to_device(
    coppice_device* device, uint64_t to, const void* from, int64_t bytes, void* stream) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckCopy(device, from, bytes, stream));
    if (bytes > 0)
      COPPICE_RETURN_IF_ERROR(device->driver->Call<&DriverTable::MemcpyHtoDAsync>(
          to, from, static_cast<size_t>(bytes), static_cast<coppice::CuStream>(stream)));
    return coppice::capi::FinishCopy(*device, stream);
  });
}

coppice_status coppice_copy_to_host(
    coppice_device* device, void* to, uint64_t from, int64_t bytes, void* stream) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(coppice::capi::CheckCopy(device, to, bytes, stream));
    if (bytes > 0)
      COPPICE_RETURN_IF_ERROR(device->driver->Call<&DriverTable::MemcpyDtoHAsync>(
          to, from, static_cast<size_t>(bytes), static_cast<coppice::CuStream>(stream)));
    return coppice::capi::FinishCopy(*device, stream);
  });
}

coppice_status coppice_stream_create(coppice_device* device, void** stream) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(stream, "coppice_stream_create"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    COPPICE_ASSIGN_OR_RETURN(coppice::Stream made, coppice::Stream::Create(*device->driver));
    void* const handle = made.handle();
    const std::lock_guard lock(device->mutex);
    device->streams.emplace(handle, std::move(made));
    *stream = handle;
    return absl::OkStatus();
  });
}

coppice_status coppice_stream_destroy(coppice_device* device, void* stream) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    std::unique_lock lock(device->mutex);
    const auto destroyed = device->streams.extract(stream);
    lock.unlock();
    if (!destroyed.empty()) return absl::OkStatus();
    return InvalidArgument("stream: {} is none of coppice_stream_create", fmt::ptr(stream));
  });
}

coppice_status coppice_stream_synchronize(coppice_device* device, void* stream) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
    return coppice::capi::Synchronize(*device, stream);
  });
}
