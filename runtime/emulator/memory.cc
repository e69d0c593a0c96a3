// Plain allocations, reservations and mappings.

#include "runtime/emulator/memory.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include <sys/mman.h>

#include "runtime/emulator/client_abi.h"
#include "runtime/emulator/handles.h"

namespace coppice::emulator {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kAllocationAlignment = 512;

DeviceAddress AddressOf(const void* host) {
  return reinterpret_cast<DeviceAddress>(host);
}

void* HostAt(DeviceAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Host address space without access; null if there is none.
std::byte* MapNothing(int64_t bytes) {
  void* const start = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : static_cast<std::byte*>(start);
}

// Takes access and backing away from a range that stays reserved.
bool CloseHost(void* start, int64_t bytes) {
  return mmap(start, static_cast<size_t>(bytes), PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

}  // namespace

std::unique_ptr<Memory> Memory::Create(const Options& options) {
  constexpr int64_t kHostBytesMax = int64_t{1} << 40;  // What the host has is for it to refuse.
  std::vector<std::unique_ptr<PhysicalMemory>> physical;
  for (int index = 0; index <= options.devices; ++index) {
    physical.push_back(
        PhysicalMemory::Create(index < options.devices ? options.capacity_bytes : kHostBytesMax));
    if (physical.back() == nullptr) return nullptr;
  }
  return std::unique_ptr<Memory>(new Memory(options, std::move(physical)));
}

int64_t Memory::Take(int index, int64_t bytes) {
  const int64_t offset = physical_[index]->Take(bytes);
  return offset < 0 ? -1 : (int64_t{index} << kIndexShift) + offset;
}

void Memory::Give(int64_t offset, int64_t bytes) {
  physical_[offset >> kIndexShift]->Give(offset & ((int64_t{1} << kIndexShift) - 1), bytes);
}

bool Memory::MapPhysical(void* start, int64_t bytes, int protection, int64_t offset) const {
  return mmap(start, static_cast<size_t>(bytes), protection, MAP_SHARED | MAP_FIXED,
              physical_[offset >> kIndexShift]->file(),
              offset & ((int64_t{1} << kIndexShift) - 1)) != MAP_FAILED;
}

int64_t Memory::used_bytes() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<PhysicalMemory>& physical : physical_)
    bytes += physical->used_bytes();
  return bytes;
}

Memory::~Memory() {
  AbandonAllocations();
  for (const auto& [address, bytes] : reserved_)
    munmap(HostAt(address), static_cast<size_t>(bytes));
}

int Memory::ProtectionOf(CuMemAccessFlags access, MemoryKind kind) const {
  if (!shown_ && kind == MemoryKind::kDevice) return PROT_NONE;
  switch (access) {
    case CuMemAccessFlags::kNone:
      return PROT_NONE;
    case CuMemAccessFlags::kRead:
      return PROT_READ;
    case CuMemAccessFlags::kReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

void Memory::Show(bool shown) {
  if (shown_ == shown) return;
  shown_ = shown;
  for (const auto& [address, view] : views_) {
    const DeviceAddress page = address / kPageBytes * kPageBytes;
    if (view.access != CuMemAccessFlags::kNone && view.kind == MemoryKind::kDevice)
      mprotect(HostAt(page), address + view.bytes - page, ProtectionOf(view.access, view.kind));
  }
}

CuResult Memory::Allocate(DeviceAddress* address, int64_t bytes, MemoryKind kind, int device) {
  const int host = static_cast<int>(physical_.size()) - 1;
  const int64_t page_bytes = AlignUp(bytes, kPageBytes);
  const int64_t offset = Take(kind == MemoryKind::kHost ? host : device, page_bytes);
  if (offset < 0) return CuResult::kOutOfMemory;
  std::byte* const guarded = ReserveHost(page_bytes + 2 * kPageBytes);
  std::byte* const pages = guarded == nullptr ? nullptr : guarded + kPageBytes;
  if (guarded == nullptr ||
      !MapPhysical(pages, page_bytes, ProtectionOf(CuMemAccessFlags::kReadWrite, kind), offset)) {
    if (guarded != nullptr) munmap(guarded, static_cast<size_t>(page_bytes + 2 * kPageBytes));
    Give(offset, page_bytes);
    return CuResult::kOutOfMemory;
  }
  // At the end of its pages, so that an overrun meets the guard page as soon as alignment allows.
  *address = AddressOf(pages) + (page_bytes - bytes) / kAllocationAlignment * kAllocationAlignment;
  views_[*address] = {.bytes = bytes,
                      .access = CuMemAccessFlags::kReadWrite,
                      .handle = 0,
                      .offset = offset + static_cast<int64_t>(*address - AddressOf(pages)),
                      .id = MakeHandle<uint64_t>(),
                      .kind = kind,
                      .device = device};
  allocations_[*address] = {.pages = pages, .page_bytes = page_bytes, .offset = offset};
  ++counts_.allocations;
  ++revision_;
  return CuResult::kSuccess;
}

CuResult Memory::Free(DeviceAddress address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return CuResult::kInvalidValue;
  const Allocation& allocation = found->second;
  Give(allocation.offset, allocation.page_bytes);
  if (quarantines_) CloseHost(allocation.pages, allocation.page_bytes);
  Retire(allocation.pages - kPageBytes, allocation.page_bytes + 2 * kPageBytes);
  views_.erase(address);
  ++revision_;
  allocations_.erase(found);
  --counts_.allocations;
  return CuResult::kSuccess;
}

CuResult Memory::Register(DeviceAddress address, int64_t bytes, int device) {
  if (Overlaps(address, bytes)) return kHostMemoryAlreadyRegistered;
  // Nothing physical of ours is behind it; its addresses tell it apart from all else.
  views_[address] = {.bytes = bytes,
                     .access = CuMemAccessFlags::kReadWrite,
                     .offset = static_cast<int64_t>(address) | (int64_t{1} << 62),
                     .id = MakeHandle<uint64_t>(),
                     .kind = MemoryKind::kRegistered,
                     .device = device};
  ++revision_;
  return CuResult::kSuccess;
}

CuResult Memory::Unregister(DeviceAddress address) {
  const auto found = views_.find(address);
  if (found == views_.end() || found->second.kind != MemoryKind::kRegistered)
    return kHostMemoryNotRegistered;
  views_.erase(found);
  ++revision_;
  return CuResult::kSuccess;
}

std::byte* Memory::ReserveHost(int64_t bytes) {
  std::byte* const start = MapNothing(bytes);
  return start == nullptr && quarantine_.Release() ? MapNothing(bytes) : start;
}

void Memory::Retire(void* start, int64_t bytes) {
  if (quarantines_) {
    quarantine_.Add(start, bytes);
  } else {
    munmap(start, static_cast<size_t>(bytes));
  }
}

void Memory::AbandonAllocations() {
  const int64_t count = counts_.allocations;
  while (!allocations_.empty())
    Free(allocations_.begin()->first);
  counts_.allocations = count;
}

void Memory::Clear() {
  AbandonAllocations();
  for (const auto& [address, view] : views_)
    if (view.kind != MemoryKind::kRegistered) CloseHost(HostAt(address), view.bytes);
  views_.clear();
  ++generation_;
  ++revision_;
  for (const auto& [handle, made] : handles_)
    Give(made.offset, made.bytes);
  handles_.clear();
  for (const auto& [address, bytes] : reserved_)
    Retire(HostAt(address), bytes);
  reserved_.clear();
  counts_ = {};
}

CuResult Memory::Reserve(DeviceAddress* address, int64_t bytes, int64_t alignment) {
  alignment = std::max(alignment, kGranularity);
  std::byte* const start = ReserveHost(bytes + alignment);
  if (start == nullptr) return CuResult::kOutOfMemory;
  const int64_t skip = AlignUp(static_cast<int64_t>(AddressOf(start)), alignment) -
                       static_cast<int64_t>(AddressOf(start));
  if (skip > 0) munmap(start, static_cast<size_t>(skip));
  munmap(start + skip + bytes, static_cast<size_t>(alignment - skip));
  *address = AddressOf(start + skip);
  reserved_[*address] = bytes;
  counts_.reserved_bytes += bytes;
  return CuResult::kSuccess;
}

CuResult Memory::Unreserve(DeviceAddress address, int64_t bytes) {
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second != bytes || Overlaps(address, bytes))
    return CuResult::kInvalidValue;
  Retire(HostAt(address), bytes);
  reserved_.erase(found);
  counts_.reserved_bytes -= bytes;
  return CuResult::kSuccess;
}

CuResult Memory::CreateHandle(CuMemoryHandle* handle, int64_t bytes, int device) {
  const int64_t offset = Take(device, bytes);
  if (offset < 0) return CuResult::kOutOfMemory;
  *handle = MakeHandle<CuMemoryHandle>();
  handles_[*handle] = {.offset = offset, .bytes = bytes, .device = device};
  ++counts_.handles;
  return CuResult::kSuccess;
}

CuResult Memory::Release(CuMemoryHandle handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.references == 0) return CuResult::kInvalidValue;
  if (--found->second.references > 0) return CuResult::kSuccess;
  --counts_.handles;
  DropIfUnused(handle);
  return CuResult::kSuccess;
}

void Memory::DropIfUnused(CuMemoryHandle handle) {
  const auto found = handles_.find(handle);
  if (found->second.references > 0 || found->second.mapping_count > 0) return;
  Give(found->second.offset, found->second.bytes);
  handles_.erase(found);
}

CuResult Memory::Map(DeviceAddress address, int64_t bytes, CuMemoryHandle handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.references == 0) return CuResult::kInvalidValue;
  if (bytes > found->second.bytes || !IsReserved(address, bytes) || Overlaps(address, bytes))
    return CuResult::kInvalidValue;
  if (!MapPhysical(HostAt(address), bytes, PROT_NONE, found->second.offset))
    return CuResult::kOutOfMemory;
  ++generation_;
  ++revision_;
  views_[address] = {.bytes = bytes,
                     .access = CuMemAccessFlags::kNone,
                     .handle = handle,
                     .offset = found->second.offset,
                     .id = handle,
                     .device = found->second.device};
  ++found->second.mapping_count;
  counts_.mapped_bytes += bytes;
  return CuResult::kSuccess;
}

