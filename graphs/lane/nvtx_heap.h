// A window of memory as tools know it that watch memory through NVTX, compute-sanitizer among them:
// a heap of which only what is mapped may be touched. Private to graphs/.
//
// Without a tool, or where the build found no nvtx3 that knows memory, it does nothing. NVTX
// answers a registration with null where there is no tool, and null as a heap means the whole
// process: so null is kept and never passed on.
//
// Units: bytes. Threads: any, one at a time. Cost: nothing without a tool.

#pragma once

#include <cstdint>
#include <string>

#include "coppice/base/tensor.h"

namespace coppice::internal {

class NvtxHeap {
 public:
  // Of [base, base + bytes), nothing of which may be touched yet.
  NvtxHeap(const std::string& name, DeviceAddress base, int64_t bytes);
  ~NvtxHeap();
  NvtxHeap(const NvtxHeap&) = delete;
  NvtxHeap& operator=(const NvtxHeap&) = delete;

  // Exactly [base, base + mapped) may be touched from here on. Does nothing if that is so already.
  void Resize(int64_t mapped);

 private:
  const DeviceAddress base_;
  void* heap_ = nullptr;  // The tool's handle; null without a tool.
  int64_t mapped_ = 0;
};

}  // namespace coppice::internal
