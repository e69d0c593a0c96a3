// What sized_outputs.cc and its kernels share.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace samples {

struct FilterParams {
  const int64_t* words;  // The parameter block, whose first word says how many there are of x.
  const float* x;
  float* y;
  int64_t* kept;
  int64_t capacity;  // Of x and of y.
};

struct SquareParams {
  const int64_t* words;  // As above.
  const float* x;
  float* y;
  int64_t capacity;
};

extern const coppice::KernelImage filter_image;

}  // namespace samples