CuResult Memory::Retain(DeviceAddress address, CuMemoryHandle* handle) {
  const auto after = views_.upper_bound(address);
  if (after == views_.begin()) return CuResult::kInvalidValue;
  const auto& [start, view] = *std::prev(after);
  if (view.handle == 0 || address - start >= static_cast<uint64_t>(view.bytes))
    return CuResult::kInvalidValue;
  Handle& retained = handles_.find(view.handle)->second;
  if (retained.references++ == 0) ++counts_.handles;
  *handle = view.handle;
  return CuResult::kSuccess;
}

CuResult Memory::Unmap(DeviceAddress address, int64_t bytes) {
  const auto found = views_.find(address);
  if (found == views_.end() || found->second.handle == 0 || found->second.bytes != bytes)
    return CuResult::kInvalidValue;
  if (!CloseHost(HostAt(address), bytes)) return CuResult::kOutOfMemory;
  const CuMemoryHandle handle = found->second.handle;
  views_.erase(found);
  ++revision_;
  counts_.mapped_bytes -= bytes;
  --handles_.find(handle)->second.mapping_count;
  DropIfUnused(handle);
  return CuResult::kSuccess;
}

CuResult Memory::SetAccess(DeviceAddress address,
                           int64_t bytes,
                           CuMemAccessFlags access,
                           int device) {
  const auto first = views_.find(address);
  auto end = first;
  DeviceAddress covered = address;
  for (; end != views_.end() && end->first == covered && end->second.handle != 0 &&
         covered < address + bytes;
       ++end)
    covered += end->second.bytes;
  if (covered == address || covered != address + bytes) return CuResult::kInvalidValue;
  for (auto view = first; view != end; ++view)
    if (view->second.device != device) return CuResult::kInvalidDevice;
  if (mprotect(HostAt(address), static_cast<size_t>(bytes),
               ProtectionOf(access, MemoryKind::kDevice)) != 0)
    return CuResult::kOutOfMemory;
  for (auto view = first; view != end; ++view)
    view->second.access = access;
  ++revision_;
  return CuResult::kSuccess;
}

