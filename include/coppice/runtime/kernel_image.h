// A kernel image: the compiled kernels of one source file, for the emulator and for a GPU.
//
// block_kernel.h writes the host half of an image; where nvcc is found, the build attaches a fatbin
// of the same source. KernelLibrary hands the half that a driver understands to
// cuLibraryLoadData.
//
//   COPPICE_KERNEL(...) {...}  --g++-->   HostKernel table --+
//                              --nvcc-->  fatbin (optional) --+--> KernelImage
//
// Units: bytes. Threads: immutable data with static storage.

#pragma once

#include <cstdint>

namespace coppice {

// Where a block runs. Dimensions are blocks; x varies fastest.
struct HostBlock {
  unsigned grid[3] = {1, 1, 1};
  unsigned index[3] = {0, 0, 0};
};

// One kernel as host code. Every block-style kernel takes exactly one parameter struct by value.
struct HostKernel {
  const char* name;                                             // As cuLibraryGetKernel finds it.
  void (*run)(const void* parameters, const HostBlock& block);  // Runs one whole block.
  uint32_t parameter_bytes;                                     // sizeof the parameter struct.
  uint32_t block_threads;                                       // The only block size it accepts.
};

// What cuLibraryLoadData of the emulator takes. `magic` tells it from a cubin, a fatbin or PTX.
struct HostImage {
  static constexpr uint64_t kMagic = 0x31676d4965636f43;  // "CoceImg1" in memory order.
  uint64_t magic = kMagic;
  uint32_t kernel_count = 0;
  const HostKernel* const* kernels = nullptr;
};

struct KernelImage {
  const HostImage* host = nullptr;  // Never null.
  const void* fatbin = nullptr;     // Null where the build had no nvcc. It knows its own size.
};

}  // namespace coppice
