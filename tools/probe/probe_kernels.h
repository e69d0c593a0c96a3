// The kernels that the probe launches: their parameters, and the image that holds them. Each is
// launched with one block. Also compiled by nvcc.
//
// Threads: plain values.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace coppice {

inline constexpr int kProbeThreads = 32;

// "Touch", a kernel with small parameters: *target = value.
struct TouchParams {
  int64_t* target = nullptr;
  int64_t value = 0;
};

// "Bulk", a kernel with about 3 KB of parameters: *target = the sum of the words.
struct BulkParams {
  static constexpr int kWords = 384;
  int64_t* target = nullptr;
  int64_t words[kWords] = {};
};

// "Spin", which keeps the device busy: `iterations` dependent steps per thread, then *target = the
// result of thread 0.
struct SpinParams {
  int64_t* target = nullptr;
  int64_t iterations = 0;
};

extern const KernelImage probe_kernels_image;

}  // namespace coppice
