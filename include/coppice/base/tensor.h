// A tensor as a call sees it: where it is, what its elements are, how it is laid out.
//
// A Tensor never owns its bytes and never allocates: sizes and strides sit inline, so that a call
// can be described, compared and copied on the replay path at no cost.
//
// Units: sizes and strides count elements, never bytes. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "coppice/base/check.h"
#include "coppice/base/units.h"

namespace coppice {

inline constexpr int kRankMax = 4;  // Dimensions of a tensor, at most.

enum class DType : uint8_t { kFloat32, kFloat16, kBFloat16, kInt32, kInt64, kUInt8 };

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

// The name people write: "f32", "f16", "bf16", "i32", "i64", "u8".
constexpr const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "f32";
    case DType::kFloat16:
      return "f16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kUInt8:
      return "u8";
  }
  return "?";
}

struct Tensor {
  DeviceAddress data = 0;  // Address of element 0; may be 0 only if empty.
  DType dtype = DType::kFloat32;
  int8_t rank = 0;                          // In [0, kRankMax].
  std::array<int64_t, kRankMax> sizes{};    // Elements; >= 0. Entries from `rank` on are 0.
  std::array<int64_t, kRankMax> strides{};  // Elements; 0 repeats one element. Same.
  uint64_t made_by = 0;  // Number of the call whose output it is, so that a stale one is told from
                         // what lies there since; 0: not an output, or not known.

  // A row-major tensor without gaps. Requires: 0 <= dims.size() <= kRankMax, dims >= 0 (checked).
  static constexpr Tensor Dense(DeviceAddress data, DType dtype, std::span<const int64_t> dims) {
    COPPICE_CHECK(dims.size() <= static_cast<size_t>(kRankMax), "too many dimensions");
    Tensor tensor;
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.rank = static_cast<int8_t>(dims.size());
    int64_t stride = 1;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      const int64_t size = dims[static_cast<size_t>(axis)];
      COPPICE_CHECK(size >= 0, "a dimension is negative");
      tensor.sizes[static_cast<size_t>(axis)] = size;
      tensor.strides[static_cast<size_t>(axis)] = stride;
      stride *= size > 0 ? size : 1;
    }
    return tensor;
  }

  // Product of the sizes; 1 for rank 0.
  constexpr int64_t element_count() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis)
      count *= sizes[static_cast<size_t>(axis)];
    return count;
  }

  // Whether both are the same view of the same memory, whichever call made it.
  friend constexpr bool operator==(const Tensor& a, const Tensor& b) {
    return a.data == b.data && a.dtype == b.dtype && a.rank == b.rank && a.sizes == b.sizes &&
           a.strides == b.strides;
  }
};

}  // namespace coppice
