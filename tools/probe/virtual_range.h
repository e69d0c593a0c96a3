// A range of reserved addresses, and the physical memory that a survey creates for it and maps
// into it. It remembers what each call left behind and gives all of it back.
//
// The calls return the driver's result as it is: the probe is here to learn it.
//
// Units: bytes; offsets count from the start of the range. Threads: one at a time.

#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

#include "tools/probe/subject.h"

namespace coppice {

class VirtualRange {
 public:
  // `subject` must outlive the range.
  static absl::StatusOr<VirtualRange> Reserve(const Subject& subject, size_t bytes);
  VirtualRange(VirtualRange&& other) noexcept;
  VirtualRange& operator=(VirtualRange&&) = delete;
  ~VirtualRange();

  DeviceAddress address() const { return address_; }
  const Subject& subject() const { return *subject_; }
  const DriverTable& cu() const { return subject_->cu(); }

  CuResult Create(size_t bytes, CuMemoryHandle* handle);
  CuResult Map(size_t offset, size_t bytes, size_t memory_offset, CuMemoryHandle handle);
  CuResult SetAccess(size_t offset, size_t bytes);
  CuResult Unmap(size_t offset, size_t bytes);
  CuResult Release(CuMemoryHandle handle);
  CuResult Free();

  // Creates memory, maps it at `offset` and opens it, for set-up that has to succeed.
  absl::Status Fill(size_t offset, size_t bytes);

 private:
  struct Mapping {
    DeviceAddress address;
    size_t bytes;
  };

  VirtualRange(const Subject& subject, DeviceAddress address, size_t bytes)
      : subject_(&subject), address_(address), bytes_(bytes) {}

  const Subject* subject_;
  DeviceAddress address_;  // 0 once moved from or freed.
  size_t bytes_;
  std::vector<Mapping> mappings_;
  std::vector<CuMemoryHandle> handles_;
};

}  // namespace coppice
