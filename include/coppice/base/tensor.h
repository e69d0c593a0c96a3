// A tensor as a call sees it: its address, dtype, sizes and strides.
//
// A Tensor never owns its bytes and never allocates. Sizes and strides are stored inline, so that
// the replay path describes, compares and copies a call without allocating.
//
// Units: sizes and strides count elements, never bytes. Threads: plain values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "coppice/base/check.h"
#include "coppice/base/units.h"

namespace coppice {

inline constexpr int kRankMax = 8;  // Maximum number of dimensions of a tensor.

// The types that DLPack and PyTorch name, except those smaller than a byte. kFloat8E4M3 has no
// infinities (PyTorch's float8_e4m3fn); kComplex64 is two f32, the real part first.
enum class DType : uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat64,
  kFloat8E4M3,
  kFloat8E5M2,
  kComplex64,
  kBool,  // One byte: 0 or 1.
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
};

namespace internal {

struct DTypeFacts {
  int64_t bytes;
  const char* name;
};
inline constexpr std::array<DTypeFacts, 16> kDTypeFacts = {{
    {4, "f32"},
    {2, "f16"},
    {2, "bf16"},
    {8, "f64"},
    {1, "f8e4m3"},
    {1, "f8e5m2"},
    {8, "c64"},
    {1, "bool"},
    {1, "i8"},
    {2, "i16"},
    {4, "i32"},
    {8, "i64"},
    {1, "u8"},
    {2, "u16"},
    {4, "u32"},
    {8, "u64"},
}};

}  // namespace internal

// Bytes of one element; 0 if `dtype` is not an enumerator.
constexpr int64_t SizeOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < internal::kDTypeFacts.size() ? internal::kDTypeFacts[index].bytes : 0;
}

// Its name, such as "f32", "bf16", "i64", "bool"; "?" if `dtype` is not an enumerator.
constexpr const char* NameOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < internal::kDTypeFacts.size() ? internal::kDTypeFacts[index].name : "?";
}

struct Tensor {
  DeviceAddress data = 0;  // Address of element 0; may be 0 only if empty.
  DType dtype = DType::kFloat32;
  int8_t rank = 0;                          // In [0, kRankMax].
  std::array<int64_t, kRankMax> sizes{};    // Elements; >= 0. Entries from `rank` on are 0.
  std::array<int64_t, kRankMax> strides{};  // Elements; 0 repeats one element. As `sizes`.
  uint64_t made_by = 0;  // Number of the call that made this output, to recognise stale outputs; 0:
                         // not an output, or not known.

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

  // Elements in memory from the first to the last, both included; 0 if it has none. Requires: no
  // negative stride, and a span that fits an int64.
  constexpr int64_t span() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis) {
      if (sizes[axis] == 0) return 0;
      last += (sizes[axis] - 1) * strides[axis];
    }
    return last + 1;
  }

  // Whether no two elements overlap because each stride exceeds the reach of all smaller strides.
  // Also false for some unusual views whose elements do not overlap. Requires: as span().
  constexpr bool keeps_apart() const {
    for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis) {
      if (sizes[axis] == 0) return true;
    }
    for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis) {
      if (sizes[axis] == 1) continue;
      int64_t reach = 0;  // The reach of axes with a smaller stride, and of later axes with the
                          // same stride.
      for (size_t other = 0; other < static_cast<size_t>(rank); ++other) {
        const bool inner =
            strides[other] < strides[axis] || (strides[other] == strides[axis] && other > axis);
        if (inner) reach += (sizes[other] - 1) * strides[other];
      }
      if (strides[axis] <= reach) return false;
    }
    return true;
  }

  // Whether both are the same view of the same memory; `made_by` is not compared.
  friend constexpr bool operator==(const Tensor& a, const Tensor& b) {
    return a.data == b.data && a.dtype == b.dtype && a.rank == b.rank && a.sizes == b.sizes &&
           a.strides == b.strides;
  }
};

}  // namespace coppice
