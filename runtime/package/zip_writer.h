// Writes a canonical zip, file by file.
//
// Units: bytes. Threads: one at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace coppice::package {

class ZipWriter {
 public:
  using Write = absl::FunctionRef<absl::Status(std::string_view bytes)>;

  // `write` takes the bytes of the zip in order; it and `name`, for messages, outlive the writer.
  ZipWriter(const std::string& name, Write write) : name_(name), write_(write) {}

  // Files come in the order of ComesBefore. Errors: kInvalidArgument more than 4 GiB; those of
  // `write`.
  absl::Status Add(const std::string& name, std::span<const std::byte> bytes);
  absl::Status Finish();

 private:
  const std::string& name_;
  const Write write_;
  int64_t next_ = 0;
  size_t count_ = 0;
  std::string central_;
};

}  // namespace coppice::package
