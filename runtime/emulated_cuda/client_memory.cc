// Copies that wait, and memory of the host's, as other clients ask for them.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/emulated_cuda/client_entries.h"
#include "runtime/emulated_cuda/pools.h"
#include "runtime/emulator/client_abi.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/submit.h"

namespace coppice::emulated_cuda {

using emulator::Memory;
using emulator::MemoryKind;
using emulator::State;
using emulator::TheState;

namespace {

CuDeviceAddress AddressOf(const void* memory) {
  return reinterpret_cast<CuDeviceAddress>(memory);
}

void* HostOf(CuDeviceAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// A call that waits is one of the legacy stream.
CuResult Wait(CuResult submitted) {
  return submitted == CuResult::kSuccess ? emulator::StreamSynchronize(nullptr) : submitted;
}

bool IsDevice(CuDeviceAddress address) {
  const MemoryKind kind = TheState().memory->RegionAt(address).kind;
  return kind == MemoryKind::kDevice || kind == MemoryKind::kManaged;
}

bool IsHost(MemoryKind kind) {
  return kind == MemoryKind::kHost || kind == MemoryKind::kRegistered;
}

// CUDA's numbers of what there is to know about a pointer.
enum Attribute : int {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsLegacyIpcCapable = 10,
  kRangeStart = 11,
  kRangeBytes = 12,
  kMapped = 13,
  kAllowedHandleTypes = 14,
  kIsGpuDirectCapable = 15,
  kAccessFlags = 16,
  kMemPool = 17,
  kLast = 21,
};

template <typename Value>
CuResult Tell(void* data, Value value) {
  *static_cast<Value*>(data) = value;
  return CuResult::kSuccess;
}

// What is known of a region; kInvalidValue if nothing is.
CuResult TellAttribute(const Memory::Region& region,
                       CuPointerAttribute attribute,
                       CuDeviceAddress address,
                       void* data) {
  const State& state = TheState();
  switch (static_cast<int>(attribute)) {
    case kContext:
      return Tell(data, state.Context());
    case kMemoryType:
      return Tell(data, static_cast<int>(IsHost(region.kind) ? CuMemoryType::kHost
                                                             : CuMemoryType::kDevice));
    case kDevicePointer:
      return Tell(data, address);
    case kHostPointer:
      if (region.kind == MemoryKind::kDevice) return CuResult::kInvalidValue;
      return Tell(data, HostOf(address));
    case kSyncMemops:
    case kIsLegacyIpcCapable:
    case kIsGpuDirectCapable:
      return Tell(data, false);
    case kBufferId:
      return Tell(data, region.id);
    case kIsManaged:
      return Tell(data, region.kind == MemoryKind::kManaged);
    case kDeviceOrdinal:
      return Tell(data, region.device);
    case kRangeStart:
      return Tell(data, region.start);
    case kRangeBytes:
      return Tell(data, static_cast<size_t>(region.bytes));
    case kMapped:
      return Tell(data, true);
    case kAllowedHandleTypes:
      return Tell(data, uint64_t{0});
    case kAccessFlags:
      return Tell(data, static_cast<int>(region.access));
    case kMemPool:
      return Tell(data, PoolOf(region.start));
    default:
      return attribute < CuPointerAttribute{kContext} || attribute > CuPointerAttribute{kLast}
                 ? CuResult::kInvalidValue
                 : CuResult::kNotSupported;
  }
}

size_t BytesOf(CuPointerAttribute attribute) {
  switch (static_cast<int>(attribute)) {
    case kSyncMemops:
    case kIsLegacyIpcCapable:
    case kIsGpuDirectCapable:
    case kIsManaged:
    case kMapped:
      return sizeof(bool);
    case kMemoryType:
    case kDeviceOrdinal:
    case kAccessFlags:
      return sizeof(int);
    default:
      return sizeof(uint64_t);
  }
}

}  // namespace

CuResult MemcpyAsync(CuDeviceAddress target,
                     CuDeviceAddress source,
                     size_t bytes,
                     CuStream stream) {
  if (IsDevice(target)) {
    return IsDevice(source) ? emulator::MemcpyDtoDAsync(target, source, bytes, stream)
                            : emulator::MemcpyHtoDAsync(target, HostOf(source), bytes, stream);
  }
  return IsDevice(source) ? emulator::MemcpyDtoHAsync(HostOf(target), source, bytes, stream)
                          : emulator::SubmitCopy(stream, {.source_type = CuMemoryType::kHost,
                                                          .source_host = HostOf(source),
                                                          .target_type = CuMemoryType::kHost,
                                                          .target_host = HostOf(target),
                                                          .width_bytes = bytes});
}

CuResult Memcpy(CuDeviceAddress target, CuDeviceAddress source, size_t bytes) {
  return Wait(MemcpyAsync(target, source, bytes, nullptr));
}

CuResult MemcpyHtoD(CuDeviceAddress target, const void* source, size_t bytes) {
  return Wait(emulator::MemcpyHtoDAsync(target, source, bytes, nullptr));
}

CuResult MemcpyDtoH(void* target, CuDeviceAddress source, size_t bytes) {
  return Wait(emulator::MemcpyDtoHAsync(target, source, bytes, nullptr));
}

CuResult MemcpyDtoD(CuDeviceAddress target, CuDeviceAddress source, size_t bytes) {
  return Wait(emulator::MemcpyDtoDAsync(target, source, bytes, nullptr));
}

CuResult MemsetD8(CuDeviceAddress target, unsigned char value, size_t count) {
  return Wait(emulator::MemsetD8Async(target, value, count, nullptr));
}

CuResult MemsetD16(CuDeviceAddress target, unsigned short value, size_t count) {
  return Wait(MemsetD16Async(target, value, count, nullptr));
}

CuResult MemsetD32(CuDeviceAddress target, unsigned value, size_t count) {
  return Wait(emulator::MemsetD32Async(target, value, count, nullptr));
}

CuResult MemsetD16Async(CuDeviceAddress target,
                        unsigned short value,
                        size_t count,
                        CuStream stream) {
  return emulator::SubmitFill(
      stream, {.target = target, .value = value, .element_size = 2, .width = count});
}

CuResult MemGetAddressRange(CuDeviceAddress* start, size_t* bytes, CuDeviceAddress address) {
  const Memory::Region region = TheState().memory->RegionAt(address);
  if (region.kind == MemoryKind::kNone) return CuResult::kNotFound;
  if (start != nullptr) *start = region.start;
  if (bytes != nullptr) *bytes = static_cast<size_t>(region.bytes);
  return CuResult::kSuccess;
}

CuResult MemAllocManaged(CuDeviceAddress* address, size_t bytes, unsigned flags) {
  constexpr unsigned kGlobal = 1;
  constexpr unsigned kHostOnly = 2;
  if (address == nullptr || bytes == 0 || (flags != kGlobal && flags != kHostOnly))
    return CuResult::kInvalidValue;
  if (bytes > static_cast<size_t>(INT64_MAX / 2)) return CuResult::kOutOfMemory;
  State& state = TheState();
  const CuResult result = state.memory->Allocate(address, static_cast<int64_t>(bytes),
                                                 MemoryKind::kManaged, state.Device());
  if (result == CuResult::kSuccess)
    state.processor.NoteWritten(*address, static_cast<int64_t>(bytes));
  return result;
}

CuResult MemAllocHost(void** memory, size_t bytes) {
  return emulator::MemHostAlloc(memory, bytes, 0);
}

CuResult MemHostRegister(void* memory, size_t bytes, unsigned flags) {
  constexpr unsigned kPlainFlags = 0x3;  // Portable, mapped.
  if (memory == nullptr || bytes == 0 || bytes > static_cast<size_t>(INT64_MAX / 2))
    return CuResult::kInvalidValue;
  if ((flags & ~kPlainFlags) != 0) return CuResult::kNotSupported;
  State& state = TheState();
  const CuResult result =
      state.memory->Register(AddressOf(memory), static_cast<int64_t>(bytes), state.Device());
  if (result == CuResult::kSuccess)
    state.processor.NoteWritten(AddressOf(memory), static_cast<int64_t>(bytes));
  return result;
}

CuResult MemHostUnregister(void* memory) {
  State& state = TheState();
  state.scheduler.WaitForAll();
  return state.memory->Unregister(AddressOf(memory));
}

CuResult MemHostGetDevicePointer(CuDeviceAddress* address, void* memory, unsigned flags) {
  if (address == nullptr || flags != 0) return CuResult::kInvalidValue;
  if (!IsHost(TheState().memory->RegionAt(AddressOf(memory)).kind)) return CuResult::kInvalidValue;
  *address = AddressOf(memory);
  return CuResult::kSuccess;
}

CuResult PointerGetAnyAttribute(void* data, CuPointerAttribute attribute, CuDeviceAddress address) {
  if (data == nullptr) return CuResult::kInvalidValue;
  const Memory::Region region = TheState().memory->RegionAt(address);
  if (region.kind == MemoryKind::kNone) return CuResult::kInvalidValue;
  return TellAttribute(region, attribute, address, data);
}

// Of memory that nobody knows it answers zeros, and success.
CuResult PointerGetAttributes(unsigned count,
                              const CuPointerAttribute* attributes,
                              void** values,
                              CuDeviceAddress address) {
  if (count == 0 || attributes == nullptr || values == nullptr) return CuResult::kInvalidValue;
  constexpr int kNoDevice = -2;
  const Memory::Region region = TheState().memory->RegionAt(address);
  for (unsigned i = 0; i < count; ++i) {
    std::memset(values[i], 0, BytesOf(attributes[i]));
    if (region.kind == MemoryKind::kNone) {
      if (static_cast<int>(attributes[i]) == kDeviceOrdinal) Tell(values[i], kNoDevice);
      continue;
    }
    const CuResult result = TellAttribute(region, attributes[i], address, values[i]);
    if (result == CuResult::kNotSupported) return result;
  }
  return CuResult::kSuccess;
}

CuResult MemRetainAllocationHandle(CuMemoryHandle* handle, void* address) {
  if (handle == nullptr) return CuResult::kInvalidValue;
  return TheState().memory->Retain(AddressOf(address), handle);
}

}  // namespace coppice::emulated_cuda
