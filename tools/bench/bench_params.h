// The arguments of the benchmark kernel, shared by the host that fills them and the kernel.
//
// Units: count is in elements. Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

struct IncrementParams {
  const float* source = nullptr;
  float* target = nullptr;  // May be the source.
  int64_t count = 0;
};

}  // namespace coppice
