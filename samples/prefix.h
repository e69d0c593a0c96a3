// What batcher.cc and its kernel share.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace samples {

struct PrefixParams {
  const int32_t* offsets;  // Where each sequence begins, and the last one ends.
  const int64_t* x;        // Rows of all sequences, packed.
  int64_t* y;
  int64_t rows;  // That there is room for.
};

extern const coppice::KernelImage prefix_image;

}  // namespace samples
