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

extern const KernelImage probe_kernels_image;

}  // namespace coppice
