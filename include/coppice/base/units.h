// Byte units, alignment arithmetic and the type of a device address.
//
// Units: everything here is in bytes. Threads: any.

#pragma once

#include <cstdint>

#include "coppice/base/check.h"

namespace coppice {

// An address in device memory; the same integer type as CUDA's CUdeviceptr. Zero means that there
// is no address.
using DeviceAddress = unsigned long long;  // NOLINT(google-runtime-int)

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;

// Every buffer that coppice places starts at a multiple of this, and its size is rounded up to a
// multiple. cuMemAlloc promises this alignment, and vectorised kernels rely on it.
inline constexpr int64_t kBufferAlignment = 256;

constexpr bool IsPowerOfTwo(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

// The least multiple of `alignment` that is >= `value`. Requires: value >= 0, alignment >= 1, no
// overflow (all checked).
constexpr int64_t AlignUp(int64_t value, int64_t alignment) {
  COPPICE_CHECK(value >= 0 && alignment >= 1, "AlignUp takes a size and a positive alignment");
  COPPICE_CHECK(value <= INT64_MAX - (alignment - 1), "AlignUp overflows");
  return (value + (alignment - 1)) / alignment * alignment;
}

// The least n with n * divisor >= value. Requires: value >= 0, divisor >= 1.
constexpr int64_t CeilDivide(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

}  // namespace coppice
