// Reserving, mapping and unmapping. Driver rules that shape this file: an unmap covers exactly one
// handle, mapped memory stays out of reach until its access is set, and a capture of the
// application may forbid any of it to a thread that is not in relaxed mode.

#include "coppice/allocator/arena.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

namespace coppice {
namespace {

CuMemAllocationProperties PropertiesOf(CuDevice device) {
  CuMemAllocationProperties properties;
  properties.type = CuMemAllocationType::kPinned;
  properties.location = {.type = CuMemLocationType::kDevice, .id = device};
  return properties;
}

// Room for so many, of which there will be more: asked for one by one they cost one copy each.
template <typename T>
void ReserveFor(size_t count, std::vector<T>& values) {
  if (count > values.capacity()) values.reserve(std::max(count, 2 * values.capacity()));
}

absl::Status ValidateOptions(const Arena::Options& options, int64_t granularity) {
  if (options.window_count < 1 || options.window_bytes < 1) {
    return InvalidArgument(
        "Arena::Create: {} windows of {} bytes; use at least 1 window of at least 1 byte",
        options.window_count, options.window_bytes);
  }
  if (options.window_bytes > INT64_MAX / options.window_count - granularity) {
    return InvalidArgument(
        "Arena::Create: {} windows of {} bytes exceed 2^63 bytes; use fewer or smaller windows",
        options.window_count, options.window_bytes);
  }
  if (options.handle_bytes < granularity || options.handle_bytes % granularity != 0) {
    return InvalidArgument(
        "Arena::Create: handle_bytes is {}; use a positive multiple of the granularity of {} bytes",
        options.handle_bytes, granularity);
  }
  return absl::OkStatus();
}

// The driver's error with its code and payload, told with what was asked for.
absl::Status WithFigures(const absl::Status& error, int64_t missing, int64_t mapped) {
  absl::Status status = MakeError(error.code(),
                                  "Arena::Grow: cannot add {} bytes to the {} bytes already "
                                  "mapped; free device memory or lower the budget ({})",
                                  missing, mapped, MessageOf(error));
  error.ForEachPayload(
      [&status](auto type, const auto& payload) { status.SetPayload(type, payload); });
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(const Driver& driver,
                                                     CuDevice device,
                                                     const Options& options) {
  const CuMemAllocationProperties properties = PropertiesOf(device);
  size_t granularity = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemGetAllocationGranularity>(
      &granularity, &properties, CuMemGranularity::kMinimum));
  std::unique_ptr<Arena> arena(new Arena(driver, device));
  arena->granularity_ = static_cast<int64_t>(granularity);
  COPPICE_RETURN_IF_ERROR(ValidateOptions(options, arena->granularity_));
  arena->handle_bytes_ = options.handle_bytes;
  arena->window_bytes_ = AlignUp(options.window_bytes, arena->granularity_);
  arena->windows_.resize(static_cast<size_t>(options.window_count));
  const size_t reserved = static_cast<size_t>(arena->window_bytes_ * options.window_count);
  const RelaxedCaptureScope relaxed(driver);
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::MemAddressReserve>(&arena->base_, reserved, granularity, 0u, 0u));
  return arena;
}

Arena::~Arena() {
  if (base_ == 0) return;  // The reservation failed.
  const RelaxedCaptureScope relaxed(driver_);
  for (int window = 0; window < static_cast<int>(windows_.size()); ++window) {
    ReleaseDoubtful(window);
    ReleaseAll(base(window), windows_[static_cast<size_t>(window)].handles);
  }
  for (const Handle& spare : spares_)
    driver_.table().MemRelease(spare.handle);
  const size_t reserved = static_cast<size_t>(window_bytes_) * windows_.size();
  driver_.table().MemAddressFree(base_, reserved);
}

absl::Status Arena::Grow(int window, int64_t bytes) {
  const DeviceAddress start = base(window);
  Window& grown = windows_[static_cast<size_t>(window)];
  if (bytes <= grown.mapped_bytes) return absl::OkStatus();
  if (bytes > window_bytes_) {
    return MakeError(
        absl::StatusCode::kOutOfRange,
        "Arena::Grow: {} bytes are requested from window {}, which has only {}; raise window_bytes",
        bytes, window, window_bytes_);
  }
  const RelaxedCaptureScope relaxed(driver_);
  ReleaseDoubtful(window);
  const int64_t missing = MissingBytes(window, bytes);
  const DeviceAddress end = start + static_cast<DeviceAddress>(grown.mapped_bytes);
  std::vector<Handle> handles;
  absl::Cleanup undo = [&] { ReleaseAll(end, handles); };
  if (absl::Status status = MapHandles(end, missing, handles); !status.ok())
    return WithFigures(status, missing, grown.mapped_bytes);
  const CuMemAccessDescriptor access{.location = PropertiesOf(device_).location,
                                     .flags = CuMemAccessFlags::kReadWrite};
  if (absl::Status status = driver_.Call<&DriverTable::MemSetAccess>(
          end, static_cast<size_t>(missing), &access, size_t{1});
      !status.ok())
    return WithFigures(status, missing, grown.mapped_bytes);
  ReserveFor(grown.handles.size() + handles.size(), grown.handles);
  std::move(undo).Cancel();
  grown.handles.insert(grown.handles.end(), handles.begin(), handles.end());
  grown.mapped_bytes += missing;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Arena::Trim(int window, int64_t bytes) {
  const DeviceAddress start = base(window);
  Window& trimmed = windows_[static_cast<size_t>(window)];
  const RelaxedCaptureScope relaxed(driver_);
  ReleaseDoubtful(window);
  const int64_t before = trimmed.mapped_bytes;
  while (!trimmed.handles.empty()) {
    const Handle last = trimmed.handles.back();
    const int64_t offset = trimmed.mapped_bytes - last.bytes;
    if (offset < bytes) break;
    trimmed.handles.pop_back();
    trimmed.mapped_bytes = offset;
    // A driver that reports an error of earlier work has unmapped, one that refuses has not.
    if (absl::Status status = driver_.Call<&DriverTable::MemUnmap>(
            start + static_cast<DeviceAddress>(offset), static_cast<size_t>(last.bytes));
        !status.ok()) {
      trimmed.doubtful = last;
      return status;
    }
    const auto larger = std::find_if(spares_.begin(), spares_.end(),
                                     [&](const Handle& spare) { return spare.bytes > last.bytes; });
    spares_.insert(larger, last);
    spare_bytes_ += last.bytes;
  }
  return before - trimmed.mapped_bytes;
}

int64_t Arena::TrimmableBytes(int window, int64_t bytes) const {
  const int64_t mapped = mapped_bytes(window);
  const std::vector<Handle>& handles = windows_[static_cast<size_t>(window)].handles;
  int64_t kept = mapped;
  for (auto last = handles.rbegin(); last != handles.rend() && kept - last->bytes >= bytes; ++last)
    kept -= last->bytes;
  return mapped - kept;
}

int64_t Arena::MissingBytes(int window, int64_t bytes) const {
  return std::max<int64_t>(AlignUp(bytes, granularity_) - mapped_bytes(window), 0);
}

int64_t Arena::CreatedBytes(int window, int64_t bytes) const {
  int64_t missing = MissingBytes(window, bytes);
  for (size_t i = spares_.size(); i-- > 0;) {
    if (spares_[i].bytes <= missing) missing -= spares_[i].bytes;
  }
  return missing;
}

DeviceAddress Arena::base(int window) const {
  COPPICE_CHECK(window >= 0 && static_cast<size_t>(window) < windows_.size(), "no such window");
  return base_ + static_cast<DeviceAddress>(window_bytes_) * static_cast<DeviceAddress>(window);
}

int64_t Arena::mapped_bytes(int window) const {
  COPPICE_CHECK(window >= 0 && static_cast<size_t>(window) < windows_.size(), "no such window");
  return windows_[static_cast<size_t>(window)].mapped_bytes;
}

absl::Status Arena::ReleaseSpares() {
  const RelaxedCaptureScope relaxed(driver_);
  while (!spares_.empty()) {
    const Handle spare = spares_.back();
    spares_.pop_back();
    spare_bytes_ -= spare.bytes;
    --handle_count_;
    COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemRelease>(spare.handle));
  }
  return absl::OkStatus();
}

absl::StatusOr<Arena::Handle> Arena::TakeHandle(int64_t bytes) {
  for (size_t i = spares_.size(); i-- > 0;) {
    const Handle spare = spares_[i];
    if (spare.bytes > bytes) continue;
    spares_.erase(spares_.begin() + static_cast<ptrdiff_t>(i));
    spare_bytes_ -= spare.bytes;
    return spare;
  }
  const CuMemAllocationProperties properties = PropertiesOf(device_);
  Handle made{.bytes = std::min(handle_bytes_, bytes)};
  // Room for every handle there is, so that a Trim never allocates.
  ReserveFor(handle_count_ + 1, spares_);
  COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemCreate>(
      &made.handle, static_cast<size_t>(made.bytes), &properties, 0u));
  ++handle_count_;
  return made;
}

