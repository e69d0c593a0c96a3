// One small function per misuse.

#include "tools/probe/vmm_misuse.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

using Attempt = absl::StatusOr<CuResult>;

// Memory that has to exist for the misuse to be one.
absl::StatusOr<CuMemoryHandle> Memory(VirtualRange& range, size_t bytes) {
  CuMemoryHandle handle = 0;
  COPPICE_RETURN_IF_ERROR(range.subject().Check(range.Create(bytes, &handle), "cuMemCreate"));
  return handle;
}

Attempt MapAtMemoryOffset(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, 2 * granule));
  return range.Map(0, granule, granule, handle);
}

Attempt MapPrefix(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, 2 * granule));
  return range.Map(0, granule, 0, handle);
}

Attempt MapBeyondMemory(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  return range.Map(0, 2 * granule, 0, handle);
}

Attempt MapTwice(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  if (const CuResult first = range.Map(0, granule, 0, handle); first != CuResult::kSuccess)
    return first;
  return range.Map(2 * granule, granule, 0, handle);
}

Attempt MapOverMapping(VirtualRange& range, size_t granule) {
  COPPICE_RETURN_IF_ERROR(range.Fill(0, 2 * granule));
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  return range.Map(granule, granule, 0, handle);
}

Attempt MapOutsideReservation(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  return range.Map(VmmMisuse::kGranules * granule, granule, 0, handle);
}

Attempt MapReleased(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  if (const CuResult released = range.Release(handle); released != CuResult::kSuccess)
    return released;
  return range.Map(0, granule, 0, handle);
}

Attempt MapHalfGranule(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  return range.Map(0, granule / 2, 0, handle);
}

Attempt MapAtHalfGranule(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  return range.Map(granule / 2, granule, 0, handle);
}

Attempt MapNothing(VirtualRange& range, size_t granule) {
  COPPICE_ASSIGN_OR_RETURN(const CuMemoryHandle handle, Memory(range, granule));
  return range.Map(0, 0, 0, handle);
}

Attempt UnmapPart(VirtualRange& range, size_t granule) {
  COPPICE_RETURN_IF_ERROR(range.Fill(0, 2 * granule));
  return range.Unmap(0, granule);
}

Attempt UnmapSeveral(VirtualRange& range, size_t granule) {
  COPPICE_RETURN_IF_ERROR(range.Fill(0, granule));
  COPPICE_RETURN_IF_ERROR(range.Fill(granule, granule));
  return range.Unmap(0, 2 * granule);
}

Attempt UnmapUnmapped(VirtualRange& range, size_t granule) {
  return range.Unmap(0, granule);
}

Attempt UnmapNothing(VirtualRange& range, size_t granule) {
  COPPICE_RETURN_IF_ERROR(range.Fill(0, granule));
  return range.Unmap(0, 0);
}

Attempt FreeMapped(VirtualRange& range, size_t granule) {
  COPPICE_RETURN_IF_ERROR(range.Fill(0, granule));
  return range.Free();
}

Attempt FreePart(VirtualRange& range, size_t granule) {
  return range.cu().MemAddressFree(range.address(), granule);
}

Attempt OpenHalf(VirtualRange& range, size_t granule) {
  COPPICE_RETURN_IF_ERROR(range.Fill(0, 2 * granule));
  return range.SetAccess(0, granule);
}

Attempt OpenUnmapped(VirtualRange& range, size_t granule) {
  return range.SetAccess(0, granule);
}

Attempt OpenNothing(VirtualRange& range, size_t granule) {
  COPPICE_RETURN_IF_ERROR(range.Fill(0, granule));
  return range.SetAccess(0, 0);
}

Attempt CreateHalfGranule(VirtualRange& range, size_t granule) {
  CuMemoryHandle handle = 0;
  return range.Create(granule / 2, &handle);
}

Attempt CreateNothing(VirtualRange& range, size_t /*granule*/) {
  CuMemoryHandle handle = 0;
  return range.Create(0, &handle);
}

// A reservation of `bytes`, freed again if there is one.
CuResult Reserve(const VirtualRange& range, size_t bytes, size_t alignment) {
  CuDeviceAddress address = 0;
  const CuResult result = range.cu().MemAddressReserve(&address, bytes, alignment, 0, 0);
  if (result == CuResult::kSuccess) range.cu().MemAddressFree(address, bytes);
  return result;
}

Attempt ReserveHalfPage(VirtualRange& range, size_t /*granule*/) {
  return Reserve(range, 2048, 0);
}

Attempt ReserveNothing(VirtualRange& range, size_t /*granule*/) {
  return Reserve(range, 0, 0);
}

Attempt ReserveOddAlignment(VirtualRange& range, size_t granule) {
  return Reserve(range, granule, 3 * granule);
}

constexpr VmmMisuse kMisuses[] = {
    {"map from an offset in the memory", &MapAtMemoryOffset},
    {"map a prefix of the memory", &MapPrefix},
    {"map more than the memory", &MapBeyondMemory},
    {"map one memory at two addresses", &MapTwice},
    {"map over a mapping", &MapOverMapping},
    {"map outside the reservation", &MapOutsideReservation},
    {"map released memory", &MapReleased},
    {"map half a granule", &MapHalfGranule},
    {"map at half a granule", &MapAtHalfGranule},
    {"map zero bytes", &MapNothing},
    {"unmap a part of a mapping", &UnmapPart},
    {"unmap two mappings at once", &UnmapSeveral},
    {"unmap what is not mapped", &UnmapUnmapped},
    {"unmap zero bytes", &UnmapNothing},
    {"free a reservation that is mapped", &FreeMapped},
    {"free a part of a reservation", &FreePart},
    {"set access on half a mapping", &OpenHalf},
    {"set access on what is not mapped", &OpenUnmapped},
    {"set access on zero bytes", &OpenNothing},
    {"create half a granule", &CreateHalfGranule},
    {"create zero bytes", &CreateNothing},
    {"reserve half a page", &ReserveHalfPage},
    {"reserve zero bytes", &ReserveNothing},
    {"reserve at three granules", &ReserveOddAlignment},
};

}  // namespace

std::span<const VmmMisuse> VmmMisuses() {
  return kMisuses;
}

}  // namespace coppice
