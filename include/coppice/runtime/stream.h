// Move-only owners of the primary context, streams, events and plain allocations; and ids
// that distinguish allocations.
//
// Units: bytes, microseconds. Threads: an owner is used by one thread at a time; the handles inside
// follow CUDA's rules. Every owner keeps a reference to its Driver, which must outlive it.
// Destructors ignore failures: the handle is gone either way.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

namespace coppice {

// The retained primary context of one device.
class Context {
 public:
  // Initialises the driver, retains the primary context of device `ordinal` and makes it current on
  // this thread. Errors: kUnavailable if there is no such device.
  static absl::StatusOr<Context> Create(const Driver& driver, int ordinal = 0);
  Context(Context&& other) noexcept;
  Context& operator=(Context&&) = delete;
  ~Context();

  // Makes the context current on the calling thread; every thread needs it before its first call.
  absl::Status MakeCurrent() const;

  const Driver& driver() const { return *driver_; }
  CuDevice device() const { return device_; }
  CuContext handle() const { return handle_; }

  std::string DeviceName() const;  // Empty if the driver cannot say.
  absl::StatusOr<int64_t> TotalMemory() const;

 private:
  Context(const Driver& driver, CuDevice device, CuContext handle)
      : driver_(&driver), device_(device), handle_(handle) {}

  const Driver* driver_;
  CuDevice device_;
  CuContext handle_;  // Null once moved from.
};

// A non-blocking stream: its work is not ordered with the legacy stream.
class Stream {
 public:
  static absl::StatusOr<Stream> Create(const Driver& driver);
  Stream(Stream&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream();

  // Waits on the host until all queued work has run.
  absl::Status Synchronize() const;

  CuStream handle() const { return handle_; }

 private:
  Stream(const Driver& driver, CuStream handle) : driver_(&driver), handle_(handle) {}

  const Driver* driver_;
  CuStream handle_;
};

// An event, with or without timing.
class Event {
 public:
  enum class Timing : uint8_t { kOff, kOn };

  static absl::StatusOr<Event> Create(const Driver& driver, Timing timing = Timing::kOff);
  Event(Event&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  absl::Status Record(CuStream stream) const;    // Marks the work queued on `stream` so far.
  absl::Status MakeWait(CuStream stream) const;  // Later work on `stream` waits for the mark.
  absl::StatusOr<bool> Complete() const;         // True once the marked work has run.
  absl::Status Synchronize() const;              // Waits on the host for the marked work.

  // Microseconds from the mark of `start` to that of this event, by the driver's clock. On a GPU it
  // is the device's clock, so the time includes all that ran there meanwhile.
  //
  // Errors: kFailedPrecondition while either's marked work has not run; kInvalidArgument if either
  // has no timing or was never recorded. Runs in a RelaxedCaptureScope.
  absl::StatusOr<double> ElapsedUs(const Event& start) const;

  CuEvent handle() const { return handle_; }

 private:
  Event(const Driver& driver, CuEvent handle) : driver_(&driver), handle_(handle) {}

  const Driver* driver_;
  CuEvent handle_;
};

// Bytes from cuMemAlloc: weights, caches and other memory that outlives every graph.
class DeviceMemory {
 public:
  // Errors: kInvalidArgument if bytes < 1; kResourceExhausted if the device has no room.
  static absl::StatusOr<DeviceMemory> Create(const Driver& driver, int64_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept
      : driver_(other.driver_), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  DeviceAddress address() const { return address_; }
  int64_t bytes() const { return bytes_; }

 private:
  DeviceMemory(const Driver& driver, DeviceAddress address, int64_t bytes)
      : driver_(&driver), address_(address), bytes_(bytes) {}

  const Driver* driver_;
  DeviceAddress address_;
  int64_t bytes_;
};

// Waits on the host for all work on `stream`. Runs in a RelaxedCaptureScope. Errors: the driver's.
absl::Status SynchronizeStream(const Driver& driver, CuStream stream);

// Host memory from cuMemHostAlloc. Copies from a device to it run while the host continues. It
// stays readable after a fault of the device.
class HostMemory {
 public:
  // Errors: kInvalidArgument if bytes < 1; kResourceExhausted if the host has no room.
  static absl::StatusOr<HostMemory> Create(const Driver& driver, int64_t bytes);
  HostMemory(HostMemory&& other) noexcept
      : driver_(other.driver_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  HostMemory(const Driver& driver, std::byte* data, int64_t bytes)
      : driver_(&driver), data_(data), bytes_(bytes) {}

  const Driver* driver_;
  std::byte* data_;
  int64_t bytes_;
};

// The id of the live allocation that holds `address`. No other allocation of this process, past or
// future, has the same id. So a stored id shows later whether the memory was freed, even if its
// address was reused. For cuMemAlloc it is the driver's id. For mapped memory the id changes when
// other physical memory is mapped there, if the driver distinguishes mappings.
//
// Errors: kNotFound if no live allocation holds the address. Cost: three driver calls; a failure
// allocates. Runs in a RelaxedCaptureScope.
absl::StatusOr<uint64_t> AllocationIdOf(const Driver& driver, DeviceAddress address);

// Whether `stream` captures. True also if its capture was invalidated. Cost: one driver call, which
// a capture allows.
absl::StatusOr<bool> IsCapturing(const Driver& driver, CuStream stream);

// Puts the calling thread into relaxed capture mode while it lives, so that a call that captures
// forbid cannot invalidate a capture of the application.
class RelaxedCaptureScope {
 public:
  explicit RelaxedCaptureScope(const Driver& driver);
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  const Driver& driver_;
  std::optional<CuCaptureMode> previous_;  // Empty if the driver refused the exchange.
};

}  // namespace coppice
