// Where a package's files are: a folder, or a zip file, mapped.
//
// Units: bytes. Threads: any, on a const one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "runtime/package/mapped_file.h"
#include "runtime/package/zip_layout.h"

namespace coppice::package {

class Container {
 public:
  // The folder or zip file at `path`. Errors: kInvalidArgument for a link, an odd name, or a zip
  // that is not canonical; by errno.
  static absl::StatusOr<std::unique_ptr<Container>> Open(const std::string& path);
  // A zip in memory, which outlives the container.
  static absl::StatusOr<std::unique_ptr<Container>> FromMemory(std::span<const std::byte> zip,
                                                               const std::string& name);

  const std::string& path() const { return path_; }
  bool is_zip() const { return zip_.has_value(); }
  std::span<const std::byte> zip() const { return zip_.value_or(std::span<const std::byte>()); }
  // The manifest, its signature, then by name. Those of a folder have a name and bytes only.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  // The entry of that name, or nullptr.
  const ZipEntry* Find(const std::string& name) const;
  // Its bytes, as they lie there. Errors: by errno, of a folder.
  absl::StatusOr<std::span<const std::byte>> Read(const ZipEntry& entry) const;

 private:
  explicit Container(std::string path) : path_(std::move(path)) {}

  absl::Status ListFolder();

  const std::string path_;
  std::optional<MappedFile> mapping_;              // Of a zip at a path.
  std::optional<std::span<const std::byte>> zip_;  // All of it.
  std::vector<ZipEntry> entries_;
  mutable std::mutex mutex_;
  mutable std::vector<std::optional<MappedFile>> files_;  // Of a folder, per entry.
};

}  // namespace coppice::package
