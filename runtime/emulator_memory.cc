// Device memory of the emulator, and the driver entries for it.

#include "emulator_memory.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>

#include "emulator_handles.h"
#include "emulator_state.h"

namespace coppice::emulator {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kAllocationAlignment = 512;
constexpr unsigned char kPoison = 0xCB;

bool IsMultiple(uint64_t value, int64_t of) {
  return value % static_cast<uint64_t>(of) == 0;
}

DeviceAddress AddressOf(const void* host) {
  return reinterpret_cast<DeviceAddress>(host);
}

void* HostOf(DeviceAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Reserves host address space without access; null if there is none.
std::byte* ReserveHost(int64_t bytes) {
  void* const start = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : static_cast<std::byte*>(start);
}

// Takes access and backing away from a range that stays reserved.
bool CloseHost(void* start, int64_t bytes) {
  return mmap(start, static_cast<size_t>(bytes), PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool IsDeviceMemory(const CuMemAllocationProperties& properties) {
  return properties.type == CuMemAllocationType::kPinned &&
         properties.requested_handle_types == 0 &&
         properties.location.type == CuMemLocationType::kDevice && properties.location.id == 0 &&
         properties.win32_handle_metadata == nullptr && properties.compression_type == 0 &&
         properties.usage == 0 &&
         std::all_of(std::begin(properties.reserved), std::end(properties.reserved),
                     [](unsigned char byte) { return byte == 0; });
}

bool IsSize(size_t bytes) {
  return bytes > 0 && bytes <= static_cast<size_t>(INT64_MAX / 2);
}

}  // namespace

std::unique_ptr<Memory> Memory::Create(const Emulator::Options& options) {
  int file = memfd_create("coppice-emulator", MFD_CLOEXEC);
  if (file >= 0 && file <= STDERR_FILENO) {
    // A standard stream is closed: what somebody prints must not become device memory.
    const int low = file;
    file = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(low);
  }
  if (file < 0) return nullptr;
  return std::unique_ptr<Memory>(new Memory(file, options.strictness, options.memory_bytes));
}

Memory::~Memory() {
  AbandonAllocations();
  for (const HostRange& range : quarantine_)
    munmap(range.start, range.bytes);
  for (const auto& [address, bytes] : reserved_)
    munmap(HostOf(address), static_cast<size_t>(bytes));
  close(file_);
}

int Memory::ProtectionOf(CuMemAccessFlags access) const {
  if (!shown_) return PROT_NONE;
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
    if (view.access != CuMemAccessFlags::kNone)
      mprotect(HostOf(page), address + view.bytes - page, ProtectionOf(view.access));
  }
}

int64_t Memory::TakePhysical(int64_t bytes) {
  if (bytes > capacity_bytes_ - physical_bytes_) return -1;
  static const std::vector<unsigned char> poison(static_cast<size_t>(kMiB), kPoison);
  const int64_t offset = next_offset_;
  for (int64_t done = 0; done < bytes;) {
    const int64_t chunk = std::min(bytes - done, kMiB);
    const ssize_t written = pwrite(file_, poison.data(), static_cast<size_t>(chunk), offset + done);
    if (written <= 0) {
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
      return -1;
    }
    done += written;
  }
  next_offset_ += bytes;
  physical_bytes_ += bytes;
  return offset;
}

void Memory::GivePhysical(int64_t offset, int64_t bytes) {
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
  physical_bytes_ -= bytes;
}

CuResult Memory::Allocate(DeviceAddress* address, int64_t bytes) {
  const int64_t page_bytes = AlignUp(bytes, kPageBytes);
  const int64_t offset = TakePhysical(page_bytes);
  if (offset < 0) return CuResult::kOutOfMemory;
  std::byte* const guarded = ReserveHost(page_bytes + 2 * kPageBytes);
  std::byte* const pages = guarded == nullptr ? nullptr : guarded + kPageBytes;
  if (guarded == nullptr ||
      mmap(pages, static_cast<size_t>(page_bytes), ProtectionOf(CuMemAccessFlags::kReadWrite),
           MAP_SHARED | MAP_FIXED, file_, offset) == MAP_FAILED) {
    if (guarded != nullptr) munmap(guarded, static_cast<size_t>(page_bytes + 2 * kPageBytes));
    GivePhysical(offset, page_bytes);
    return CuResult::kOutOfMemory;
  }
  // At the end of its pages, so that an overrun meets the guard page as soon as alignment allows.
  *address = AddressOf(pages) + (page_bytes - bytes) / kAllocationAlignment * kAllocationAlignment;
  views_[*address] = {.bytes = bytes,
                      .access = CuMemAccessFlags::kReadWrite,
                      .handle = 0,
                      .offset = offset + static_cast<int64_t>(*address - AddressOf(pages)),
                      .id = MakeHandle<uint64_t>()};
  allocations_[*address] = {.pages = pages, .page_bytes = page_bytes, .offset = offset};
  return CuResult::kSuccess;
}

CuResult Memory::Free(DeviceAddress address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return CuResult::kInvalidValue;
  const Allocation& allocation = found->second;
  GivePhysical(allocation.offset, allocation.page_bytes);
  const HostRange guarded{allocation.pages - kPageBytes,
                          static_cast<size_t>(allocation.page_bytes + 2 * kPageBytes)};
  if (quarantines_) {
    CloseHost(allocation.pages, allocation.page_bytes);
    quarantine_.push_back(guarded);
  } else {
    munmap(guarded.start, guarded.bytes);
  }
  views_.erase(address);
  allocations_.erase(found);
  return CuResult::kSuccess;
}

void Memory::AbandonAllocations() {
  abandoned_allocations_ += static_cast<int64_t>(allocations_.size());
  while (!allocations_.empty())
    Free(allocations_.begin()->first);
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
  reserved_bytes_ += bytes;
  return CuResult::kSuccess;
}

CuResult Memory::Unreserve(DeviceAddress address, int64_t bytes) {
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second != bytes || Overlaps(address, bytes))
    return CuResult::kInvalidValue;
  if (quarantines_) {
    quarantine_.push_back({HostOf(address), static_cast<size_t>(bytes)});
  } else {
    munmap(HostOf(address), static_cast<size_t>(bytes));
  }
  reserved_.erase(found);
  reserved_bytes_ -= bytes;
  return CuResult::kSuccess;
}

CuResult Memory::CreateHandle(CuMemoryHandle* handle, int64_t bytes) {
  const int64_t offset = TakePhysical(bytes);
  if (offset < 0) return CuResult::kOutOfMemory;
  *handle = MakeHandle<CuMemoryHandle>();
  physical_[*handle] = {.offset = offset, .bytes = bytes};
  ++handle_count_;
  return CuResult::kSuccess;
}

CuResult Memory::Release(CuMemoryHandle handle) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.released) return CuResult::kInvalidValue;
  found->second.released = true;
  --handle_count_;
  DropIfUnused(handle);
  return CuResult::kSuccess;
}

