// Memory that a device gives out: the driver's, or that of the caller's provider. Private to capi/.
//
// Units: bytes. Threads: any, with the device's context current.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"

#include "coppice/coppice.h"
#include "coppice/graphs/detached_outputs.h"
#include "coppice/runtime/stream.h"

namespace coppice::capi {

// What a device's memory comes from.
class MemorySource {
 public:
  MemorySource() = default;  // cuMemAlloc.
  explicit MemorySource(const coppice_memory_provider& provider) : provider_(provider) {}

  // Errors: the provider's; kInvalidArgument an address that is no multiple of kBufferAlignment.
  absl::StatusOr<uint64_t> Allocate(int64_t bytes, void* stream) const;
  void Free(uint64_t address, int64_t bytes) const;

  bool is_provided() const { return provider_.has_value(); }
  // For Lease::Detach on `stream`; empty for cuMemAlloc. Refers to this.
  DetachMemory ForDetach(void* stream) const;

 private:
  std::optional<coppice_memory_provider> provider_;
};

// Owns bytes of either.
class DeviceBlock {
 public:
  // `source` outlives the block. Errors: as MemorySource::Allocate and DeviceMemory::Create.
  static absl::StatusOr<DeviceBlock> Create(const MemorySource& source,
                                            const Driver& driver,
                                            int64_t bytes,
                                            void* stream);
  DeviceBlock(DeviceBlock&& other) noexcept
      : own_(std::move(other.own_)),
        source_(std::exchange(other.source_, nullptr)),
        address_(other.address_),
        bytes_(other.bytes_) {}
  DeviceBlock& operator=(DeviceBlock&&) = delete;
  ~DeviceBlock() {
    if (source_ != nullptr) source_->Free(address_, bytes_);
  }

  uint64_t address() const { return address_; }

 private:
  DeviceBlock() = default;

  std::optional<DeviceMemory> own_;
  const MemorySource* source_ = nullptr;  // Null: `own_`, or moved from.
  uint64_t address_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace coppice::capi
