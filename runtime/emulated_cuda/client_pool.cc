// Pools, as other clients ask for them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "runtime/emulated_cuda/client_entries.h"
#include "runtime/emulated_cuda/pools.h"
#include "runtime/emulator/capture.h"
#include "runtime/emulator/handles.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/submit.h"

namespace coppice::emulated_cuda {

using emulator::HandleTable;
using emulator::MemoryKind;
using emulator::ReleaseWork;
using emulator::State;
using emulator::StreamState;
using emulator::TheState;

namespace {

struct Pool {
  int device = 0;
  bool is_default = false;
  int reuse[3] = {1, 1, 1};  // What of its memory may be used again, which is never needed.
  uint64_t release_threshold = 0;
  uint64_t used_high = 0;
  std::map<CuDeviceAddress, uint64_t> allocations;  // Bytes by start; freed ones until looked at.
};

// Guarded by the emulator's mutex.
struct Pools {
  HandleTable<MemPool, Pool> pools;
  absl::flat_hash_map<int, MemPool> defaults;  // By device.
  absl::flat_hash_map<int, MemPool> chosen;    // By device, if it was given another.
};

Pools& ThePools() {
  static Pools& pools = *new Pools;  // For threads that are left when the process ends.
  return pools;
}

MemPool DefaultOf(int device) {
  MemPool& pool = ThePools().defaults[device];
  if (pool == nullptr) {
    auto made = std::make_unique<Pool>();
    made->device = device;
    made->is_default = true;
    pool = ThePools().pools.Insert(std::move(made));
  }
  return pool;
}

MemPool ChosenOf(int device) {
  const auto found = ThePools().chosen.find(device);
  return found == ThePools().chosen.end() ? DefaultOf(device) : found->second;
}

// Bytes that are allocated. What streams have freed since somebody asked is forgotten.
uint64_t UsedOf(Pool& pool) {
  uint64_t used = 0;
  std::erase_if(pool.allocations, [](const auto& entry) {
    return TheState().memory->RegionAt(entry.first).start != entry.first;
  });
  for (const auto& [start, bytes] : pool.allocations)
    used += bytes;
  pool.used_high = std::max(pool.used_high, used);
  return used;
}

CuResult AllocateFrom(CuDeviceAddress* address, size_t bytes, MemPool handle, CuStream stream) {
  State& state = TheState();
  Pool* const pool = ThePools().pools.Find(handle);
  if (address == nullptr || pool == nullptr) return CuResult::kInvalidValue;
  StreamState* used = nullptr;
  if (const CuResult result = emulator::UseStream(state, stream, &used);
      result != CuResult::kSuccess)
    return result;
  if (used->capture != nullptr) return CuResult::kNotSupported;  // A node with memory of its own.
  if (pool->device != used->device || bytes == 0) return CuResult::kInvalidValue;
  if (bytes > static_cast<size_t>(INT64_MAX / 2)) return CuResult::kOutOfMemory;
  const auto allocate = [&] {
    return state.memory->Allocate(address, static_cast<int64_t>(bytes), MemoryKind::kDevice,
                                  pool->device);
  };
  CuResult result = allocate();
  if (result == CuResult::kOutOfMemory) {  // What is freed in stream order may still be there.
    state.scheduler.WaitForAll();
    result = allocate();
  }
  if (result != CuResult::kSuccess) return result;
  pool->allocations[*address] = bytes;
  UsedOf(*pool);
  return CuResult::kSuccess;
}

bool IsPool(const MemPoolProperties& properties) {
  return properties.type == CuMemAllocationType::kPinned && properties.handle_types == 0 &&
         properties.location.type == CuMemLocationType::kDevice &&
         TheState().IsDevice(properties.location.id) && properties.win32_attributes == nullptr &&
         properties.usage == 0 &&
         std::ranges::all_of(properties.reserved, [](unsigned char byte) { return byte == 0; });
}

}  // namespace

MemPool PoolOf(CuDeviceAddress start) {
  for (const auto& [handle, pool] : ThePools().pools)
    if (pool->allocations.contains(start)) return handle;
  return nullptr;
}

CuResult DeviceGetDefaultMemPool(MemPool* pool, CuDevice device) {
  if (pool == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  *pool = DefaultOf(device);
  return CuResult::kSuccess;
}

CuResult DeviceGetMemPool(MemPool* pool, CuDevice device) {
  if (pool == nullptr) return CuResult::kInvalidValue;
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  *pool = ChosenOf(device);
  return CuResult::kSuccess;
}

CuResult DeviceSetMemPool(CuDevice device, MemPool pool) {
  const Pool* const found = ThePools().pools.Find(pool);
  if (!TheState().IsDevice(device)) return CuResult::kInvalidDevice;
  if (found == nullptr || found->device != device) return CuResult::kInvalidValue;
  ThePools().chosen[device] = pool;
  return CuResult::kSuccess;
}

CuResult MemPoolCreate(MemPool* pool, const MemPoolProperties* properties) {
  if (pool == nullptr || properties == nullptr) return CuResult::kInvalidValue;
  if (properties->handle_types != 0) return CuResult::kNotSupported;  // For other processes.
  if (!IsPool(*properties)) return CuResult::kInvalidValue;
  auto made = std::make_unique<Pool>();
  made->device = properties->location.id;
  *pool = ThePools().pools.Insert(std::move(made));
  return CuResult::kSuccess;
}

// What was allocated from it stays.
CuResult MemPoolDestroy(MemPool pool) {
  const Pool* const found = ThePools().pools.Find(pool);
  if (found == nullptr || found->is_default) return CuResult::kInvalidValue;
  if (ChosenOf(found->device) == pool) ThePools().chosen.erase(found->device);
  ThePools().pools.Take(pool);
  return CuResult::kSuccess;
}

CuResult MemPoolTrimTo(MemPool pool, size_t /*bytes*/) {
  return ThePools().pools.Find(pool) == nullptr ? CuResult::kInvalidValue : CuResult::kSuccess;
}

CuResult MemPoolSetAttribute(MemPool pool, MemPoolAttribute attribute, void* value) {
  Pool* const found = ThePools().pools.Find(pool);
  if (found == nullptr || value == nullptr) return CuResult::kInvalidValue;
  switch (attribute) {
    case MemPoolAttribute::kReuseFollowEvents:
    case MemPoolAttribute::kReuseOpportunistic:
    case MemPoolAttribute::kReuseInternal:
      found->reuse[static_cast<int>(attribute) - 1] = *static_cast<int*>(value) != 0 ? 1 : 0;
      return CuResult::kSuccess;
    case MemPoolAttribute::kReleaseThreshold:
      found->release_threshold = *static_cast<uint64_t*>(value);
      return CuResult::kSuccess;
    case MemPoolAttribute::kReservedHigh:
    case MemPoolAttribute::kUsedHigh:
      if (*static_cast<uint64_t*>(value) != 0) return CuResult::kInvalidValue;
      found->used_high = 0;
      return CuResult::kSuccess;
    default:
      return CuResult::kInvalidValue;
  }
}

CuResult MemPoolGetAttribute(MemPool pool, MemPoolAttribute attribute, void* value) {
  Pool* const found = ThePools().pools.Find(pool);
  if (found == nullptr || value == nullptr) return CuResult::kInvalidValue;
  auto* const bytes = static_cast<uint64_t*>(value);
  switch (attribute) {
    case MemPoolAttribute::kReuseFollowEvents:
    case MemPoolAttribute::kReuseOpportunistic:
    case MemPoolAttribute::kReuseInternal:
      *static_cast<int*>(value) = found->reuse[static_cast<int>(attribute) - 1];
      return CuResult::kSuccess;
    case MemPoolAttribute::kReleaseThreshold:
      *bytes = found->release_threshold;
      return CuResult::kSuccess;
    case MemPoolAttribute::kReservedNow:
    case MemPoolAttribute::kUsedNow:
      *bytes = UsedOf(*found);
      return CuResult::kSuccess;
    case MemPoolAttribute::kReservedHigh:
    case MemPoolAttribute::kUsedHigh:
      *bytes = std::max(UsedOf(*found), found->used_high);
      return CuResult::kSuccess;
  }
  return CuResult::kInvalidValue;
}

CuResult MemPoolSetAccess(MemPool pool, const CuMemAccessDescriptor* descriptors, size_t count) {
  const Pool* const found = ThePools().pools.Find(pool);
  if (found == nullptr || (descriptors == nullptr && count > 0)) return CuResult::kInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    const CuMemAccessDescriptor& wanted = descriptors[i];
    if (wanted.location.type != CuMemLocationType::kDevice ||
        !TheState().IsDevice(wanted.location.id))
      return CuResult::kInvalidValue;
    // Its own device keeps its access, and no other can have any.
    const bool own = wanted.location.id == found->device;
    if (own != (wanted.flags == CuMemAccessFlags::kReadWrite)) return CuResult::kInvalidDevice;
  }
  return CuResult::kSuccess;
}

CuResult MemPoolGetAccess(CuMemAccessFlags* flags, MemPool pool, CuMemLocation* location) {
  const Pool* const found = ThePools().pools.Find(pool);
  if (flags == nullptr || found == nullptr || location == nullptr ||
      location->type != CuMemLocationType::kDevice || !TheState().IsDevice(location->id))
    return CuResult::kInvalidValue;
  *flags = location->id == found->device ? CuMemAccessFlags::kReadWrite : CuMemAccessFlags::kNone;
  return CuResult::kSuccess;
}

CuResult MemAllocAsync(CuDeviceAddress* address, size_t bytes, CuStream stream) {
  return AllocateFrom(address, bytes, ChosenOf(TheState().Device()), stream);
}

CuResult MemAllocFromPoolAsync(CuDeviceAddress* address,
                               size_t bytes,
                               MemPool pool,
                               CuStream stream) {
  return AllocateFrom(address, bytes, pool, stream);
}

CuResult MemFreeAsync(CuDeviceAddress address, CuStream stream) {
  State& state = TheState();
  const emulator::Memory::Region region = state.memory->RegionAt(address);
  if (region.kind != MemoryKind::kDevice || region.mapped || region.start != address)
    return CuResult::kInvalidValue;
  StreamState* used = nullptr;
  if (const CuResult result = emulator::UseStream(state, stream, &used);
      result != CuResult::kSuccess)
    return result;
  if (used->capture != nullptr) return CuResult::kNotSupported;
  return emulator::SubmitWork(stream, ReleaseWork{.address = address});
}

}  // namespace coppice::emulated_cuda
