// Copies between the host and the device, each waited for.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/base/tensor.h"
#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/stream.h"

namespace samples {

// Device memory that holds `values`.
template <typename T>
absl::StatusOr<coppice::DeviceMemory> Upload(const coppice::Driver& driver,
                                             const coppice::Stream& stream,
                                             const std::vector<T>& values) {
  const size_t bytes = values.size() * sizeof(T);
  COPPICE_ASSIGN_OR_RETURN(auto memory, coppice::DeviceMemory::Create(driver, bytes));
  COPPICE_RETURN_IF_ERROR(driver.Call<&coppice::DriverTable::MemcpyHtoDAsync>(
      memory.address(), values.data(), bytes, stream.handle()));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return memory;
}

// The float at `address`, after the work queued on `stream` so far.
inline absl::StatusOr<float> Download(const coppice::Driver& driver,
                                      const coppice::Stream& stream,
                                      coppice::DeviceAddress address) {
  float value = 0;
  COPPICE_RETURN_IF_ERROR(driver.Call<&coppice::DriverTable::MemcpyDtoHAsync>(
      &value, address, sizeof(value), stream.handle()));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return value;
}

// The floats of `tensor` row by row, after the work queued on `stream` so far. Requires: one or two
// axes, the elements of a row side by side.
inline absl::StatusOr<std::vector<float>> Download(const coppice::Driver& driver,
                                                   const coppice::Stream& stream,
                                                   const coppice::Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.element_count()));
  const int64_t rows = tensor.rank == 2 ? tensor.sizes[0] : 1;
  const int64_t columns = tensor.sizes[static_cast<size_t>(tensor.rank) - 1];
  for (int64_t row = 0; row < rows; ++row) {
    COPPICE_RETURN_IF_ERROR(driver.Call<&coppice::DriverTable::MemcpyDtoHAsync>(
        values.data() + row * columns, tensor.data + row * tensor.strides[0] * sizeof(float),
        columns * sizeof(float), stream.handle()));
  }
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return values;
}

}  // namespace samples
