// DLTensor to Tensor and back.

#include "capi/tensors.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "coppice/base/status.h"

#include "capi/structs.h"

namespace coppice::capi {
namespace {

struct Pair {
  DType dtype;
  uint8_t code;
  uint8_t bits;
};

constexpr std::array<Pair, 16> kPairs = {{
    {DType::kFloat32, kDLFloat, 32},
    {DType::kFloat16, kDLFloat, 16},
    {DType::kBFloat16, kDLBfloat, 16},
    {DType::kFloat64, kDLFloat, 64},
    {DType::kFloat8E4M3, kDLFloat8_e4m3fn, 8},
    {DType::kFloat8E5M2, kDLFloat8_e5m2, 8},
    {DType::kComplex64, kDLComplex, 64},
    {DType::kBool, kDLBool, 8},
    {DType::kInt8, kDLInt, 8},
    {DType::kInt16, kDLInt, 16},
    {DType::kInt32, kDLInt, 32},
    {DType::kInt64, kDLInt, 64},
    {DType::kUInt8, kDLUInt, 8},
    {DType::kUInt16, kDLUInt, 16},
    {DType::kUInt32, kDLUInt, 32},
    {DType::kUInt64, kDLUInt, 64},
}};

// Sets sizes and strides. Errors: a text of what is wrong.
std::optional<std::string> ReadLayout(const DLTensor& given, Tensor& tensor) {
  if (given.ndim < 0 || given.ndim > kRankMax)
    return fmt::format("{} axes; 0 to {} are possible", given.ndim, kRankMax);
  if (given.ndim > 0 && given.shape == nullptr) return "its shape is null";
  tensor.rank = static_cast<int8_t>(given.ndim);
  int64_t dense = 1;
  int64_t last = 0;  // The farthest element.
  bool overflow = false;
  bool empty = false;
  for (int axis = given.ndim - 1; axis >= 0; --axis) {
    const auto at = static_cast<size_t>(axis);
    const int64_t size = given.shape[axis];
    if (size < 0) return fmt::format("axis {} has {} elements", axis, size);
    int64_t stride = given.strides == nullptr ? dense : given.strides[axis];
    const bool stepped = given.strides != nullptr && size > 1;
    if (!stepped && stride < 0) stride = 0;  // Nobody steps along it, or it has overflown.
    if (stride < 0)
      return fmt::format("axis {} has a negative stride, {}; copy the tensor first", axis, stride);
    tensor.sizes[at] = size;
    tensor.strides[at] = stride;
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(std::max<int64_t>(size, 1), dense, &dense);
    overflow |= size > 1 && __builtin_mul_overflow(size - 1, stride, &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
    empty |= size == 0;
  }
  // Eight bytes are the largest element; the sums that follow stay below 2^63.
  constexpr int64_t kReachMax = int64_t{1} << 56;
  overflow |= last > kReachMax || dense > kReachMax;
  for (const int64_t stride : tensor.strides)
    overflow |= stride > kReachMax;
  if (overflow && !empty) return "it does not fit into the address space";
  if (overflow) tensor.strides = {};
  return std::nullopt;
}

// Managed memory is every device's.
bool LiesOn(DLDevice its, DLDevice device) {
  if (its.device_type == device.device_type) return its.device_id == device.device_id;
  return its.device_type == kDLCUDAManaged && device.device_type == kDLCUDA;
}

}  // namespace

DLDeviceType DeviceTypeOf(DriverKind kind) {
  return kind == DriverKind::kCuda ? kDLCUDA : kDLExtDev;
}

absl::StatusOr<DType> DTypeOf(DLDataType dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.code == dtype.code && pair.bits == dtype.bits && dtype.lanes == 1) return pair.dtype;
  }
  return InvalidArgument("coppice has no dtype for DLPack code {}, bits {}, lanes {}",
                         unsigned{dtype.code}, unsigned{dtype.bits}, unsigned{dtype.lanes});
}

DLDataType DLTypeOf(DType dtype) {
  const auto found = std::find_if(kPairs.begin(), kPairs.end(),
                                  [&](const Pair& pair) { return pair.dtype == dtype; });
  return {.code = found->code, .bits = found->bits, .lanes = 1};
}

absl::StatusOr<Tensor> TensorOf(const DLTensor* given,
                                DLDevice device,
                                const char* what,
                                int64_t index) {
  if (given == nullptr) return InvalidArgument("{} {}: null", what, index);
  if (!LiesOn(given->device, device))
    return InvalidArgument(
        "{} {}: is on device {} of type {}, but the session is on device {} of type {}; copy it "
        "there",
        what, index, given->device.device_id, static_cast<int>(given->device.device_type),
        device.device_id, static_cast<int>(device.device_type));
  const absl::StatusOr<DType> dtype = DTypeOf(given->dtype);
  if (!dtype.ok()) return InvalidArgument("{} {}: {}", what, index, MessageOf(dtype.status()));
  Tensor tensor;
  tensor.dtype = *dtype;
  tensor.data = reinterpret_cast<uintptr_t>(given->data);
  if (__builtin_add_overflow(tensor.data, given->byte_offset, &tensor.data))
    return InvalidArgument("{} {}: its byte_offset goes past the last address", what, index);
  if (const std::optional<std::string> wrong = ReadLayout(*given, tensor))
    return InvalidArgument("{} {}: {}", what, index, *wrong);
  return tensor;
}

absl::StatusOr<Tensors> TensorsOf(const DLTensor* const* given,
                                  int64_t count,
                                  DLDevice device,
                                  const char* what) {
  COPPICE_RETURN_IF_ERROR(CheckArray(given, count, what));
  Tensors tensors;
  for (int64_t i = 0; i < count; ++i) {
    COPPICE_ASSIGN_OR_RETURN(const Tensor tensor, TensorOf(given[i], device, what, i));
    tensors.push_back(tensor);
  }
  return tensors;
}

DLTensor DLTensorOf(Tensor& tensor, DLDevice device) {
  return {.data = reinterpret_cast<void*>(tensor.data),  // NOLINT(performance-no-int-to-ptr)
          .device = device,
          .ndim = tensor.rank,
          .dtype = DLTypeOf(tensor.dtype),
          .shape = tensor.sizes.data(),
          .strides = tensor.strides.data(),
          .byte_offset = 0};
}

void WriteView(const ShownTensor& shown, coppice_view* out) {
  Tensor tensor = shown.tensor;
  out->tensor = DLTensorOf(tensor, shown.device);
  std::copy(tensor.sizes.begin(), tensor.sizes.end(), out->shape);
  std::copy(tensor.strides.begin(), tensor.strides.end(), out->strides);
  out->tensor.shape = out->shape;
  out->tensor.strides = out->strides;
}

}  // namespace coppice::capi
