// What an image says of its kernels, whether it is a cubin, a fatbin or PTX.
//
// Units: bytes, threads. Threads: stateless.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/manifest.h"
#include "coppice/runtime/package_target.h"

namespace coppice::package {

struct KernelFacts {
  std::vector<int32_t> parameter_bytes;
  int32_t registers = 0;  // 0: not said, as by PTX.
  int64_t shared_bytes = 0;
  int64_t max_threads = 0;                     // 0: not said.
  std::array<uint32_t, 3> required_threads{};  // Zeros: any.
  std::array<uint32_t, 3> cluster{};           // The same.
};

struct ImageFacts {
  bool readable = true;  // False: compressed, so that nothing is known of its kernels.
  std::map<std::string, KernelFacts> kernels;
};

// Errors: kInvalidArgument for an image that is not of the module's format, is damaged, or is of
// another architecture than the module's.
absl::StatusOr<ImageFacts> ReadImage(std::span<const std::byte> image,
                                     const Module& module,
                                     Architecture architecture);

// What the `.target` of PTX names, as "sm_90a"; empty: none.
std::string TargetOfPtx(const std::string& text);

}  // namespace coppice::package
