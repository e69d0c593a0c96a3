// A file that was made anew may be longer again than what was read, so the last bytes are compared.

#include "tools/prof/watch/file_tail.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kKnownBytes = 64;

absl::Status Unreadable(const std::string& path, int error) {
  return InvalidArgument("{}: the file cannot be read: {}; give the path of a trace file", path,
                         std::generic_category().message(error));
}

}  // namespace

absl::StatusOr<FileTail> FileTail::Open(const std::string& path) {
  // A pipe that nobody writes to yet does not keep the reader waiting.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return Unreadable(path, errno);
  FileTail tail(path, file, false);
  struct stat found {};
  if (fstat(file, &found) != 0) return Unreadable(path, errno);
  if (S_ISDIR(found.st_mode)) return Unreadable(path, EISDIR);
  tail.regular_ = S_ISREG(found.st_mode);
  return tail;
}

FileTail::FileTail(std::string path, int file, bool regular)
    : path_(std::move(path)), file_(file), regular_(regular) {}

FileTail::FileTail(FileTail&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      regular_(other.regular_),
      offset_(other.offset_),
      last_(std::move(other.last_)),
      block_(std::move(other.block_)) {}

FileTail& FileTail::operator=(FileTail&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(regular_, other.regular_);
  std::swap(offset_, other.offset_);
  std::swap(last_, other.last_);
  std::swap(block_, other.block_);
  return *this;
}

FileTail::~FileTail() {
  if (file_ >= 0) close(file_);
}

bool FileTail::has_writer() const {
  if (!regular_) {
    pollfd asked = {.fd = file_, .events = 0, .revents = 0};
    return poll(&asked, 1, 0) != 1 || (asked.revents & POLLHUP) == 0;
  }
  struct flock whole {};
  whole.l_type = F_RDLCK;
  whole.l_whence = SEEK_SET;
  // Where there are no such locks, nothing says that it is gone.
  return fcntl(file_, F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

absl::StatusOr<FileTail::Change> FileTail::FindChange() const {
  if (!regular_) return Change::kNone;
  struct stat open_file {};
  if (fstat(file_, &open_file) != 0) return Unreadable(path_, errno);
  if (open_file.st_size < offset_) return Change::kCutShort;
  char known[kKnownBytes];
  const ssize_t bytes =
      pread(file_, known, last_.size(), offset_ - static_cast<int64_t>(last_.size()));
  if (bytes < 0) return Unreadable(path_, errno);
  if (std::string_view(known, static_cast<size_t>(bytes)) != last_) return Change::kCutShort;
  struct stat at_path {};
  if (stat(path_.c_str(), &at_path) != 0) return Change::kRemoved;
  const bool same = at_path.st_ino == open_file.st_ino && at_path.st_dev == open_file.st_dev;
  return same ? Change::kNone : Change::kReplaced;
}

absl::StatusOr<FileTail::Change> FileTail::Read(
    absl::FunctionRef<absl::Status(std::string_view bytes)> take) {
  COPPICE_ASSIGN_OR_RETURN(const Change change, FindChange());
  if (change == Change::kCutShort) return change;
  block_.resize(kBlockBytes);
  while (true) {
    const ssize_t bytes = read(file_, block_.data(), block_.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) break;
    if (bytes < 0) return Unreadable(path_, errno);
    if (bytes == 0) break;
    const std::string_view piece(block_.data(), static_cast<size_t>(bytes));
    offset_ += bytes;
    last_ += piece.substr(piece.size() - std::min(piece.size(), kKnownBytes));
    last_.erase(0, last_.size() - std::min(last_.size(), kKnownBytes));
    COPPICE_RETURN_IF_ERROR(take(piece));
  }
  return change;
}

}  // namespace coppice
