// What hello_graph.cc and its kernel share.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

namespace samples {

struct EmbedParams {
  const int32_t* tokens;  // [rows, length]
  const float* table;     // [vocabulary, features]
  float* y;               // [rows, features]
  int64_t length;
  int64_t vocabulary;
  int64_t features;
};

extern const coppice::KernelImage embed_image;

}  // namespace samples
