// The driver entries for device memory. Sizes that do not fit the model are refused here, so that
// Memory works in int64_t.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "runtime/emulator/entries.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/state.h"

namespace coppice::emulator {
namespace {

constexpr int64_t kReservationBytes = 4096;  // What a reservation's size is a multiple of.

bool IsMultiple(uint64_t value, int64_t of) {
  return value % static_cast<uint64_t>(of) == 0;
}

bool IsDeviceMemory(const CuMemAllocationProperties& properties) {
  return properties.type == CuMemAllocationType::kPinned &&
         properties.requested_handle_types == 0 &&
         properties.location.type == CuMemLocationType::kDevice &&
         TheState().IsDevice(properties.location.id) &&
         properties.win32_handle_metadata == nullptr && properties.compression_type == 0 &&
         properties.usage == 0 &&
         std::all_of(std::begin(properties.reserved), std::end(properties.reserved),
                     [](unsigned char byte) { return byte == 0; });
}

bool IsSize(size_t bytes) {
  return bytes > 0 && bytes <= static_cast<size_t>(INT64_MAX / 2);
}

}  // namespace

CuResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return CuResult::kInvalidValue;
  const State& state = TheState();
  const PhysicalMemory& physical = state.memory->physical(state.Device());
  *free_bytes = static_cast<size_t>(physical.capacity_bytes() - physical.used_bytes());
  *total_bytes = static_cast<size_t>(physical.capacity_bytes());
  return CuResult::kSuccess;
}

CuResult MemAlloc(CuDeviceAddress* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return CuResult::kInvalidValue;
  if (!IsSize(bytes)) return CuResult::kOutOfMemory;
  State& state = TheState();
  return state.memory->Allocate(address, static_cast<int64_t>(bytes), MemoryKind::kDevice,
                                state.Device());
}

CuResult MemFree(CuDeviceAddress address) {
  State& state = TheState();
  const MemoryKind kind = state.memory->RegionAt(address).kind;
  if (kind != MemoryKind::kDevice && kind != MemoryKind::kManaged) return CuResult::kInvalidValue;
  // The result of the wait is of no concern: the memory of a dead context is freed all the same.
  state.scheduler.WaitForAll();
  return state.memory->Free(address);
}

CuResult MemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  constexpr unsigned kFlags = 0x7;  // Portable, mapped, write-combined: all of no effect here.
  if (memory == nullptr || bytes == 0 || flags > kFlags) return CuResult::kInvalidValue;
  if (!IsSize(bytes)) return CuResult::kOutOfMemory;
  State& state = TheState();
  CuDeviceAddress address = 0;
  const CuResult result = state.memory->Allocate(&address, static_cast<int64_t>(bytes),
                                                 MemoryKind::kHost, state.Device());
  if (result != CuResult::kSuccess) return result;
  state.processor.NoteWritten(address, static_cast<int64_t>(bytes));
  *memory = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  return CuResult::kSuccess;
}

CuResult MemFreeHost(void* memory) {
  State& state = TheState();
  const auto address = reinterpret_cast<CuDeviceAddress>(memory);
  if (state.memory->RegionAt(address).kind != MemoryKind::kHost) return CuResult::kInvalidValue;
  state.scheduler.WaitForAll();  // As of MemFree.
  return state.memory->Free(address);
}

CuResult MemAddressReserve(CuDeviceAddress* address,
                           size_t bytes,
                           size_t alignment,
                           CuDeviceAddress /*hint*/,
                           unsigned long long flags) {  // NOLINT(google-runtime-int)
  if (address == nullptr || flags != 0 || !IsSize(bytes) || !IsMultiple(bytes, kReservationBytes))
    return CuResult::kInvalidValue;
  if (alignment != 0 && (alignment & (alignment - 1)) != 0) return CuResult::kInvalidValue;
  if (!IsSize(bytes + alignment)) return CuResult::kOutOfMemory;
  return TheState().memory->Reserve(address, static_cast<int64_t>(bytes),
                                    static_cast<int64_t>(alignment));
}

CuResult MemAddressFree(CuDeviceAddress address, size_t bytes) {
  if (!IsSize(bytes)) return CuResult::kInvalidValue;
  return TheState().memory->Unreserve(address, static_cast<int64_t>(bytes));
}

CuResult MemCreate(CuMemoryHandle* handle,
                   size_t bytes,
                   const CuMemAllocationProperties* properties,
                   unsigned long long flags) {  // NOLINT(google-runtime-int)
  if (handle == nullptr || properties == nullptr || flags != 0 || !IsDeviceMemory(*properties))
    return CuResult::kInvalidValue;
  if (bytes == 0 || !IsMultiple(bytes, kGranularity)) return CuResult::kInvalidValue;
  if (!IsSize(bytes)) return CuResult::kOutOfMemory;
  return TheState().memory->CreateHandle(handle, static_cast<int64_t>(bytes),
                                         properties->location.id);
}

CuResult MemRelease(CuMemoryHandle handle) {
  return TheState().memory->Release(handle);
}

CuResult MemMap(CuDeviceAddress address,
                size_t bytes,
                size_t offset,
                CuMemoryHandle handle,
                unsigned long long flags) {  // NOLINT(google-runtime-int)
  if (flags != 0 || offset != 0 || !IsSize(bytes) || !IsMultiple(bytes, kGranularity) ||
      !IsMultiple(address, kGranularity))
    return CuResult::kInvalidValue;
  return TheState().memory->Map(address, static_cast<int64_t>(bytes), handle);
}

CuResult MemUnmap(CuDeviceAddress address, size_t bytes) {
  if (!IsSize(bytes)) return CuResult::kInvalidValue;
  return TheState().memory->Unmap(address, static_cast<int64_t>(bytes));
}

CuResult MemSetAccess(CuDeviceAddress address,
                      size_t bytes,
                      const CuMemAccessDescriptor* descriptors,
                      size_t count) {
  if (!IsSize(bytes) || descriptors == nullptr || count != 1) return CuResult::kInvalidValue;
  const CuMemAccessDescriptor& descriptor = *descriptors;
  const int device = descriptor.location.id;
  if (descriptor.location.type != CuMemLocationType::kDevice || !TheState().IsDevice(device))
    return CuResult::kInvalidValue;
  switch (descriptor.flags) {
    case CuMemAccessFlags::kNone:
    case CuMemAccessFlags::kRead:
    case CuMemAccessFlags::kReadWrite:
      return TheState().memory->SetAccess(address, static_cast<int64_t>(bytes), descriptor.flags,
                                          device);
  }
  return CuResult::kInvalidValue;
}

CuResult MemGetAllocationGranularity(size_t* bytes,
                                     const CuMemAllocationProperties* properties,
                                     CuMemGranularity option) {
  if (bytes == nullptr || properties == nullptr || !IsDeviceMemory(*properties))
    return CuResult::kInvalidValue;
  if (option != CuMemGranularity::kMinimum && option != CuMemGranularity::kRecommended)
    return CuResult::kInvalidValue;
  *bytes = static_cast<size_t>(kGranularity);
  return CuResult::kSuccess;
}

CuResult PointerGetAttribute(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
  if (data == nullptr || attribute != CuPointerAttribute::kBufferId) return CuResult::kInvalidValue;
  const uint64_t id = TheState().memory->RegionAt(address).id;
  if (id == 0) return CuResult::kInvalidValue;
  *static_cast<uint64_t*>(data) = id;
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
