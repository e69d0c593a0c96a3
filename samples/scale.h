// What hello_graph.cc and its kernel share.

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
