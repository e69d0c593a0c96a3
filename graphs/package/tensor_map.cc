// Descriptors, checked against their buffers and encoded by the driver.

#include "graphs/package/tensor_map.h"

#include <array>

#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/base/tensor.h"

namespace coppice::internal {
namespace {

constexpr size_t kRankMax = 5;

CuTensorMapDataType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CuTensorMapDataType::kFloat32;
    case DType::kFloat16:
      return CuTensorMapDataType::kFloat16;
    case DType::kBFloat16:
      return CuTensorMapDataType::kBFloat16;
    case DType::kFloat64:
      return CuTensorMapDataType::kFloat64;
    case DType::kInt16:
    case DType::kUInt16:
      return CuTensorMapDataType::kUInt16;
    case DType::kInt32:
      return CuTensorMapDataType::kInt32;
    case DType::kUInt32:
      return CuTensorMapDataType::kUInt32;
    case DType::kInt64:
      return CuTensorMapDataType::kInt64;
    case DType::kUInt64:
      return CuTensorMapDataType::kUInt64;
    default:
      return CuTensorMapDataType::kUInt8;  // A manifest has complex numbers in none.
  }
}

// What a map says at the sizes of one run.
struct Extents {
  std::array<uint64_t, kRankMax> dims = {};
  std::array<uint64_t, kRankMax> strides = {};
  int64_t bytes = 0;  // From its first element to the end of its last.
};

absl::StatusOr<Extents> ExtentsOf(const package::TensorMapArgument& map,
                                  std::span<const int64_t> values) {
  Extents extents{.bytes = SizeOf(map.dtype)};
  for (size_t i = 0; i < map.dims.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t size, Frame::SizeAt(map.dims[i], values, "dimension"));
    if (size == 0)
      return InvalidArgument("dimension {} of a tensor map is 0; skip the step with \"if\"", i);
    extents.dims[i] = static_cast<uint64_t>(size);
    int64_t stride = SizeOf(map.dtype);
    if (i > 0) {
      COPPICE_ASSIGN_OR_RETURN(stride, Frame::SizeAt(map.strides[i - 1], values, "stride"));
      extents.strides[i - 1] = static_cast<uint64_t>(stride);
    }
    int64_t behind = 0;
    if (__builtin_mul_overflow(size - 1, stride, &behind) ||
        __builtin_add_overflow(extents.bytes, behind, &extents.bytes))
      return InvalidArgument("a tensor map is larger than the memory of any device");
  }
  return extents;
}

}  // namespace

absl::StatusOr<CuTensorMap> EncodeTensorMap(const Driver& driver,
                                            const Frame& frame,
                                            std::span<const int64_t> values,
                                            const package::TensorMapArgument& map) {
  COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address, frame.AddressOf(map.operand, values));
  COPPICE_ASSIGN_OR_RETURN(const Extents extents, ExtentsOf(map, values));
  if (const int64_t behind = frame.BytesBehind(map.operand, address); extents.bytes > behind)
    return InvalidArgument("a tensor map needs {} bytes, but its buffer has only {} left",
                           extents.bytes, behind);
  CuTensorMap encoded;
  const CuResult result = driver.table().TensorMapEncodeTiled(
      &encoded, TypeOf(map.dtype), static_cast<unsigned>(map.dims.size()),
      reinterpret_cast<void*>(address),  // NOLINT(performance-no-int-to-ptr)
      extents.dims.data(), extents.strides.data(), map.box.data(), map.element_strides.data(),
      static_cast<CuTensorMapInterleave>(map.interleave),
      static_cast<CuTensorMapSwizzle>(map.swizzle),
      static_cast<CuTensorMapL2Promotion>(map.l2_promotion),
      static_cast<CuTensorMapFloatOobFill>(map.oob_fill));
  if (result == CuResult::kSuccess) return encoded;
  if (result == CuResult::kNotSupported)
    return MakeError(absl::StatusCode::kUnimplemented,
                     "the device has no tensor maps; they need compute capability 9.0");
  if (result != CuResult::kInvalidValue) return driver.ErrorOf(result, "cuTensorMapEncodeTiled");
  const size_t rank = map.dims.size();
  return InvalidArgument(
      "cuTensorMapEncodeTiled refuses a tensor of [{}] {} at {:#x} with strides of [{}] bytes in "
      "boxes of [{}]; see the requirements in FORMAT.md",
      fmt::join(std::span(extents.dims).first(rank), ", "), NameOf(map.dtype), address,
      fmt::join(std::span(extents.strides).first(rank - 1), ", "), fmt::join(map.box, ", "));
}

}  // namespace coppice::internal
