// What the samples that scale a vector share with their kernel.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace samples {

struct ScaleParams {
  const float* x;
  float* y;
  int64_t count;
  float factor;
};

extern const coppice::KernelImage scale_image;

}  // namespace samples
