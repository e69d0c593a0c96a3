// Memory of the emulator's devices, and host memory that they reach: a sparse memfd each, and views
// of them in the host's address space.
//
//   memfd        |..handle 1..|....|allocation|......|..handle 2..|......   offsets never reused
//   reservation  PROT_NONE | view of handle 1 | PROT_NONE | view of handle 2 | PROT_NONE
//
// Freed physical memory is a hole in the file, so only what exists costs the host memory.
//
// Units: bytes. Threads: guarded by the emulator's mutex. Results are CUDA's.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coppice/base/units.h"
#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/address_quarantine.h"
#include "runtime/emulator/physical_memory.h"
#include "runtime/emulator/ptx/launch.h"

namespace coppice::emulator {

inline constexpr int64_t kGranularity = 2 * kMiB;

// Whose memory there is at an address.
enum class MemoryKind : uint8_t {
  kNone,        // None that the driver knows.
  kDevice,      // A device's; hidden from host code, if anything is.
  kManaged,     // A device's, which host code may touch too.
  kHost,        // The host's, which the driver allocated and devices may touch.
  kRegistered,  // The host's, which the driver was told of.
};

class Memory {
 public:
  struct Options {
    int devices = 1;
    int64_t capacity_bytes = 0;  // Of each device.
    bool quarantines = false;    // Does not soon hand out an address again: AddressQuarantine.
    bool hides = false;          // Host code reaches device memory only while it is shown.
  };

  // What exists. Frees by AbandonAllocations do not count.
  struct Counts {
    int64_t mapped_bytes = 0;
    int64_t reserved_bytes = 0;
    int64_t handles = 0;      // Not released.
    int64_t allocations = 0;  // Plain ones.
  };

  // Null if the host refuses a memfd.
  static std::unique_ptr<Memory> Create(const Options& options);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // A plain allocation of a kind: cuMemAlloc, cuMemAllocManaged, cuMemHostAlloc. `device` is whose
  // it is, or which asked for host memory.
  CuResult Allocate(DeviceAddress* address, int64_t bytes, MemoryKind kind, int device);
  CuResult Free(DeviceAddress address);
  // Host memory that somebody else allocated.
  CuResult Register(DeviceAddress address, int64_t bytes, int device);
  CuResult Unregister(DeviceAddress address);

  // Virtual memory; the entries of the same names have checked flags and properties.
  CuResult Reserve(DeviceAddress* address, int64_t bytes, int64_t alignment);
  CuResult Unreserve(DeviceAddress address, int64_t bytes);
  CuResult CreateHandle(CuMemoryHandle* handle, int64_t bytes, int device);
  CuResult Release(CuMemoryHandle handle);
  CuResult Map(DeviceAddress address, int64_t bytes, CuMemoryHandle handle);
  // The handle that is mapped there, which has to be released once more then.
  CuResult Retain(DeviceAddress address, CuMemoryHandle* handle);
  CuResult Unmap(DeviceAddress address, int64_t bytes);
  // For that device, which has to be the handles' own.
  CuResult SetAccess(DeviceAddress address, int64_t bytes, CuMemAccessFlags access, int device);

  // True if every byte of the range is mapped with at least `access`, for `device`; -1: for any.
  bool Covers(DeviceAddress address, int64_t bytes, CuMemAccessFlags access, int device = -1) const;

  // What lies at an address: the allocation or mapping that holds it. `kind` of what holds none is
  // kNone.
  struct Region {
    MemoryKind kind = MemoryKind::kNone;
    int device = 0;
    DeviceAddress start = 0;
    int64_t bytes = 0;
    uint64_t id = 0;
    bool mapped = false;  // By MemMap.
    CuMemAccessFlags access = CuMemAccessFlags::kNone;
  };
  Region RegionAt(DeviceAddress address) const;

  // Calls `visit(begin, end, address)` for the physical bytes behind [begin, end), piece by piece,
  // each by its offsets in device memory and its address. What is not mapped has none.
  template <typename Visit>
  void ForEachPhysical(DeviceAddress begin, DeviceAddress end, Visit visit) const;

  // Calls `visit(range, offset)` for what is mapped and readable by `device`, ascending, by
  // allocations and mappings, each with the physical offset of its first byte.
  template <typename Visit>
  void ForEachReadable(int device, Visit visit) const;

  // Lets host code reach device memory, or not. Physical memory and mappings stay as they are.
  void Show(bool shown);