bool Memory::IsReserved(DeviceAddress address, int64_t bytes) const {
  auto found = reserved_.upper_bound(address);
  if (found == reserved_.begin()) return false;
  --found;
  const uint64_t skip = address - found->first;
  const uint64_t size = static_cast<uint64_t>(found->second);
  return skip < size && static_cast<uint64_t>(bytes) <= size - skip;
}

bool Memory::Overlaps(DeviceAddress address, int64_t bytes) const {
  const auto after = views_.lower_bound(address + bytes);
  if (after == views_.begin()) return false;
  const auto last = std::prev(after);
  return last->first + last->second.bytes > address;
}

bool Memory::Covers(DeviceAddress address,
                    int64_t bytes,
                    CuMemAccessFlags access,
                    int device) const {
  if (bytes <= 0 || address > UINT64_MAX - bytes) return false;
  auto view = views_.upper_bound(address);
  if (view == views_.begin()) return false;
  --view;
  DeviceAddress next = view->first;
  for (; view != views_.end() && view->first == next && next < address + bytes; ++view) {
    if (view->second.access < access || !view->second.IsOf(device)) return false;
    next += view->second.bytes;
    if (next <= address) return false;
  }
  return next >= address + bytes;
}

Memory::Region Memory::RegionAt(DeviceAddress address) const {
  const auto after = views_.upper_bound(address);
  if (after == views_.begin()) return {};
  const auto& [start, view] = *std::prev(after);
  if (address - start >= static_cast<uint64_t>(view.bytes)) return {};
  return {.kind = view.kind,
          .device = view.device,
          .start = start,
          .bytes = view.bytes,
          .id = view.id,
          .mapped = view.handle != 0,
          .access = view.access};
}

}  // namespace coppice::emulator
