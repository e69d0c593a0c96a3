// Block-style kernels: one source for the GPU (nvcc, CUB) and for the host (g++).
//
// A kernel is written for a whole block. Per-thread code goes into ForEach. A per-thread value that
// is kept across two ForEach calls is a Register. Threads synchronise only in the collectives and
// in Sync.
//
//   struct ScaleParams { const float* x; float* y; int64_t count; float factor; };
//   COPPICE_KERNEL(Scale, 256, ScaleParams) {
//     block.ForEach([&](int thread) {
//       const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
//       if (i < params.count) params.y[i] = params.factor * params.x[i];
//     });
//   }
//   COPPICE_ACCESSES(Scale, ScaleParams) {
//     accesses.Reads(params.x, params.count);
//     accesses.Writes(params.y, params.count);
//   }
//   COPPICE_KERNEL_IMAGE(scale, &ScaleHostKernel);  // Once per file scale.cu, after the kernels.
//
// On the device ForEach runs its body for the calling thread, a Register is a register and the
// collectives are CUB's. On the host ForEach loops over the threads, a Register is an array and the
// collectives are serial: results do not depend on the schedule.
//
// Rules: a body calls its parameters `params` and its block `block`; code outside ForEach is
// uniform (does the same for all threads) and must not write memory; kernels do not throw and have
// no objects that need a destructor; a thread reads what another wrote only after Sync or a
// collective. Every kernel declares its accesses once, so that unordered accesses can be found. Use
// the macros in a named namespace. Compile a file with coppice_kernels() (CMake).
//
// Threads: a kernel file is compiled twice; nothing here keeps state.

#pragma once

#include <cstdint>

#include "coppice/runtime/kernel_image.h"

#ifdef __CUDACC__
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#else
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <type_traits>
#endif

// Qualifiers of a function that kernels call, and of a function that declarations of accesses also
// call.
#ifdef __CUDACC__
#define COPPICE_DEVICE __device__ inline
#define COPPICE_ANYWHERE __host__ __device__ inline
#else
#define COPPICE_DEVICE inline
#define COPPICE_ANYWHERE inline
#endif

// Declares `name`, an array of `count` values that the block shares, with undefined contents. Use
// it in a kernel body, outside ForEach.
#ifdef __CUDACC__
#define COPPICE_SHARED(type, name, count) __shared__ type name[count]
#else
#define COPPICE_SHARED(type, name, count) \
  type name[count];                       \
  ::coppice::internal::FillFresh(name, sizeof(name))
#endif

namespace coppice {

// One value per thread of a block, zero at first: r[thread], inside ForEach.
template <typename T, int kThreadCount>
class BlockRegister {
 public:
#ifdef __CUDACC__
  __device__ T& operator[](int) {
    return value_;
  }
  __device__ const T& operator[](int) const {
    return value_;
  }

 private:
  T value_{};
#else
  T& operator[](int thread) {
    return values_[thread];
  }
  const T& operator[](int thread) const {
    return values_[thread];
  }

