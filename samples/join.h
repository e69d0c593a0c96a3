// What expressions.cc and its kernel share.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace samples {

struct JoinParams {
  const float* x;
  const float* y;
  float* joined;           // [rows, x_length + y_length], rows being the grid's y.
  float* sums;             // [rows, pages], pages being the grid's x.
  const int64_t* extents;  // Of the call: how much of x and of y is real, and how many rows.
  int64_t x_length;
  int64_t y_length;
  int64_t page;  // Elements; the launch has as much dynamic shared memory.
};

extern const coppice::KernelImage join_image;

}  // namespace samples
