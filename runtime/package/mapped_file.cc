// Mapping by mmap(2).

#include "runtime/package/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "fmt/format.h"
#include <sys/mman.h>
#include <sys/stat.h>

#include "coppice/base/status.h"

namespace coppice::package {
namespace {

absl::Status MappingError(int number, const std::string& path, const char* what) {
  return absl::ErrnoToStatus(number, fmt::format("{}: {}", path, what));
}

absl::StatusOr<std::span<const std::byte>> Map(int descriptor, const std::string& path) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return MappingError(errno, path, "cannot be examined");
  if (!S_ISREG(status.st_mode))
    return InvalidArgument("{}: this is not a regular file; give a regular file", path);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::span<const std::byte>();
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) return MappingError(errno, path, "cannot be mapped");
  return std::span(static_cast<const std::byte*>(address), size);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, bool follow_links) {
  // Without O_NONBLOCK a pipe would wait for its writer.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_links ? 0 : O_NOFOLLOW);
  const int descriptor = open(path.c_str(), flags);
  if (descriptor < 0) return MappingError(errno, path, "cannot be read");
  const absl::StatusOr<std::span<const std::byte>> bytes = Map(descriptor, path);
  close(descriptor);
  if (!bytes.ok()) return bytes.status();
  return MappedFile(*bytes);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace coppice::package
