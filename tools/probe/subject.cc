// Opens the device and warms its kernels.

#include "tools/probe/subject.h"

#include <utility>

#include "coppice/base/status.h"

#include "tools/probe/probe_kernels.h"

namespace coppice {

absl::StatusOr<Subject> Subject::Create(const Driver& driver) {
  Subject subject(driver);
  COPPICE_RETURN_IF_ERROR(subject.Reset());
  return subject;
}

absl::Status Subject::Reset() {
  parts_.reset();
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(*driver_));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(*driver_));
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library,
                           KernelLibrary::Load(*driver_, probe_kernels_image));
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory words, DeviceMemory::Create(*driver_, 8 * kWords));
  COPPICE_ASSIGN_OR_RETURN(const Kernel touch, library.Get("Touch"));
  COPPICE_ASSIGN_OR_RETURN(const Kernel bulk, library.Get("Bulk"));
  parts_.emplace(Parts{std::move(context), std::move(stream), std::move(library), std::move(words),
                       touch, bulk});
  // A driver may load a kernel at its first launch, which is no part of any figure.
  int64_t* const target = word_pointer(0);
  COPPICE_RETURN_IF_ERROR(
      Launch(*driver_, touch, this->stream(), TouchParams{.target = target}, 1));
  COPPICE_RETURN_IF_ERROR(Launch(*driver_, bulk, this->stream(), BulkParams{.target = target}, 1));
  return Synchronize();
}

int64_t* Subject::word_pointer(int64_t index) const {
  return reinterpret_cast<int64_t*>(word(index));  // NOLINT(performance-no-int-to-ptr)
}

const void* Subject::image() const {
  return driver_->kind() == DriverKind::kCuda ? probe_kernels_image.fatbin : &probe_kernels_image;
}

CuMemAllocationProperties Subject::memory_properties() const {
  CuMemAllocationProperties properties;
  properties.type = CuMemAllocationType::kPinned;
  properties.location = {.type = CuMemLocationType::kDevice, .id = context().device()};
  return properties;
}

CuMemAccessDescriptor Subject::memory_access() const {
  return {.location = {.type = CuMemLocationType::kDevice, .id = context().device()},
          .flags = CuMemAccessFlags::kReadWrite};
}

absl::StatusOr<size_t> Subject::Granularity(CuMemGranularity option) const {
  const CuMemAllocationProperties properties = memory_properties();
  size_t bytes = 0;
  COPPICE_RETURN_IF_ERROR(
      driver_->Call<&DriverTable::MemGetAllocationGranularity>(&bytes, &properties, option));
  return bytes;
}

absl::StatusOr<int64_t> Subject::FreeBytes() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::MemGetInfo>(&free_bytes, &total_bytes));
  return static_cast<int64_t>(free_bytes);
}

absl::StatusOr<int> Subject::DriverVersion() const {
  int version = 0;
  COPPICE_RETURN_IF_ERROR(driver_->Call<&DriverTable::DriverGetVersion>(&version));
  return version;
}

}  // namespace coppice
