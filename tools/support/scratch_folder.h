// A place for files that nobody keeps.
//
// Threads: one.

#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace coppice {

// A folder that is gone with this.
class ScratchFolder {
 public:
  // Errors: by its errno.
  static absl::StatusOr<ScratchFolder> Create();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace coppice
