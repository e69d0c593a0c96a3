// Arrays of the host: from .npy files, drawn, and laid out as a tensor of a program wants them.
//
// What .npy has no name for goes as something else of the same bytes: bf16 and the f8 as u16 and u8
// of their bits, c64 as f32 with one more axis of 2, the real part first.
//
// Units: bytes; sizes and strides in elements. Threads: pure functions, apart from the file system.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"

namespace coppice {

struct HostArray {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  std::string bytes;  // The elements, rows first.
};

// What values are drawn from: floats from [low, high), integers from [low, high).
struct DrawnRange {
  uint64_t seed = 0;
  std::optional<double> low;   // Of floats -1, of integers 0.
  std::optional<double> high;  // Of floats 1, of integers and bools 2.
};

// Reads the file at `path`, which has to hold elements of `dtype`. Errors: kInvalidArgument, as
// ReadNpy, and for elements of another type.
absl::StatusOr<HostArray> ReadArray(const std::string& path, DType dtype);

// Writes `array` to the file at `path`. Errors: kFailedPrecondition, as WriteTextFile.
absl::Status WriteArray(const std::string& path, const HostArray& array);

// An array of zero bits. Errors of both: kInvalidArgument if it is over 1 GiB.
absl::StatusOr<HostArray> ZeroArray(DType dtype, std::span<const int64_t> dims);

// One that SplitMix64 draws: element i from its word i. Complex numbers get two floats each.
absl::StatusOr<HostArray> DrawArray(DType dtype,
                                    std::span<const int64_t> dims,
                                    const DrawnRange& range);

// Word `index` of SplitMix64 begun at `seed`.
uint64_t SplitMixWord(uint64_t seed, uint64_t index);

// The elements where `tensor` has them, from its first to behind its last; between them zeros.
// Requires: the tensor's dtype and sizes.
std::string Spread(const HostArray& array, const Tensor& tensor);

// The elements of `tensor`, whose memory `bytes` is, from its first to behind its last.
HostArray Gather(std::span<const std::byte> bytes, const Tensor& tensor);

// "f32 [3, 4]".
std::string ShapeText(DType dtype, std::span<const int64_t> dims);

}  // namespace coppice
