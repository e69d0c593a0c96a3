// What the probe measures: a device behind a driver, and the little that every survey needs on it.
//
// Threads: the thread that made it; others first call context().MakeCurrent().

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

namespace coppice {

class Subject {
 public:
  static constexpr int64_t kWords = 512;

  // Retains the context of device 0, loads the kernels and runs each once. `driver` must outlive
  // the subject. Errors: as Context::Create and KernelLibrary::Load; of a kernel.
  static absl::StatusOr<Subject> Create(const Driver& driver);

  // Gives the context back and begins anew, so that what the driver kept for later is gone unless
  // somebody else retains the context. After an error the subject is good for nothing.
  absl::Status Reset();

  const Driver& driver() const { return *driver_; }
  const DriverTable& cu() const { return driver_->table(); }
  const Context& context() const { return parts_->context; }
  CuStream stream() const { return parts_->stream.handle(); }
  const Kernel& touch() const { return parts_->touch; }
  const Kernel& bulk() const { return parts_->bulk; }
  absl::Status Synchronize() const { return parts_->stream.Synchronize(); }

  // Device memory that kernels may write: word `index` of kWords, 8 bytes each.
  DeviceAddress word(int64_t index) const { return parts_->words.address() + 8 * index; }
  int64_t* word_pointer(int64_t index) const;

  // The half of the probe's kernel image that the driver loads.
  const void* image() const;

  // What cuMemCreate and its kin are told: plain memory of this device, readable and writable.
  CuMemAllocationProperties memory_properties() const;
  CuMemAccessDescriptor memory_access() const;

  // The status of a raw call; `entry` is its CUDA name.
  absl::Status Check(CuResult result, const char* entry) const {
    return result == CuResult::kSuccess ? absl::OkStatus() : driver_->ErrorOf(result, entry);
  }

  // Of memory_properties(), in bytes.
  absl::StatusOr<size_t> Granularity(CuMemGranularity option) const;

  absl::StatusOr<int64_t> FreeBytes() const;
  absl::StatusOr<int> DriverVersion() const;  // 1000 x major + 10 x minor.

 private:
  struct Parts {
    Context context;
    Stream stream;
    KernelLibrary library;
    DeviceMemory words;
    Kernel touch;
    Kernel bulk;
  };

  explicit Subject(const Driver& driver) : driver_(&driver) {}

  const Driver* driver_;
  std::optional<Parts> parts_;
};

}  // namespace coppice
