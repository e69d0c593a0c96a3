// Reads a mapped safetensors file, whose tensors are found by name and used in place. Also writes
// the bytes of such a file.
//
// The file is eight bytes of length, a JSON header of that length, and bytes. The header has the
// dtype, the shape and the bytes of each tensor, which are row-major and little-endian. As the
// format requires, tensors lie one after another, and every byte belongs to one tensor.
//
// Units: bytes; shapes in elements. Threads: any, on a const object.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"

namespace coppice::package {

struct SafeTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // Valid as long as the Safetensors object, or the memory that
                                     // it reads.
};

// The bytes of a file with these tensors, in the order of their names. Requires: names differ, and
// each tensor has the number of bytes that its dtype and shape need. Allocates.
std::string FormatSafetensors(std::vector<SafeTensor> tensors);

class MappedFile;

class Safetensors {
 public:
  static constexpr int64_t kHeaderBytesMax = 100'000'000;

  // Maps the file at `path`. Errors: the code for the errno; kInvalidArgument, with the path and
  // the tensor, if the header is malformed, or tensors overlap, leave a gap, reach beyond the end,
  // or have a number of bytes that does not fit their shape.
  static absl::StatusOr<Safetensors> Open(const std::string& path);
  // The same for bytes in memory, which must outlive the object. `name` is for messages.
  static absl::StatusOr<Safetensors> FromMemory(std::span<const std::byte> bytes,
                                                const std::string& name);
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) = delete;
  ~Safetensors();

  // The names of all tensors, sorted.
  std::vector<std::string> names() const;

  // The tensor of that name. Errors: kNotFound; kUnimplemented if coppice has no DType for its
  // dtype.
  absl::StatusOr<SafeTensor> Get(const std::string& name) const;

 private:
  struct Entry {
    std::string name;
    std::string dtype;  // As in the file: "F32".
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
  };

  Safetensors();

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::vector<Entry> entries_;  // Sorted by name.
};

}  // namespace coppice::package
