// A safetensors file, mapped: tensors by name, in place.
//
// The file is eight bytes of length, a JSON header of that length, and bytes. The header says of
// each tensor its dtype, its shape and which bytes are its own: rows first, little-endian. As the
// format wants it, they lie one behind another: every byte belongs to one tensor.
//
// Units: bytes; shapes in elements. Threads: any, on a const one.

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
  std::span<const std::byte> bytes;  // Lives as long as the file, or the memory, they are in.
};

class MappedFile;

class Safetensors {
 public:
  static constexpr int64_t kHeaderBytesMax = 100'000'000;

  // The file at `path`. Errors: by its errno; kInvalidArgument with the path and the tensor for a
  // header that is none, and for tensors that overlap, leave a gap, reach behind the end, or have
  // other bytes than their shape.
  static absl::StatusOr<Safetensors> Open(const std::string& path);
  // The same of bytes in memory, which outlive the object. `name` is for messages.
  static absl::StatusOr<Safetensors> FromMemory(std::span<const std::byte> bytes,
                                                const std::string& name);
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) = delete;
  ~Safetensors();

  // In the order of their names.
  std::vector<std::string> names() const;

  // The tensor of that name. Errors: kNotFound; kUnimplemented for a dtype that coppice has no name
  // for, which is no error before.
  absl::StatusOr<SafeTensor> Get(const std::string& name) const;

 private:
  struct Entry {
    std::string name;
    std::string dtype;  // As the file writes it: "F32".
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
  };

  Safetensors();

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::vector<Entry> entries_;  // By name.
};

}  // namespace coppice::package
