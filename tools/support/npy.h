// Arrays in files as numpy.save writes them.
//
// Formats 1.0, 2.0 and 3.0 are read, strictly: little-endian elements of one type, rows first, and
// not a byte more than the shape says. bfloat16, which the format does not know, goes as the u16 of
// its bits.
//
// Units: bytes. Threads: pure functions, apart from the file system.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/base/units.h"

namespace coppice {

inline constexpr int64_t kNpyBytesMax = kGiB;  // Of elements.

struct NpyArray {
  DType dtype = DType::kFloat32;  // Never kBFloat16: that is read as kUInt16.
  std::vector<int64_t> dims;      // Empty: one element.
  std::string bytes;              // The elements, rows first.
};

// Bytes of so many elements. Errors: kInvalidArgument  an extent below 0, or above kNpyBytesMax.
absl::StatusOr<int64_t> NpyBytes(DType dtype, std::span<const int64_t> dims);

// The array in the content of a file. Errors: kInvalidArgument  what is wrong with it, and what to
// write instead.
absl::StatusOr<NpyArray> ParseNpy(std::string_view content);

// Reads the file at `path`. Errors: kInvalidArgument  as ParseNpy and ReadTextFile, with the path.
absl::StatusOr<NpyArray> ReadNpy(const std::string& path);

// The content of a file of format 1.0. Requires: as many bytes as NpyBytes says, at most 64
// dimensions, and no type that the format has no name for (checked).
std::string FormatNpy(DType dtype, std::span<const int64_t> dims, std::span<const std::byte> bytes);

// Whether FormatNpy knows the type.
bool HasNpyName(DType dtype);

}  // namespace coppice