 private:
  T values_[kThreadCount]{};
#endif
};

namespace internal {

#ifdef __CUDACC__

// The device's half. Each function keeps its scratch in static shared memory, gives its result to
// every thread and ends in a barrier, after which the scratch may be reused.

template <int kThreads, typename Body>
__device__ inline void ForEachThread(const Body& body) {
  body(static_cast<int>(threadIdx.x));
}

__device__ inline void SyncThreads() {
  __syncthreads();
}

__device__ inline void* DynamicShared() {
  extern __shared__ __align__(16) unsigned char coppice_dynamic_shared[];
  return coppice_dynamic_shared;
}

template <typename T, int kThreads, typename Operation>
__device__ inline T Reduce(const BlockRegister<T, kThreads>& values, Operation operation) {
  using Collective = cub::BlockReduce<T, kThreads>;
  __shared__ typename Collective::TempStorage scratch;
  __shared__ T shared_result;
  const T result = Collective(scratch).Reduce(values[0], operation);
  if (threadIdx.x == 0) shared_result = result;
  __syncthreads();
  const T copy = shared_result;
  __syncthreads();
  return copy;
}

template <typename T, int kThreads>
__device__ inline T ExclusiveScan(BlockRegister<T, kThreads>& values) {
  using Collective = cub::BlockScan<T, kThreads>;
  __shared__ typename Collective::TempStorage scratch;
  T total{};
  Collective(scratch).ExclusiveSum(values[0], values[0], total);
  __syncthreads();
  return total;
}

template <int kThreads>
__device__ inline void SortDescending(BlockRegister<float, kThreads>& keys,
                                      BlockRegister<int32_t, kThreads>& values) {
  using Collective = cub::BlockRadixSort<float, kThreads, 1, int32_t>;
  __shared__ typename Collective::TempStorage scratch;
  float key[1] = {keys[0]};
  int32_t value[1] = {values[0]};
  Collective(scratch).SortDescending(key, value);
  keys[0] = key[0];
  values[0] = value[0];
  __syncthreads();
}

#else

// The host's half: runs the threads one after another.

// Fills a block's shared memory, whose contents are undefined at first, with an unlikely pattern.
inline void FillFresh(void* memory, size_t bytes) {
  constexpr int kFresh = 0xCB;
  std::memset(memory, kFresh, bytes);
}

template <int kThreads, typename Body>
inline void ForEachThread(const Body& body) {
  for (int thread = 0; thread < kThreads; ++thread)
    body(thread);
}

inline void SyncThreads() {}

template <typename T, int kThreads, typename Operation>
inline T Reduce(const BlockRegister<T, kThreads>& values, Operation operation) {
  T result = values[0];
  for (int thread = 1; thread < kThreads; ++thread)
    result = operation(result, values[thread]);
  return result;
}

template <typename T, int kThreads>
inline T ExclusiveScan(BlockRegister<T, kThreads>& values) {
  T total{};
  for (int thread = 0; thread < kThreads; ++thread) {
    const T value = values[thread];
    values[thread] = total;
    total += value;
  }
  return total;
}

// Maps a float to an integer of the same order, as a radix sort does; -0 and 0 are equal.
inline uint32_t OrderOf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  constexpr uint32_t kSign = 0x80000000U;
  if (bits == kSign) return kSign;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

template <int kThreads>
inline void SortDescending(BlockRegister<float, kThreads>& keys,
                           BlockRegister<int32_t, kThreads>& values) {
  // The thread number in the low half makes all items distinct, and so the sort stable.
  uint64_t items[kThreads];
  for (int thread = 0; thread < kThreads; ++thread)
    items[thread] = uint64_t{~OrderOf(keys[thread])} << 32 | static_cast<uint32_t>(thread);
  std::sort(items, items + kThreads);
  const BlockRegister<float, kThreads> old_keys = keys;
  const BlockRegister<int32_t, kThreads> old_values = values;
  for (int thread = 0; thread < kThreads; ++thread) {
    const int source = static_cast<int>(items[thread] & 0xFFFFFFFFU);
    keys[thread] = old_keys[source];
    values[thread] = old_values[source];
  }
}

#endif

}  // namespace internal

// The block of kThreadCount threads, as a kernel body sees it. The whole block calls a collective,
// outside ForEach. A collective returns the same value to all threads, and is a Sync.
template <int kThreadCount>
class BlockOf {
 public:
  static constexpr int kThreads = kThreadCount;

  template <typename T>
  using RegisterOf = BlockRegister<T, kThreadCount>;

