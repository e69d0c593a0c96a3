// Tensors of DLPack, coming in and going out. Private to capi/.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/coppice.h"
#include "coppice/runtime/driver.h"

namespace coppice::capi {

using Tensors = absl::InlinedVector<Tensor, 8>;

// The device that tensors of a driver are on.
DLDeviceType DeviceTypeOf(DriverKind kind);

// Errors: kInvalidArgument  a dtype that coppice has not.
absl::StatusOr<DType> DTypeOf(DLDataType dtype);
DLDataType DLTypeOf(DType dtype);

// `given` as a tensor of coppice on `device`, where managed memory always is. Errors:
// kInvalidArgument, of argument `index` of `what`: null, on another device, more than kRankMax
// axes, a negative size, a negative stride where it counts, or elements beyond what an int64 of
// bytes holds.
absl::StatusOr<Tensor> TensorOf(const DLTensor* given,
                                DLDevice device,
                                const char* what,
                                int64_t index);
absl::StatusOr<Tensors> TensorsOf(const DLTensor* const* given,
                                  int64_t count,
                                  DLDevice device,
                                  const char* what);

// A DLTensor whose shape and strides are `tensor`'s own arrays.
DLTensor DLTensorOf(Tensor& tensor, DLDevice device);

// A tensor that a caller is shown.
struct ShownTensor {
  Tensor tensor;
  DLDevice device;
};
// Requires: `out` is as long as in this header, since the tensor points into it.
void WriteView(const ShownTensor& shown, coppice_view* out);

}  // namespace coppice::capi
