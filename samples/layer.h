// What dynamic_batch.cc and its kernel share.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace samples {

struct LayerParams {
  const float* x;        // [rows, in]
  const float* weights;  // [in, out]
  float* y;              // [rows, out]
  int64_t in;
  int64_t out;
};

extern const coppice::KernelImage layer_image;

}  // namespace samples