absl::Status Arena::MapHandles(DeviceAddress address, int64_t bytes, std::vector<Handle>& handles) {
  while (bytes > 0) {
    ReserveFor(handles.size() + 1, handles);
    COPPICE_ASSIGN_OR_RETURN(const Handle next, TakeHandle(bytes));
    const size_t size = static_cast<size_t>(next.bytes);
    const CuResult mapped = driver_.table().MemMap(address, size, 0, next.handle, 0);
    if (mapped != CuResult::kSuccess) {
      driver_.table().MemRelease(next.handle);
      --handle_count_;
      return driver_.ErrorOf(mapped, "cuMemMap");
    }
    handles.push_back(next);
    address += static_cast<DeviceAddress>(next.bytes);
    bytes -= next.bytes;
  }
  return absl::OkStatus();
}

void Arena::ReleaseDoubtful(int window) {
  Window& doubted = windows_[static_cast<size_t>(window)];
  if (!doubted.doubtful.has_value()) return;
  ReleaseAll(base(window) + static_cast<DeviceAddress>(doubted.mapped_bytes),
             {&*doubted.doubtful, 1});
  doubted.doubtful.reset();
}

void Arena::ReleaseAll(DeviceAddress address, std::span<const Handle> handles) {
  for (const Handle& handle : handles) {
    driver_.table().MemUnmap(address, static_cast<size_t>(handle.bytes));
    driver_.table().MemRelease(handle.handle);
    --handle_count_;
    address += static_cast<DeviceAddress>(handle.bytes);
  }
}

}  // namespace coppice