  // Frees every plain allocation but keeps counting it, as HandleTable::Abandon does.
  void AbandonAllocations();

  // Takes everything back, and counts nothing of it. No address comes again, if addresses are
  // quarantined.
  void Clear();

  // Changes whenever an address gets other physical bytes.
  uint64_t generation() const { return generation_; }
  // Changes whenever what is mapped, or the access to it, does.
  uint64_t revision() const { return revision_; }

  const PhysicalMemory& physical(int device) const { return *physical_[device]; }
  // Of all devices and the host's.
  int64_t used_bytes() const;
  const Counts& counts() const { return counts_; }

 private:
  // What one cuMemCreate made; lives until it is released and nowhere mapped.
  struct Handle {
    int64_t offset = 0;
    int64_t bytes = 0;
    int device = 0;
    int mapping_count = 0;
    int references = 1;
  };
  struct View {
    int64_t bytes = 0;
    CuMemAccessFlags access = CuMemAccessFlags::kNone;
    CuMemoryHandle handle = 0;  // 0 for a plain allocation.
    int64_t offset = 0;         // Of the first byte: which memory, and where in it.
    uint64_t id = 0;            // Of the allocation; of a mapping, the handle.
    MemoryKind kind = MemoryKind::kDevice;
    int device = 0;

    // Devices reach each other's memory as little as there are peers, and all of them the host's.
    bool IsOf(int asking) const {
      return asking < 0 || device == asking || kind == MemoryKind::kHost ||
             kind == MemoryKind::kRegistered;
    }
  };
  struct Allocation {
    std::byte* pages = nullptr;  // First page; a guard page lies on either side.
    int64_t page_bytes = 0;
    int64_t offset = 0;
  };

  // The physical memory of each device, then the host's: an offset that starts with its index says
  // where a byte is.
  static constexpr int kIndexShift = 44;

  Memory(const Options& options, std::vector<std::unique_ptr<PhysicalMemory>> physical)
      : physical_(std::move(physical)), quarantines_(options.quarantines), shown_(!options.hides) {}

  int64_t Take(int index, int64_t bytes);  // -1: there is no room.
  void Give(int64_t offset, int64_t bytes);
  // Maps what is physical there; false if the host refuses.
  bool MapPhysical(void* start, int64_t bytes, int protection, int64_t offset) const;

  // Host addresses without access; null if there are none, quarantined ones included.
  std::byte* ReserveHost(int64_t bytes);
  // Keeps a range of host addresses without access for a while, or gives it up.
  void Retire(void* start, int64_t bytes);
  void DropIfUnused(CuMemoryHandle handle);
  bool IsReserved(DeviceAddress address, int64_t bytes) const;
  bool Overlaps(DeviceAddress address, int64_t bytes) const;

  int ProtectionOf(CuMemAccessFlags access, MemoryKind kind) const;

  const std::vector<std::unique_ptr<PhysicalMemory>> physical_;
  const bool quarantines_;
  bool shown_;  // Host code may reach device memory.
  uint64_t generation_ = 1;
  uint64_t revision_ = 1;
  Counts counts_;

  std::map<DeviceAddress, View> views_;        // Disjoint; plain allocations and mappings.
  std::map<DeviceAddress, int64_t> reserved_;  // Start to bytes; disjoint.
  std::map<DeviceAddress, Allocation> allocations_;
  absl::flat_hash_map<CuMemoryHandle, Handle> handles_;
  AddressQuarantine quarantine_;
};

template <typename Visit>
void Memory::ForEachPhysical(DeviceAddress begin, DeviceAddress end, Visit visit) const {
  auto view = views_.upper_bound(begin);
  if (view != views_.begin()) --view;
  for (; view != views_.end() && view->first < end; ++view) {
    const DeviceAddress from = std::max(begin, view->first);
    const DeviceAddress to = std::min(end, view->first + view->second.bytes);
    const uint64_t offset = static_cast<uint64_t>(view->second.offset) - view->first;
    if (from < to) visit(offset + from, offset + to, from);
  }
}

template <typename Visit>
void Memory::ForEachReadable(int device, Visit visit) const {
  for (const auto& [begin, view] : views_)
    if (view.access != CuMemAccessFlags::kNone && view.IsOf(device))
      visit(ptx::MemoryRange{begin, begin + static_cast<DeviceAddress>(view.bytes),
                             view.access == CuMemAccessFlags::kReadWrite},
            static_cast<uint64_t>(view.offset));
}

}  // namespace coppice::emulator
