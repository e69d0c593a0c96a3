// A file, mapped for reading.
//
// Units: bytes. Threads: any, on a const one.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace coppice::package {

class MappedFile {
 public:
  // Errors: by errno, also where it is no regular file; a link is one where they are not followed.
  static absl::StatusOr<MappedFile> Open(const std::string& path, bool follow_links);

  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  // They stay where they are when the object moves.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace coppice::package