void Memory::DropIfUnused(CuMemoryHandle handle) {
  const auto found = physical_.find(handle);
  if (!found->second.released || found->second.mapping_count > 0) return;
  GivePhysical(found->second.offset, found->second.bytes);
  physical_.erase(found);
}

CuResult Memory::Map(DeviceAddress address, int64_t bytes, CuMemoryHandle handle) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.released) return CuResult::kInvalidValue;
  if (bytes > found->second.bytes || !IsReserved(address, bytes) || Overlaps(address, bytes))
    return CuResult::kInvalidValue;
  if (mmap(HostOf(address), static_cast<size_t>(bytes), PROT_NONE, MAP_SHARED | MAP_FIXED, file_,
           found->second.offset) == MAP_FAILED)
    return CuResult::kOutOfMemory;
  ++generation_;
  views_[address] = {.bytes = bytes,
                     .access = CuMemAccessFlags::kNone,
                     .handle = handle,
                     .offset = found->second.offset,
                     .id = handle};
  ++found->second.mapping_count;
  mapped_bytes_ += bytes;
  return CuResult::kSuccess;
}

CuResult Memory::Unmap(DeviceAddress address, int64_t bytes) {
  const auto found = views_.find(address);
  if (found == views_.end() || found->second.handle == 0 || found->second.bytes != bytes)
    return CuResult::kInvalidValue;
  if (!CloseHost(HostOf(address), bytes)) return CuResult::kOutOfMemory;
  const CuMemoryHandle handle = found->second.handle;
  views_.erase(found);
  mapped_bytes_ -= bytes;
  --physical_.find(handle)->second.mapping_count;
  DropIfUnused(handle);
  return CuResult::kSuccess;
}

