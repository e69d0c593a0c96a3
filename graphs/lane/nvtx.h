// NVTX ranges in the domain `coppice`, where the build found nvtx3; nothing otherwise.
//
// Cost: a few instructions while no tool is attached. Threads: any.

#pragma once

#if COPPICE_HAVE_NVTX
#include <nvtx3/nvtx3.hpp>

namespace coppice::internal {
struct NvtxDomain {
  static constexpr const char* name = "coppice";  // NOLINT(readability-identifier-naming): nvtx3's.
};
using NvtxRange = nvtx3::scoped_range_in<NvtxDomain>;
using NvtxName = nvtx3::event_attributes;
}  // namespace coppice::internal

#else

namespace coppice::internal {
using NvtxName = const char*;
struct NvtxRange {
  explicit NvtxRange(NvtxName) {}
};
}  // namespace coppice::internal

#endif
