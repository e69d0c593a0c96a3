// Folders are listed without following links; files are mapped when they are read.

#include "runtime/package/container.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "coppice/base/status.h"

#include "base/json_document.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

namespace fs = std::filesystem;

absl::Status ListingError(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), fmt::format("{} cannot be read", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Container>> Container::Open(const std::string& path) {
  std::unique_ptr<Container> container(new Container(path));
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    COPPICE_RETURN_IF_ERROR(container->ListFolder());
    return container;
  }
  COPPICE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path, /*follow_links=*/true));
  container->mapping_.emplace(std::move(file));
  container->zip_ = container->mapping_->bytes();
  COPPICE_ASSIGN_OR_RETURN(container->entries_, ReadZip(*container->zip_, path));
  return container;
}

absl::StatusOr<std::unique_ptr<Container>> Container::FromMemory(std::span<const std::byte> zip,
                                                                 const std::string& name) {
  std::unique_ptr<Container> container(new Container(name));
  container->zip_ = zip;
  COPPICE_ASSIGN_OR_RETURN(container->entries_, ReadZip(zip, name));
  return container;
}

absl::Status Container::ListFolder() {
  std::error_code error;
  const fs::path root(path_);
  const std::string prefix = (root / "").string();
  fs::recursive_directory_iterator at(root, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string full = at->path().string();
    const std::string name = full.substr(prefix.size());
    const std::string shown = QuoteText(name, 255);
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    if (!IsFileName(name))
      return InvalidArgument("{}: {} is not a valid file name in a package; rename it", path_,
                             shown);
    if (fs::is_directory(status)) continue;
    if (!fs::is_regular_file(status))
      return InvalidArgument(
          "{}: {} is a link or another special file; replace it with a regular file", path_, shown);
    if (entries_.size() >= kZipEntriesMax)
      return InvalidArgument("{}: the folder has more than {} files; a package cannot have more",
                             path_, kZipEntriesMax);
    const auto bytes = static_cast<int64_t>(at->file_size(error));
    if (error) break;
    entries_.push_back({.name = name, .bytes = bytes});
  }
  if (error) return ListingError(path_, error);
  std::sort(entries_.begin(), entries_.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return ComesBefore(a.name, b.name); });
  files_.resize(entries_.size());
  return absl::OkStatus();
}

const ZipEntry* Container::Find(const std::string& name) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](const ZipEntry& entry, const std::string& key) { return ComesBefore(entry.name, key); });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

absl::StatusOr<std::span<const std::byte>> Container::Read(const ZipEntry& entry) const {
  if (zip_) return zip_->subspan(static_cast<size_t>(entry.data), static_cast<size_t>(entry.bytes));
  const std::lock_guard lock(mutex_);
  std::optional<MappedFile>& file = files_[static_cast<size_t>(&entry - entries_.data())];
  if (!file) {
    COPPICE_ASSIGN_OR_RETURN(
        MappedFile mapped,
        MappedFile::Open((fs::path(path_) / entry.name).string(), /*follow_links=*/false));
    file.emplace(std::move(mapped));
  }
  if (static_cast<int64_t>(file->bytes().size()) != entry.bytes)
    return InvalidArgument(
        "{}: {} had {} bytes when the package was opened, but has {} now; do not change files "
        "while the package is open",
        path_, entry.name, entry.bytes, file->bytes().size());
  return file->bytes();
}

}  // namespace coppice::package
