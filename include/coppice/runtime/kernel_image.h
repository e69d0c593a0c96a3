// A kernel image: the compiled kernels of one source file, for the host and for a GPU.
//
// The macros of block_kernel.h make the host half of an image. If nvcc is found, the build attaches
// a fatbin of the same source. KernelLibrary gives CUDA the fatbin, and the emulator the whole
// image.
//
//   COPPICE_KERNEL(...) {...}  --g++-->   HostKernel table --+
//                              --nvcc-->  fatbin (optional) --+--> KernelImage
//
// Units: bytes. Threads: immutable data with static storage.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace coppice {

// One block of a launch: its grid, its place and its shared memory. Dimensions are blocks; x varies
// fastest.
struct HostBlock {
  unsigned grid[3] = {1, 1, 1};
  unsigned index[3] = {0, 0, 0};
  std::byte* shared = nullptr;  // The launch's dynamic shared memory; null if it has none.
};

// The place of one parameter of a kernel among all of its parameters.
struct KernelParameter {
  size_t offset = 0;  // Bytes.
  size_t bytes = 0;
  friend bool operator==(const KernelParameter&, const KernelParameter&) = default;
};

// The bytes that one launch of a kernel may touch, as the kernel declares them. A declaration may
// name more bytes than the launch touches. If it names fewer, races are hidden, and only the
// emulator can notice that, if it executes the kernel's PTX. Bytes that are both read and written
// count as written.
class KernelAccesses {
 public:
  struct Range {
    uint64_t begin = 0;  // Address.
    uint64_t end = 0;
    bool writes = false;
  };

  explicit KernelAccesses(const unsigned (&grid)[3]) : grid_{grid[0], grid[1], grid[2]} {}

  // Dimensions of the launch, in blocks.
  int64_t grid_x() const { return grid_[0]; }
  int64_t grid_y() const { return grid_[1]; }
  int64_t grid_z() const { return grid_[2]; }

  // Declares `count` elements from `start` on. A null start or a count of 0 declares nothing.
  template <typename T>
  void Reads(const T* start, int64_t count) {
    Add(reinterpret_cast<uintptr_t>(start), count * static_cast<int64_t>(sizeof(T)), false);
  }
  template <typename T>
  void Writes(T* start, int64_t count) {
    Add(reinterpret_cast<uintptr_t>(start), count * static_cast<int64_t>(sizeof(T)), true);
  }

  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  void Add(uint64_t begin, int64_t bytes, bool writes) {
    if (begin == 0 || bytes <= 0) return;
    ranges_.push_back({begin, begin + static_cast<uint64_t>(bytes), writes});
  }

  unsigned grid_[3];
  std::vector<Range> ranges_;
};

// One kernel as host code. A block-style kernel takes one parameter struct by value; a HostKernel
// that is written by hand may take several parameters.
struct HostKernel {
  const char* name;                                             // The name for cuLibraryGetKernel.
  void (*run)(const void* parameters, const HostBlock& block);  // Runs one whole block.
  uint32_t parameter_bytes;                                     // Bytes of all parameters together.
  uint32_t block_threads;                                       // The only block size it accepts.
  // Declares what a launch with these parameters touches.
  void (*declare)(const void* parameters, KernelAccesses& accesses);
  std::span<const KernelParameter> several = {};  // Its parameters, in ascending order; empty if it
                                                  // has at most one.

  constexpr size_t parameter_count() const {
    return several.empty() ? (parameter_bytes > 0 ? 1 : 0) : several.size();
  }
  // Requires: index < parameter_count().
  constexpr KernelParameter parameter(size_t index) const {
    return several.empty() ? KernelParameter{.offset = 0, .bytes = parameter_bytes}
                           : several[index];
  }
};

// An image: its kernels as host code, and as compiled by nvcc. The emulator's cuLibraryLoadData
// takes it in this form; `magic` distinguishes it from a cubin, a fatbin or PTX.
struct KernelImage {
  static constexpr uint64_t kMagic = 0x31676d4965636f43;  // "CoceImg1" in memory order.
  uint64_t magic = kMagic;
  uint32_t kernel_count = 0;
  const HostKernel* const* kernels = nullptr;
  // A fatbin with PTX that is not compressed. Null if the build had no nvcc. It contains its own
  // size.
  const void* fatbin = nullptr;
};

}  // namespace coppice
