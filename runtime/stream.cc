// Owners of contexts, streams, events and plain device memory.
//
// Calls that a capture elsewhere in the process may forbid (waiting, querying, allocating) run in a
// RelaxedCaptureScope.

#include "coppice/runtime/stream.h"

#include <array>
#include <string>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {

absl::StatusOr<Context> Context::Create(const Driver& driver, int ordinal) {
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::Init>(0U));
  int count = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceGetCount>(&count));
  if (ordinal < 0 || ordinal >= count) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "Context::Create: there is no device {}: the driver's device count is {}; "
                     "choose a lower ordinal or use the emulator",
                     ordinal, count);
  }
  CuDevice device = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DeviceGet>(&device, ordinal));
  CuContext handle = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::DevicePrimaryCtxRetain>(&handle, device));
  Context context(driver, device, handle);
  COPPICE_RETURN_IF_ERROR(context.MakeCurrent());
  return context;
}

Context::Context(Context&& other) noexcept
    : driver_(other.driver_),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)) {}

Context::~Context() {
  if (handle_ != nullptr) driver_->table().DevicePrimaryCtxRelease(device_);
}

absl::Status Context::MakeCurrent() const {
  return driver_->Call<&DriverTable::CtxSetCurrent>(handle_);
}

std::string Context::DeviceName() const {
  std::array<char, 256> name{};
  const int capacity = static_cast<int>(name.size());
  const CuResult result = driver_->table().DeviceGetName(name.data(), capacity, device_);
  return result == CuResult::kSuccess ? name.data() : "";
}

absl::StatusOr<int64_t> Context::TotalMemory() const {
  size_t bytes = 0;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::DeviceTotalMem>(&bytes, device_));
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<Stream> Stream::Create(const Driver& driver) {
  const RelaxedCaptureScope relaxed(driver);
  CuStream handle = nullptr;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::StreamCreate>(&handle, kStreamNonBlocking));
  return Stream(driver, handle);
}

Stream::~Stream() {
  if (handle_ == nullptr) return;
  const RelaxedCaptureScope relaxed(*driver_);
  driver_->table().StreamDestroy(handle_);
}

absl::Status Stream::Synchronize() const {
  return SynchronizeStream(*driver_, handle_);
}

absl::Status SynchronizeStream(const Driver& driver, CuStream stream) {
  const RelaxedCaptureScope relaxed(driver);
  return driver.Call<&DriverTable::StreamSynchronize>(stream);
}

absl::StatusOr<Event> Event::Create(const Driver& driver, Timing timing) {
  CuEvent handle = nullptr;
  const unsigned flags = timing == Timing::kOn ? kEventDefault : kEventDisableTiming;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::EventCreate>(&handle, flags));
  return Event(driver, handle);
}

Event::~Event() {
  if (handle_ == nullptr) return;
  const RelaxedCaptureScope relaxed(*driver_);
  driver_->table().EventDestroy(handle_);
}

absl::Status Event::Record(CuStream stream) const {
  return driver_->Call<&DriverTable::EventRecord>(handle_, stream);
}

absl::Status Event::MakeWait(CuStream stream) const {
  return driver_->Call<&DriverTable::StreamWaitEvent>(stream, handle_, 0U);
}

absl::StatusOr<bool> Event::Complete() const {
  const RelaxedCaptureScope relaxed(*driver_);
  const CuResult result = driver_->table().EventQuery(handle_);
  if (result == CuResult::kSuccess) return true;
  if (result == CuResult::kNotReady) return false;
  return driver_->ErrorOf(result, "cuEventQuery");
}

absl::Status Event::Synchronize() const {
  const RelaxedCaptureScope relaxed(*driver_);
  return driver_->Call<&DriverTable::EventSynchronize>(handle_);
}

absl::StatusOr<double> Event::ElapsedUs(const Event& start) const {
  constexpr double kUsPerMs = 1000;
  const RelaxedCaptureScope relaxed(*driver_);
  float milliseconds = 0;
  const CuResult result = driver_->table().EventElapsedTime(&milliseconds, start.handle_, handle_);
  if (result == CuResult::kNotReady)
    return FailedPrecondition(
        "Event::ElapsedUs: the work before one of the events has not finished; wait for it first");
  if (result != CuResult::kSuccess) return driver_->ErrorOf(result, "cuEventElapsedTime");
  return kUsPerMs * milliseconds;
}

absl::StatusOr<DeviceMemory> DeviceMemory::Create(const Driver& driver, int64_t bytes) {
  if (bytes < 1) {
    return InvalidArgument("DeviceMemory::Create: {} bytes requested; request at least one", bytes);
  }
  const RelaxedCaptureScope relaxed(driver);
  CuDeviceAddress address = 0;
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::MemAlloc>(&address, static_cast<size_t>(bytes)));
  return DeviceMemory(driver, address, bytes);
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  const RelaxedCaptureScope relaxed(*driver_);
  driver_->table().MemFree(address_);
}

absl::StatusOr<HostMemory> HostMemory::Create(const Driver& driver, int64_t bytes) {
  if (bytes < 1)
    return InvalidArgument("HostMemory::Create: {} bytes requested; request at least one", bytes);
  const RelaxedCaptureScope relaxed(driver);
  void* data = nullptr;
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::MemHostAlloc>(&data, static_cast<size_t>(bytes), 0U));
  return HostMemory(driver, static_cast<std::byte*>(data), bytes);
}

HostMemory::~HostMemory() {
  if (data_ == nullptr) return;
  const RelaxedCaptureScope relaxed(*driver_);
  driver_->table().MemFreeHost(data_);
}

absl::StatusOr<uint64_t> AllocationIdOf(const Driver& driver, DeviceAddress address) {
  const RelaxedCaptureScope relaxed(driver);
  uint64_t id = 0;
  const CuResult result =
      driver.table().PointerGetAttribute(&id, CuPointerAttribute::kBufferId, address);
  if (result == CuResult::kSuccess) return id;
  if (result != CuResult::kInvalidValue) return driver.ErrorOf(result, "cuPointerGetAttribute");
  return MakeError(absl::StatusCode::kNotFound,
                   "AllocationIdOf: no live allocation holds address {:#x}; it was freed or is not "
                   "a device address",
                   address);
}

absl::StatusOr<bool> IsCapturing(const Driver& driver, CuStream stream) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::StreamIsCapturing>(stream, &status));
  return status != CuCaptureStatus::kNone;
}

RelaxedCaptureScope::RelaxedCaptureScope(const Driver& driver) : driver_(driver) {
  CuCaptureMode mode = CuCaptureMode::kRelaxed;
  const CuResult result = driver_.table().ThreadExchangeStreamCaptureMode(&mode);
  if (result == CuResult::kSuccess) previous_ = mode;
}

RelaxedCaptureScope::~RelaxedCaptureScope() {
  if (previous_.has_value()) driver_.table().ThreadExchangeStreamCaptureMode(&*previous_);
}

}  // namespace coppice
