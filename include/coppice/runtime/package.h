// An open kernel package: its manifest, and its files in place.
//
//   auto package = package::Package::Open("decoder.zip", {});
//   package->manifest().programs[0].steps ...
//   package->Read("bin/0452f654e5861a09.cubin")     the bytes, their digest checked
//
// A package is a folder or a canonical zip file (runtime/package/FORMAT.md). It is mapped, never
// unpacked or copied, and nothing in it is executed. Open checks the container, the manifest's
// digest, its signature if one is required, and the manifest; a file's digest is checked when it is
// first read. An open package has no absolute names, links or duplicates. Do not change its files
// while the package is open: a change after a check is not seen, and reading past the end of a
// shortened file ends the process by SIGBUS.
//
// Errors of all functions here: kInvalidArgument with the file, the place in it (a JSON pointer of
// the manifest, or an offset), what is wrong and what would be right; kUnimplemented for a major
// version or a requirement that this library does not know; kPermissionDenied if a required
// signature is missing or wrong; the code for the errno if a file cannot be read.
//
// Units: bytes. Threads: any, on a const Package.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/manifest.h"

namespace coppice::package {

using PublicKey = std::array<uint8_t, 32>;  // An Ed25519 key.

struct OpenOptions {
  // If not empty, one of them must have signed the manifest.
  std::vector<PublicKey> trusted_keys;
  int64_t manifest_bytes_max = int64_t{64} << 20;
};

class Package {
 public:
  // Opens the folder or zip file at `path`.
  static absl::StatusOr<Package> Open(const std::string& path, const OpenOptions& options);
  // The same for a zip file in memory, which must outlive the package. `name` is for messages.
  static absl::StatusOr<Package> FromMemory(std::span<const std::byte> zip,
                                            const std::string& name,
                                            const OpenOptions& options);
  Package(Package&&) noexcept;
  Package& operator=(Package&&) = delete;
  ~Package();

  const Manifest& manifest() const;
  const std::string& path() const;

  // The text of manifest.json: canonical JSON, including fields that a reader ignores. Lives as
  // long as the package.
  std::string_view manifest_text() const;

  // The whole zip file, which lives as long as the package; empty: it is a folder.
  std::span<const std::byte> zip() const;

  // The bytes of a file that the manifest names, which live as long as the package. Errors: also
  // kNotFound if there is no such file. Cost: hashes it the first time.
  absl::StatusOr<std::span<const std::byte>> Read(const std::string& name) const;

  // Checks every byte: all digests, the structure of a zip file, and that constants are in their
  // safetensors files, with their dtype and shape. Linters call this first.
  absl::Status Verify() const;

 private:
  struct Contents;
  explicit Package(std::unique_ptr<Contents> contents);

  std::unique_ptr<Contents> contents_;
};

// Writes the package in a folder as a canonical zip file. The manifest in the folder may have any
// layout; Pack adds the digests of files and of the manifest. Errors: also those of opening the
// result.
absl::Status Pack(const std::string& folder, const std::string& zip_path);

}  // namespace coppice::package
