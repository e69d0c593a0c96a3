// Writing by a file beside it, which takes its name.

#include "graphs/profile/profile_file.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <span>
#include <unistd.h>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "runtime/package/mapped_file.h"

namespace coppice::internal {
namespace {

absl::Status CannotWrite(int number, const std::string& path) {
  return absl::ErrnoToStatus(number, fmt::format("{} cannot be written", path));
}

absl::Status WriteAll(int descriptor, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return CannotWrite(errno, path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  // Without it the name may be on the disk before the bytes are.
  return fsync(descriptor) == 0 ? absl::OkStatus() : CannotWrite(errno, path);
}

absl::Status WritePartial(const std::string& partial, std::string_view text) {
  constexpr mode_t kMode = 0666;  // But for what the process's mask takes.
  const int descriptor =
      open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kMode);
  if (descriptor < 0) return CannotWrite(errno, partial);
  absl::Status status = WriteAll(descriptor, text, partial);
  if (close(descriptor) != 0 && status.ok()) status = CannotWrite(errno, partial);
  return status;
}

}  // namespace

absl::Status WriteWhole(const std::string& path, std::string_view text) {
  // One of its own for each writer, be it a thread or a process.
  static std::atomic<int64_t> writers{0};
  const std::string partial = fmt::format("{}.{}.{}.partial", path, getpid(), ++writers);
  absl::Status status = WritePartial(partial, text);
  if (status.ok() && std::rename(partial.c_str(), path.c_str()) != 0)
    status = CannotWrite(errno, path);
  if (!status.ok()) std::remove(partial.c_str());
  return status;
}

absl::StatusOr<Profile> ReadProfile(const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(const package::MappedFile file,
                           package::MappedFile::Open(path, /*follow_links=*/true));
  const std::span<const std::byte> bytes = file.bytes();
  if (static_cast<int64_t>(bytes.size()) > kProfileBytesMax)
    return InvalidArgument("{}: the file has {} bytes, but a profile has at most {}; save it again",
                           path, bytes.size(), kProfileBytesMax);
  return ParseProfile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace coppice::internal
