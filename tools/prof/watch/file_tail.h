// Reads what is appended to a file, and notices where it is no longer the same file.
//
// Units: bytes. Threads: one at a time.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coppice {

class FileTail {
 public:
  // What became of the file since it was read last.
  enum class Change : uint8_t {
    kNone,      // Nothing, or more was appended.
    kCutShort,  // It is shorter than what was read of it, or its bytes are others.
    kRemoved,   // Its path leads nowhere; what is appended is read all the same.
    kReplaced,  // Its path leads to another file. What was appended before is read.
  };

  // Opens the file at `path`, which may also be a pipe.
  //
  // Errors: kInvalidArgument  the file is missing, a directory or unreadable.
  static absl::StatusOr<FileTail> Open(const std::string& path);

  FileTail(FileTail&& other) noexcept;
  FileTail& operator=(FileTail&& other) noexcept;
  FileTail(const FileTail&) = delete;
  FileTail& operator=(const FileTail&) = delete;
  ~FileTail();

  // Hands on what there is behind the bytes that were read, piece by piece, up to what is the end
  // at the moment; of a file that was cut short, nothing.
  //
  // Errors: kInvalidArgument  the file cannot be read further; the first of `take`, which ends it.
  // Cost: O(what is new).
  absl::StatusOr<Change> Read(absl::FunctionRef<absl::Status(std::string_view bytes)> take);

  // Whether somebody holds the lock that a session has on its trace as long as it writes it
  // (F_OFD_SETLK of fcntl(2)), which is not taken for the question. Of a pipe: whether somebody has
  // it open for writing, or nobody ever had.
  bool has_writer() const;

  bool is_pipe() const { return !regular_; }

  // Bytes that were handed on.
  int64_t offset() const { return offset_; }

 private:
  FileTail(std::string path, int file, bool regular);

  absl::StatusOr<Change> FindChange() const;

  std::string path_;
  int file_ = -1;
  bool regular_ = false;
  int64_t offset_ = 0;
  std::string last_;  // The last bytes that were read, to know them again.
  std::vector<char> block_;
};

}  // namespace coppice