  // Index of the block in the grid, and size of the grid, in blocks.
#ifdef __CUDACC__
  __device__ int x() const {
    return static_cast<int>(blockIdx.x);
  }
  __device__ int y() const {
    return static_cast<int>(blockIdx.y);
  }
  __device__ int z() const {
    return static_cast<int>(blockIdx.z);
  }
  __device__ int grid_x() const {
    return static_cast<int>(gridDim.x);
  }
  __device__ int grid_y() const {
    return static_cast<int>(gridDim.y);
  }
  __device__ int grid_z() const {
    return static_cast<int>(gridDim.z);
  }
#else
  explicit BlockOf(const HostBlock& place) : place_(place) {}
  int x() const {
    return static_cast<int>(place_.index[0]);
  }
  int y() const {
    return static_cast<int>(place_.index[1]);
  }
  int z() const {
    return static_cast<int>(place_.index[2]);
  }
  int grid_x() const {
    return static_cast<int>(place_.grid[0]);
  }
  int grid_y() const {
    return static_cast<int>(place_.grid[1]);
  }
  int grid_z() const {
    return static_cast<int>(place_.grid[2]);
  }
#endif

  // The dynamic shared memory of the launch (LaunchShape::shared_bytes) as values of T, with
  // undefined contents. Aligned to 16 bytes. Pass its size to the kernel as a parameter.
  template <typename T>
  COPPICE_DEVICE T* DynamicShared() const {
#ifdef __CUDACC__
    return static_cast<T*>(internal::DynamicShared());
#else
    return reinterpret_cast<T*>(place_.shared);
#endif
  }

  // Makes a register.
  template <typename T>
  COPPICE_DEVICE RegisterOf<T> Register() const {
    return RegisterOf<T>();
  }

  // Runs body(thread) for every thread in [0, kThreads).
  template <typename Body>
  COPPICE_DEVICE void ForEach(const Body& body) const {
    internal::ForEachThread<kThreads>(body);
  }

  // After it, all threads of the block see what any of them wrote before it.
  COPPICE_DEVICE void Sync() const {
    internal::SyncThreads();
  }

  template <typename T>
  COPPICE_DEVICE T Sum(const RegisterOf<T>& values) const {
    return internal::Reduce(values, [](const T& a, const T& b) { return a + b; });
  }

  // The largest value. Unspecified if one is a NaN.
  template <typename T>
  COPPICE_DEVICE T Max(const RegisterOf<T>& values) const {
    return internal::Reduce(values, [](const T& a, const T& b) { return a < b ? b : a; });
  }

  // The index that accompanies the largest value; among equal values, the lowest index.
  // Unspecified if a value is a NaN.
  COPPICE_DEVICE int32_t ArgMax(const RegisterOf<float>& values,
                                const RegisterOf<int32_t>& indices) const {
    struct Candidate {
      float value;
      int32_t index;
    };
    auto candidates = Register<Candidate>();
    ForEach([&](int thread) { candidates[thread] = {values[thread], indices[thread]}; });
    return internal::Reduce(candidates,
                            [](const Candidate& a, const Candidate& b) {
                              if (a.value != b.value) return a.value < b.value ? b : a;
                              return b.index < a.index ? b : a;
                            })
        .index;
  }

  // Replaces the value of each thread by the sum over the threads before it; returns the total.
  template <typename T>
  COPPICE_DEVICE T ExclusiveScan(RegisterOf<T>& values) const {
    return internal::ExclusiveScan(values);
  }

  // Sorts the pairs (keys[t], values[t]) by descending key; equal keys keep their order. A NaN is
  // sorted beyond the infinity with its sign.
  COPPICE_DEVICE void SortDescending(RegisterOf<float>& keys, RegisterOf<int32_t>& values) const {
    internal::SortDescending(keys, values);
  }

#ifndef __CUDACC__
 private:
  HostBlock place_;
#endif
};

}  // namespace coppice

// COPPICE_KERNEL(Name, threads, Params) { body } Defines the kernel `Name` with blocks of `threads`
// threads. On the host it is NameHostKernel. The body is that of a member function; `Block` is the
// type of `block`.
//
// COPPICE_ACCESSES(Name, Params) { body }
// Declares what a launch of `Name` reads and writes: `params` are its parameters, `accesses` a
// KernelAccesses. Follows the kernel.
#ifdef __CUDACC__
#define COPPICE_KERNEL(Name, threads, Params)                             \
  namespace {                                                             \
  struct Name##Kernel {                                                   \
    using Block = ::coppice::BlockOf<threads>;                            \
    static __device__ void Run(const Params& params, const Block& block); \
  };                                                                      \
  }                                                                       \
  extern "C" __global__ __launch_bounds__(threads) void Name(             \
      const __grid_constant__ Params params) {                            \
    Name##Kernel::Run(params, Name##Kernel::Block());                     \
  }                                                                       \
  __device__ __forceinline__ void Name##Kernel::Run(const Params& params, \
                                                    [[maybe_unused]] const Block& block)