CuResult Memory::SetAccess(DeviceAddress address, int64_t bytes, CuMemAccessFlags access) {
  const auto first = views_.find(address);
  auto end = first;
  DeviceAddress covered = address;
  for (; end != views_.end() && end->first == covered && end->second.handle != 0 &&
         covered < address + bytes;
       ++end)
    covered += end->second.bytes;
  if (covered == address || covered != address + bytes) return CuResult::kInvalidValue;
  if (mprotect(HostOf(address), static_cast<size_t>(bytes), ProtectionOf(access)) != 0)
    return CuResult::kOutOfMemory;
  for (auto view = first; view != end; ++view)
    view->second.access = access;
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

bool Memory::Covers(DeviceAddress address, int64_t bytes, CuMemAccessFlags access) const {
  if (bytes <= 0 || address > UINT64_MAX - bytes) return false;
  auto view = views_.upper_bound(address);
  if (view == views_.begin()) return false;
  --view;
  DeviceAddress next = view->first;
  for (; view != views_.end() && view->first == next && next < address + bytes; ++view) {
    if (view->second.access < access) return false;
    next += view->second.bytes;
    if (next <= address) return false;
  }
  return next >= address + bytes;
}

uint64_t Memory::IdOf(DeviceAddress address) const {
  const auto after = views_.upper_bound(address);
  if (after == views_.begin()) return 0;
  const auto& [start, view] = *std::prev(after);
  return address - start < static_cast<uint64_t>(view.bytes) ? view.id : 0;
}

// Driver entries. Sizes that do not fit the model are refused here, so that Memory works in
// int64_t.

CuResult MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return CuResult::kInvalidValue;
  const Memory& memory = *TheState().memory;
  *free_bytes = static_cast<size_t>(memory.capacity_bytes() - memory.physical_bytes());
  *total_bytes = static_cast<size_t>(memory.capacity_bytes());
  return CuResult::kSuccess;
}

CuResult MemAlloc(CuDeviceAddress* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return CuResult::kInvalidValue;
  if (!IsSize(bytes)) return CuResult::kOutOfMemory;
  return TheState().memory->Allocate(address, static_cast<int64_t>(bytes));
}

CuResult MemFree(CuDeviceAddress address) {
  State& state = TheState();
  // The result of the wait is of no concern: the memory of a dead context is freed all the same.
  state.scheduler.WaitForAll();
  return state.memory->Free(address);
}

CuResult MemAddressReserve(CuDeviceAddress* address,
                           size_t bytes,
                           size_t alignment,
                           CuDeviceAddress /*hint*/,
                           unsigned long long flags) {  // NOLINT(google-runtime-int)
  if (address == nullptr || flags != 0 || !IsSize(bytes) || !IsMultiple(bytes, kPageBytes))
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
  return TheState().memory->CreateHandle(handle, static_cast<int64_t>(bytes));
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
  if (descriptor.location.type != CuMemLocationType::kDevice || descriptor.location.id != 0)
    return CuResult::kInvalidValue;
  switch (descriptor.flags) {
    case CuMemAccessFlags::kNone:
    case CuMemAccessFlags::kRead:
    case CuMemAccessFlags::kReadWrite:
      return TheState().memory->SetAccess(address, static_cast<int64_t>(bytes), descriptor.flags);
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
  const uint64_t id = TheState().memory->IdOf(address);
  if (id == 0) return CuResult::kInvalidValue;
  *static_cast<uint64_t*>(data) = id;
  return CuResult::kSuccess;
}

}  // namespace coppice::emulator
