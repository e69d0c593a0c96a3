// The entries of client_entries.inc, defined in the files client_*.cc, and the part of CUDA's ABI
// that only they have.
//
// Source of the facts: cuda.h of CUDA 13.0. Threads: the entries under the emulator's mutex.

#pragma once

#include <cstddef>
#include <cstdint>

#include "coppice/runtime/cuda_abi.h"

struct CUmod_st;
struct CUmemPoolHandle_st;

namespace coppice::emulated_cuda {

using Module = CUmod_st*;
using MemPool = CUmemPoolHandle_st*;
using SharedBytesOfBlock = size_t (*)(int threads);

struct Uuid {
  unsigned char bytes[16] = {};
};

struct MemPoolProperties {
  CuMemAllocationType type = CuMemAllocationType::kInvalid;
  int handle_types = 0;
  CuMemLocation location;
  void* win32_attributes = nullptr;
  size_t bytes_max = 0;
  unsigned short usage = 0;  // NOLINT(google-runtime-int)
  unsigned char reserved[54] = {};
};
static_assert(sizeof(MemPoolProperties) == 88);

enum class MemPoolAttribute : int {
  kReuseFollowEvents = 1,
  kReuseOpportunistic = 2,
  kReuseInternal = 3,
  kReleaseThreshold = 4,
  kReservedNow = 5,
  kReservedHigh = 6,
  kUsedNow = 7,
  kUsedHigh = 8,
};

struct InstantiateParams {
  uint64_t flags = 0;
  CuStream upload = nullptr;
  CuGraphNode error_node = nullptr;
  int result = 0;
};

// What a node of any type is asked to be.
struct NodeParams {
  CuGraphNodeType type = CuGraphNodeType::kKernel;
  int reserved[3] = {};
  union {
    long long padding[29] = {};  // NOLINT(google-runtime-int)
    CuKernelNodeParams kernel;
    struct {
      int flags;
      int reserved;
      CuContext context;
      CuMemcpyParams copy;
    } memcpy;
    struct {
      CuMemsetNodeParams fill;
      CuContext context;
    } memset;
    CuHostNodeParams host;
    struct {
      CuGraph graph;
      int ownership;
    } child;
    CuEvent event;
  };
  long long reserved_end = 0;  // NOLINT(google-runtime-int)
};
static_assert(sizeof(NodeParams) == 256);

// NOLINTBEGIN(google-runtime-int,readability-function-size): CUDA's signatures.
#define X(member, name, exported, version, admission, parameters) CuResult member parameters;
#include "runtime/emulated_cuda/client_entries.inc"
#undef X
// Any attribute of a pointer, where the driver's table has one.
CuResult PointerGetAnyAttribute(void* data, CuPointerAttribute attribute, CuDeviceAddress address);
// NOLINTEND(google-runtime-int,readability-function-size)

}  // namespace coppice::emulated_cuda