#define COPPICE_ACCESSES(Name, Params)                        \
  [[maybe_unused]] static inline void Name##DeclaredAccesses( \
      [[maybe_unused]] const Params& params, ::coppice::KernelAccesses& accesses)
#else
#define COPPICE_KERNEL(Name, threads, Params)                                                      \
  namespace {                                                                                      \
  static_assert((threads) >= 1 && (threads) <= 1024, "a block has 1 to 1024 threads");             \
  struct Name##Kernel {                                                                            \
    using Block = ::coppice::BlockOf<threads>;                                                     \
    static void Run(Params params, Block block);                                                   \
    static_assert(std::is_trivially_copyable_v<Params>, "a driver copies parameters as bytes");    \
    static void RunBlock(const void* parameters, const ::coppice::HostBlock& place) {              \
      Params params;                                                                               \
      std::memcpy(&params, parameters, sizeof(Params));                                            \
      Run(params, Block(place));                                                                   \
    }                                                                                              \
    static void Declare(const Params& params, ::coppice::KernelAccesses& accesses);                \
    static void DeclareFor(const void* parameters, ::coppice::KernelAccesses& accesses) {          \
      Params params;                                                                               \
      std::memcpy(&params, parameters, sizeof(Params));                                            \
      Declare(params, accesses);                                                                   \
    }                                                                                              \
  };                                                                                               \
  constexpr ::coppice::HostKernel Name##HostKernel{#Name, &Name##Kernel::RunBlock, sizeof(Params), \
                                                   threads, &Name##Kernel::DeclareFor};            \
  }                                                                                                \
  /* By value: the compiler then knows that no store of the body changes them. */                  \
  inline void Name##Kernel::Run(const Params params, [[maybe_unused]] const Block block)
#define COPPICE_ACCESSES(Name, Params)                                     \
  inline void Name##Kernel::Declare([[maybe_unused]] const Params& params, \
                                    [[maybe_unused]] ::coppice::KernelAccesses& accesses)
#endif

// COPPICE_KERNEL_IMAGE(name, &AHostKernel, &BHostKernel...);
// Defines `const KernelImage name_image` for the kernels of name.cu. To use it, declare it as
// `extern const KernelImage name_image;` in the same namespace.
#ifdef __CUDACC__
#define COPPICE_KERNEL_IMAGE(name, ...) static_assert(true)
#else
#ifdef COPPICE_HAS_FATBIN
#define COPPICE_INTERNAL_FATBIN(name) coppice_##name##_fatbin
#define COPPICE_INTERNAL_DECLARE_FATBIN(name) \
  extern "C" const unsigned char coppice_##name##_fatbin[]
#else
#define COPPICE_INTERNAL_FATBIN(name) nullptr
#define COPPICE_INTERNAL_DECLARE_FATBIN(name) static_assert(true)
#endif
#define COPPICE_KERNEL_IMAGE(name, ...)                                    \
  COPPICE_INTERNAL_DECLARE_FATBIN(name);                                   \
  namespace {                                                              \
  constexpr const ::coppice::HostKernel* name##_kernels[] = {__VA_ARGS__}; \
  }                                                                        \
  extern const ::coppice::KernelImage name##_image;                        \
  constinit const ::coppice::KernelImage name##_image {                    \
    .kernel_count = std::size(name##_kernels), .kernels = name##_kernels,  \
    .fatbin = COPPICE_INTERNAL_FATBIN(name)                                \
  }
#endif
