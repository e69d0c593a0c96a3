// A kernel's two halves on the same arrays: its host code, and the PTX that nvcc made of it.
//
//   TwinScene scene;
//   const float* x = scene.Array(drawn);                  // Results are compared bit for bit ...
//   float* y = scene.Floats(garbage, {.ulps = 4});        // ... or as floats.
//   scene.Launch(ScaleParams{.x = x, .y = y, ...}, {blocks});
//   EXPECT_EQ(scene.Compare(host_kernel, ptx_kernel, variables, seed), "");
//
// Both halves see the same addresses: what is there is put back between them.
//
// Units: bytes; grids count blocks. Threads: one.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "coppice/runtime/kernel_image.h"

#include "runtime/emulator/ptx/launch.h"

namespace coppice::ptx {

// How far results may be apart: so many units in the last place of the larger one, or of `floor`
// where both are below it.
struct TwinTolerance {
  int ulps = 0;  // 0: these bits.
  float floor = 0;
};

class TwinScene {
 public:
  // An array of its own, `offset` bytes behind an address that is aligned for anything.
  template <typename T>
  T* Array(const std::vector<T>& values, size_t offset = 0) {
    return static_cast<T*>(Place(std::as_bytes(std::span(values)), offset, {}));
  }
  float* Floats(const std::vector<float>& values, const TwinTolerance& tolerance) {
    return static_cast<float*>(Place(std::as_bytes(std::span(values)), 0, tolerance));
  }

  // What both halves are launched with.
  template <typename Params>
  void Launch(const Params& params, const std::array<unsigned, 3>& grid, int64_t shared_bytes = 0) {
    parameters_.resize(sizeof(Params));
    std::memcpy(parameters_.data(), &params, sizeof(Params));
    grid_ = grid;
    shared_bytes_ = shared_bytes;
  }

  // Runs both, with every check on; the PTX has variables, which it reads. Empty if they agree,
  // nothing was found, and the PTX has touched nothing else that the host code does not declare;
  // otherwise what is wrong.
  std::string Compare(const HostKernel& host,
                      const Kernel& kernel,
                      const MemoryRange& variables,
                      uint64_t seed);

 private:
  struct Allocation {
    std::vector<std::byte> memory;
    std::span<std::byte> used;
    TwinTolerance tolerance;
  };
  using Contents = std::vector<std::vector<std::byte>>;

  void* Place(std::span<const std::byte> values, size_t offset, const TwinTolerance& tolerance);
  Contents Save() const;
  void Restore(const Contents& contents);
  void RunHost(const HostKernel& host) const;
  std::string Undeclared(const HostKernel& host,
                         const MemoryRange& variables,
                         const Outcome& outcome) const;
  static std::string Differing(const Allocation& allocation, std::span<const std::byte> expected);

  std::deque<Allocation> allocations_;
  std::vector<std::byte> parameters_;
  std::array<unsigned, 3> grid_ = {1, 1, 1};
  int64_t shared_bytes_ = 0;
};

}  // namespace coppice::ptx
