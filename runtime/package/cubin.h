// What a cubin says of its kernels, read from its ELF sections without a driver.
//
// The layout is not documented by NVIDIA: whoever asks holds something else to it, and never trusts
// it alone. ptxas writes two styles of the ELF header, which differ in where the architecture is;
// the notes on kernels are the same in both:
//
//   .nv.info.NAME      parameters, limits of threads, size of clusters
//   .nv.info           registers, by symbol
//   .nv.shared.NAME    static shared memory, behind what the system reserves from SM 90 on
//
// Units: bytes. Threads: stateless. Cost: O(bytes of the image); allocates what it returns.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice::package {

// Where a parameter lies among all of its kernel; the first need not lie at 0.
struct CubinParameter {
  int32_t offset = 0;
  int32_t bytes = 0;
  friend bool operator==(const CubinParameter&, const CubinParameter&) = default;
};

struct CubinKernel {
  std::string name;
  std::vector<CubinParameter> parameters;      // In their order.
  int32_t parameter_bytes = 0;                 // From 0 to behind the last.
  int32_t registers = 0;                       // Per thread; 0: not said.
  int32_t shared_bytes = 0;                    // Static, without what the system reserves.
  std::array<uint32_t, 3> max_threads{};       // Of __launch_bounds__; zeros: none.
  std::array<uint32_t, 3> required_threads{};  // Of the one block size that it runs at; or zeros.
  std::array<uint32_t, 3> cluster{};           // The one cluster that it runs in; zeros: any.
  bool takes_cluster = false;                  // Compiled for clusters of whatever size.
};

struct Cubin {
  int capability = 0;  // 90 for sm_90, sm_90a and sm_90f, which the header does not tell apart.
  std::vector<CubinKernel> kernels;  // By name.

  // Null if there is none of this name.
  const CubinKernel* Find(const std::string& name) const;
};

// Reads `image`, a cubin. Errors: kInvalidArgument for what is none, a section that ends behind it,
// and notes that do not fit together.
absl::StatusOr<Cubin> ReadCubin(std::span<const std::byte> image);

}  // namespace coppice::package
