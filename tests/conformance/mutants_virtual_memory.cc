// Wrong drivers: reservations, physical memory, mappings and access rights.

#include <algorithm>

#include "tests/conformance/mutation.h"

namespace coppice::mutation {
namespace {

using enum CuResult;
using Flags = unsigned long long;  // NOLINT(google-runtime-int)

constexpr size_t kGranule = size_t{2} << 20;
constexpr size_t kPage = 4096;

size_t RoundUp(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}
constexpr auto kWholeGranules = [](size_t bytes) { return RoundUp(bytes, kGranule); };

constexpr CuMemAllocationProperties kProperties{
    .type = CuMemAllocationType::kPinned,
    .location = {.type = CuMemLocationType::kDevice, .id = 0}};

CuResult Allow(DeviceAddress address, size_t bytes) {
  const CuMemAccessDescriptor access{.location = kProperties.location,
                                     .flags = CuMemAccessFlags::kReadWrite};
  return right.MemSetAccess(address, bytes, &access, 1);
}

// Reservations.

CuResult ReserveAnywhere(
    CuDeviceAddress* address, size_t bytes, size_t alignment, CuDeviceAddress hint, Flags flags) {
  // One granule too much, so that the start is not aligned by chance.
  const CuResult result = right.MemAddressReserve(address, bytes, alignment, hint, flags);
  if (result != kSuccess || alignment <= kGranule) return result;
  right.MemAddressFree(*address, bytes);
  right.MemAddressReserve(address, bytes + kGranule, alignment, hint, flags);
  notes.seen.insert(reinterpret_cast<const void*>(*address + kGranule));
  *address += kGranule;
  return result;
}
CuResult FreeAnywhere(CuDeviceAddress address, size_t bytes) {
  if (notes.seen.erase(reinterpret_cast<const void*>(address)) == 0)
    return right.MemAddressFree(address, bytes);
  return right.MemAddressFree(address - kGranule, bytes + kGranule);
}
CuResult ReserveAnyAlignment(
    CuDeviceAddress* address, size_t bytes, size_t alignment, CuDeviceAddress hint, Flags flags) {
  const bool is_power = (alignment & (alignment - 1)) == 0;
  return right.MemAddressReserve(address, bytes, is_power ? alignment : 0, hint, flags);
}
CuResult UnreserveAnySize(CuDeviceAddress address, size_t bytes) {
  const auto found = notes.reservations.find(address);
  return right.MemAddressFree(address,
                              found == notes.reservations.end() ? bytes : found->second.bytes);
}
CuResult UnreserveFromTheMiddle(CuDeviceAddress address, size_t bytes) {
  const auto after = notes.reservations.upper_bound(address);
  if (after == notes.reservations.begin()) return right.MemAddressFree(address, bytes);
  const auto& [start, range] = *std::prev(after);
  return start < address && address < start + range.bytes ? right.MemAddressFree(start, range.bytes)
                                                          : right.MemAddressFree(address, bytes);
}

// Physical memory.

CuResult FailAndLose(CuMemoryHandle* handle,
                     size_t bytes,
                     const CuMemAllocationProperties* properties,
                     Flags flags) {
  const CuResult result = right.MemCreate(handle, bytes, properties, flags);
  if (result == kOutOfMemory) notes.lost_bytes += kGranule;
  return result;
}
CuResult ReleaseAndLose(CuMemoryHandle handle) {
  const CuResult result = right.MemRelease(handle);
  if (result == kSuccess) notes.lost_bytes += notes.handle_bytes[handle];
  return result;
}
// The release of a mapped handle returns its bytes, although they are in use.
CuResult ReleaseTooEarly(CuMemoryHandle handle) {
  const CuResult result = right.MemRelease(handle);
  if (result != kSuccess) return result;
  for (const auto& [address, range] : notes.mappings)
    if (range.handle == handle) notes.lost_bytes -= range.bytes;
  return result;
}
CuResult ReleaseUnmaps(CuMemoryHandle handle) {
  std::erase_if(notes.mappings, [&](const auto& mapping) {
    return mapping.second.handle == handle &&
           right.MemUnmap(mapping.first, mapping.second.bytes) == kSuccess;
  });
  return right.MemRelease(handle);
}

// Mappings.

CuResult MapBeyondTheHandle(
    CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle, Flags flags) {
  const auto found = notes.handle_bytes.find(handle);
  const bool is_beyond = found != notes.handle_bytes.end() && bytes > found->second;
  return right.MemMap(address, is_beyond ? found->second : bytes, offset, handle, flags);
}
CuResult MapOver(
    CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle, Flags flags) {
  if (notes.mappings.contains(address)) {
    right.MemUnmap(address, notes.mappings[address].bytes);
    notes.mappings.erase(address);
  }
  return MapAndNote(address, bytes, offset, handle, flags);
}
// Says yes to ranges that leave every reservation.
CuResult MapUnreserved(
    CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle, Flags flags) {
  for (const auto& [start, range] : notes.reservations)
    if (start <= address && address + bytes <= start + range.bytes)
      return right.MemMap(address, bytes, offset, handle, flags);
  return kSuccess;
}
// Maps memory of its own instead of the handle's.
CuResult MapFreshMemory(
    CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle, Flags flags) {
  CuMemoryHandle fresh = 0;
  if (right.MemCreate(&fresh, bytes, &kProperties, 0) != kSuccess) return kOutOfMemory;
  const CuResult result = right.MemMap(address, bytes, offset, fresh, flags);
  if (result == kSuccess) notes.mappings[address] = {.bytes = bytes, .handle = handle};
  right.MemRelease(fresh);
  return result;
}
bool IsMapped(CuMemoryHandle handle) {
  return std::any_of(notes.mappings.begin(), notes.mappings.end(),
                     [&](const auto& mapping) { return mapping.second.handle == handle; });
}
CuResult MapNoAlias(
    CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle, Flags flags) {
  return IsMapped(handle) ? MapFreshMemory(address, bytes, offset, handle, flags)
                          : MapAndNote(address, bytes, offset, handle, flags);
}
CuResult MapForgetsBytes(
    CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle, Flags flags) {
  const auto* const key = reinterpret_cast<const void*>(handle);
  if (notes.seen.contains(key) && !IsMapped(handle))
    return MapFreshMemory(address, bytes, offset, handle, flags);
  const CuResult result = MapAndNote(address, bytes, offset, handle, flags);
  if (result == kSuccess) notes.seen.insert(key);
  return result;
}
CuResult MapWithOldAccess(
    CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle, Flags flags) {
  const CuResult result = right.MemMap(address, bytes, offset, handle, flags);
  if (result == kSuccess && notes.seen.contains(reinterpret_cast<const void*>(address)))
    Allow(address, bytes);
  return result;
}

CuResult UnmapParts(CuDeviceAddress address, size_t bytes) {
  for (const auto& [start, range] : notes.mappings) {
    if (address < start || address + bytes > start + range.bytes) continue;
    if (address == start && bytes == range.bytes) break;
    return kSuccess;
  }
  const CuResult result = right.MemUnmap(address, bytes);
  if (result == kSuccess) notes.mappings.erase(address);
  return result;
}
CuResult UnmapNothing(CuDeviceAddress address, size_t bytes) {
  if (!notes.mappings.contains(address)) return kSuccess;
  const CuResult result = right.MemUnmap(address, bytes);
  if (result == kSuccess) notes.mappings.erase(address);
  return result;
}

// Unmaps when the addresses are needed.
CuResult UnmapLater(CuDeviceAddress address, size_t bytes) {
  const auto found = notes.mappings.find(address);
  if (found == notes.mappings.end() || found->second.bytes != bytes)
    return right.MemUnmap(address, bytes);
  return notes.seen.insert(reinterpret_cast<const void*>(address)).second ? kSuccess
                                                                          : kInvalidValue;
}
void UnmapTheLate() {
  for (const void* const late : notes.seen) {
    const auto address = reinterpret_cast<DeviceAddress>(late);
    right.MemUnmap(address, notes.mappings[address].bytes);
    notes.mappings.erase(address);
  }
  notes.seen.clear();
}
void UnmapIsLate(T& cu) {
  NoteMemory(cu);
  cu.MemUnmap = UnmapLater;
  cu.MemMap = [](CuDeviceAddress address, size_t bytes, size_t offset, CuMemoryHandle handle,
                 Flags flags) {
    UnmapTheLate();
    return MapAndNote(address, bytes, offset, handle, flags);
  };
  cu.MemAddressFree = [](CuDeviceAddress address, size_t bytes) {
    UnmapTheLate();
    return right.MemAddressFree(address, bytes);
  };
}

// Access rights.

CuResult AccessOverHoles(CuDeviceAddress address,
                         size_t bytes,
                         const CuMemAccessDescriptor* access,
                         size_t count) {
  size_t covered = 0;
  for (; covered < bytes && notes.mappings.contains(address + covered);)
    covered += notes.mappings[address + covered].bytes;
  return right.MemSetAccess(address, covered > 0 ? covered : bytes, access, count);
}
CuResult AccessToTheFirst(CuDeviceAddress address,
                          size_t bytes,
                          const CuMemAccessDescriptor* access,
                          size_t count) {
  const auto found = notes.mappings.find(address);
  const CuResult result = right.MemSetAccess(address, bytes, access, count);
  if (result != kSuccess || found == notes.mappings.end() || found->second.bytes >= bytes)
    return result;
  CuMemAccessDescriptor none = *access;
  none.flags = CuMemAccessFlags::kNone;
  const size_t first = found->second.bytes;
  return right.MemSetAccess(address + first, bytes - first, &none, 1);
}
template <CuMemAccessFlags from>
CuResult AccessWithoutLimits(CuDeviceAddress address,
                             size_t bytes,
                             const CuMemAccessDescriptor* access,
                             size_t count) {
  if (access == nullptr || access->flags != from)
    return right.MemSetAccess(address, bytes, access, count);
  CuMemAccessDescriptor all = *access;
  all.flags = CuMemAccessFlags::kReadWrite;
  return right.MemSetAccess(address, bytes, &all, count);
}
CuResult AccessIsRemembered(CuDeviceAddress address,
                            size_t bytes,
                            const CuMemAccessDescriptor* access,
                            size_t count) {
  notes.seen.insert(reinterpret_cast<const void*>(address));
  return right.MemSetAccess(address, bytes, access, count);
}

// Notes memory, then changes one entry.
template <auto entry, auto function>
void ChangeKnowingMemory(T& cu) {
  NoteMemory(cu);
  cu.*entry = function;
}

}  // namespace

std::vector<Mutant> RangeMutants() {
  return {
      {"reserve_any_size", "A reservation is a multiple of the page size.",
       Pass<&T::MemAddressReserve, 1, [](size_t bytes) { return RoundUp(bytes, kPage); }>},
      {"reserve_nothing", "A reservation is not empty.",
       AnswerWhen<&T::MemAddressReserve, kSuccess,
                  [](auto, size_t bytes, auto...) { return bytes == 0; }>},
      {"reserve_anywhere", "A reservation starts at the alignment that was asked for.",
       [](T& cu) {
         cu.MemAddressReserve = ReserveAnywhere;
         cu.MemAddressFree = FreeAnywhere;
       }},
      {"reserve_any_alignment", "The alignment of a reservation is a power of two.",
       Change<&T::MemAddressReserve, ReserveAnyAlignment>},
      {"reserve_with_flags", "A reservation takes no flags.",
       Pass<&T::MemAddressReserve, 4, kNone>},
      {"unreserve_any_size", "A reservation is freed with its size.",
       ChangeKnowingMemory<&T::MemAddressFree, UnreserveAnySize>},
      {"unreserve_from_the_middle", "A reservation is freed at its start.",
       ChangeKnowingMemory<&T::MemAddressFree, UnreserveFromTheMiddle>},
      {"create_any_size", "Physical memory comes in multiples of the granularity.",
       Pass<&T::MemCreate, 1, kWholeGranules>},
      {"create_nothing", "Physical memory is not empty.",
       AnswerWhen<&T::MemCreate, kSuccess, [](auto, size_t bytes, auto...) { return bytes == 0; }>},
      {"create_with_flags", "Creating physical memory takes no flags.",
       Pass<&T::MemCreate, 3, kNone>},
      {"create_any_type", "Physical memory is pinned memory of a device.",
       Pass<&T::MemCreate, 2, [](auto given) { return given == nullptr ? given : &kProperties; }>},
      {"create_beyond_the_device", "More physical memory than there is is out of memory: 2.",
       Misreport<&T::MemCreate, kOutOfMemory, kInvalidValue>},
      {"failed_create_loses_bytes", "Memory that could not be created costs nothing.",
       [](T& cu) {
         cu.MemCreate = FailAndLose;
         cu.MemGetInfo = FreeBytesWithoutTheLost;
       }},
      {"release_loses_bytes", "Released memory can be had again.",
       [](T& cu) {
         NoteMemory(cu);
         cu.MemRelease = ReleaseAndLose;
         cu.MemGetInfo = FreeBytesWithoutTheLost;
       }},
      {"release_frees_mapped_bytes", "Released memory is in use until it is unmapped.",
       [](T& cu) {
         NoteMemory(cu);
         cu.MemRelease = ReleaseTooEarly;
         cu.MemGetInfo = FreeBytesWithoutTheLost;
       }},
      {"release_unmaps", "Releasing a handle leaves its mappings alone.",
       ChangeKnowingMemory<&T::MemRelease, ReleaseUnmaps>},
      {"release_twice", "A handle is released once.", Misreport<&T::MemRelease, kInvalidValue>},
      {"granularity_of_pages", "The granularity is two mebibytes.",
       Then<&T::MemGetAllocationGranularity, [](size_t* bytes, auto...) { *bytes = kPage; }>},
      {"granularity_of_anything", "There are two kinds of granularity.",
       Misreport<&T::MemGetAllocationGranularity, kInvalidValue>},
  };
}

std::vector<Mutant> MappingMutants() {
  return {
      {"map_any_offset", "A mapping starts at the start of its handle.",
       Pass<&T::MemMap, 2, kNone>},
      {"map_beyond_the_handle", "A mapping is no larger than its handle.",
       ChangeKnowingMemory<&T::MemMap, MapBeyondTheHandle>},
      {"map_any_size", "A mapping is a multiple of the granularity.",
       Pass<&T::MemMap, 1, kWholeGranules>},
      {"map_any_address", "A mapping starts at the granularity.",
       Pass<&T::MemMap, 0, [](CuDeviceAddress address) { return address / kGranule * kGranule; }>},
      {"map_with_flags", "A mapping takes no flags.", Pass<&T::MemMap, 4, kNone>},
      {"map_over", "Addresses that are mapped cannot be mapped.",
       ChangeKnowingMemory<&T::MemMap, MapOver>},
      {"map_unreserved", "Only reserved addresses can be mapped.",
       ChangeKnowingMemory<&T::MemMap, MapUnreserved>},
      {"map_accessible", "Mapped memory is not accessible before access is set.",
       Then<&T::MemMap,
            [](CuDeviceAddress address, size_t bytes, auto...) { Allow(address, bytes); }>},
      {"aliases_are_copies", "Two mappings of one handle share their bytes.",
       ChangeKnowingMemory<&T::MemMap, MapNoAlias>},
      {"unmap_forgets_bytes", "A handle keeps its bytes while nothing maps it.",
       ChangeKnowingMemory<&T::MemMap, MapForgetsBytes>},
      {"unmap_parts", "A mapping is unmapped whole.",
       ChangeKnowingMemory<&T::MemUnmap, UnmapParts>},
      {"unmap_nothing", "What is not mapped cannot be unmapped.",
       ChangeKnowingMemory<&T::MemUnmap, UnmapNothing>},
      {"unmap_is_late", "Unmapping takes effect at once.", UnmapIsLate},
      {"access_survives_unmap", "Unmapping forgets the access rights.",
       [](T& cu) {
         cu.MemMap = MapWithOldAccess;
         cu.MemSetAccess = AccessIsRemembered;
       }},
      {"access_over_holes", "Access is set where all is mapped.",
       ChangeKnowingMemory<&T::MemSetAccess, AccessOverHoles>},
      {"access_to_the_first", "Access is set for every mapping in the range.",
       ChangeKnowingMemory<&T::MemSetAccess, AccessToTheFirst>},
      {"read_access_writes", "Memory with read access cannot be written.",
       Change<&T::MemSetAccess, AccessWithoutLimits<CuMemAccessFlags::kRead>>},
      {"no_access_is_access", "Memory whose access was taken away cannot be touched.",
       Change<&T::MemSetAccess, AccessWithoutLimits<CuMemAccessFlags::kNone>>},
      {"unknown_access", "Access is none, read, or both.",
       AnswerWhen<&T::MemSetAccess, kSuccess,
                  [](auto, auto, const CuMemAccessDescriptor* access, auto) {
                    return access != nullptr && access->flags == CuMemAccessFlags{2};
                  }>},
  };
}

}  // namespace coppice::mutation
