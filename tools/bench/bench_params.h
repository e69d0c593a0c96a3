// The arguments of the benchmark kernel, shared by the host that fills them and the kernel.
//
// Units: count is in elements. Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

struct IncrementParams {
  float* values = nullptr;
  int64_t count = 0;
};

}  // namespace coppice
