// The driver's memory and a provider's.

#include "capi/device_memory.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "capi/failure.h"

namespace coppice::capi {

absl::StatusOr<uint64_t> MemorySource::Allocate(int64_t bytes, void* stream) const {
  uint64_t address = 0;
  ForgetCallbackMessage();
  COPPICE_RETURN_IF_ERROR(StatusOfCallback(
      provider_->allocate(provider_->user, bytes, stream, &address), "memory provider"));
  if (address != 0 && address % static_cast<uint64_t>(kBufferAlignment) == 0) return address;
  if (address != 0) Free(address, bytes);
  return InvalidArgument(
      "memory provider: the block of {} bytes is at {:#x}; return an address that is a multiple of "
      "{}",
      bytes, address, kBufferAlignment);
}

void MemorySource::Free(uint64_t address, int64_t bytes) const {
  provider_->free(provider_->user, address, bytes);
}

DetachMemory MemorySource::ForDetach(void* stream) const {
  if (!is_provided()) return {};
  return {.allocate = [this, stream](int64_t bytes) { return Allocate(bytes, stream); },
          .free = [this](DeviceAddress address, int64_t bytes) { Free(address, bytes); }};
}

absl::StatusOr<DeviceBlock> DeviceBlock::Create(const MemorySource& source,
                                                const Driver& driver,
                                                int64_t bytes,
                                                void* stream) {
  DeviceBlock block;
  block.bytes_ = bytes;
  if (source.is_provided()) {
    COPPICE_ASSIGN_OR_RETURN(block.address_, source.Allocate(bytes, stream));
    block.source_ = &source;
    return block;
  }
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory own, DeviceMemory::Create(driver, bytes));
  block.address_ = own.address();
  block.own_.emplace(std::move(own));
  return block;
}

}  // namespace coppice::capi
