// Keeps account of mappings and handles.

#include "tools/probe/virtual_range.h"

#include <utility>

#include "coppice/base/status.h"

namespace coppice {

absl::StatusOr<VirtualRange> VirtualRange::Reserve(const Subject& subject, size_t bytes) {
  CuDeviceAddress address = 0;
  COPPICE_RETURN_IF_ERROR(subject.driver().Call<&DriverTable::MemAddressReserve>(
      &address, bytes, size_t{0}, CuDeviceAddress{0}, 0ULL));
  return VirtualRange(subject, address, bytes);
}

VirtualRange::VirtualRange(VirtualRange&& other) noexcept
    : subject_(other.subject_),
      address_(std::exchange(other.address_, 0)),
      bytes_(other.bytes_),
      mappings_(std::exchange(other.mappings_, {})),
      handles_(std::exchange(other.handles_, {})) {}

VirtualRange::~VirtualRange() {
  while (!mappings_.empty()) {
    cu().MemUnmap(mappings_.back().address, mappings_.back().bytes);
    mappings_.pop_back();
  }
  for (const CuMemoryHandle handle : handles_)
    cu().MemRelease(handle);
  Free();
}

CuResult VirtualRange::Create(size_t bytes, CuMemoryHandle* handle) {
  const CuMemAllocationProperties properties = subject_->memory_properties();
  const CuResult result = cu().MemCreate(handle, bytes, &properties, 0);
  if (result == CuResult::kSuccess) handles_.push_back(*handle);
  return result;
}

CuResult VirtualRange::Map(size_t offset,
                           size_t bytes,
                           size_t memory_offset,
                           CuMemoryHandle handle) {
  const CuResult result = cu().MemMap(address_ + offset, bytes, memory_offset, handle, 0);
  if (result == CuResult::kSuccess) mappings_.push_back({address_ + offset, bytes});
  return result;
}

CuResult VirtualRange::SetAccess(size_t offset, size_t bytes) {
  const CuMemAccessDescriptor access = subject_->memory_access();
  return cu().MemSetAccess(address_ + offset, bytes, &access, 1);
}

CuResult VirtualRange::Unmap(size_t offset, size_t bytes) {
  const DeviceAddress first = address_ + offset;
  const CuResult result = cu().MemUnmap(first, bytes);
  if (result != CuResult::kSuccess) return result;
  // The latest first: a survey that unmaps in reverse order times no search.
  for (auto mapping = mappings_.end(); mapping != mappings_.begin();) {
    --mapping;
    const bool exact = mapping->address == first && mapping->bytes == bytes;
    if (mapping->address >= first && mapping->address + mapping->bytes <= first + bytes)
      mapping = mappings_.erase(mapping);
    if (exact) break;
  }
  return result;
}

CuResult VirtualRange::Release(CuMemoryHandle handle) {
  const CuResult result = cu().MemRelease(handle);
  if (result == CuResult::kSuccess) std::erase(handles_, handle);
  return result;
}

CuResult VirtualRange::Free() {
  if (address_ == 0) return CuResult::kSuccess;
  const CuResult result = cu().MemAddressFree(address_, bytes_);
  if (result == CuResult::kSuccess) address_ = 0;
  return result;
}

absl::Status VirtualRange::Fill(size_t offset, size_t bytes) {
  CuMemoryHandle handle = 0;
  COPPICE_RETURN_IF_ERROR(subject_->Check(Create(bytes, &handle), "cuMemCreate"));
  COPPICE_RETURN_IF_ERROR(subject_->Check(Map(offset, bytes, 0, handle), "cuMemMap"));
  return subject_->Check(SetAccess(offset, bytes), "cuMemSetAccess");
}

}  // namespace coppice
