// A kernel package, opened: its manifest, and its files in place.
//
//   auto package = package::Package::Open("decoder.zip", {});
//   package->manifest().programs[0].steps ...
//   package->Read("bin/0452f654e5861a09.cubin")     the bytes, their digest checked
//
// A package is a folder or a canonical zip file (runtime/package/FORMAT.md). It is mapped, never
// unpacked or copied, and nothing of it is executed. Opening checks the container, the manifest's
// digest, its signature if one is asked for, and the manifest; a file's digest is checked when it
// is read first. Whatever opens has been found free of absolute names, links and duplicates. Leave
// its files as they are as long as the package: what changes behind a check is not seen, and
// reading what was cut off ends the process by SIGBUS.
//
// Errors, of everything here: kInvalidArgument with the file, the place in it (a JSON pointer of
// the manifest, or an offset), what is wrong and what would be right; kUnimplemented for a major
// version or a requirement that this library does not know; kPermissionDenied for a signature that
// is asked for and missing, or wrong; by its errno, a file that cannot be read.
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

using PublicKey = std::array<uint8_t, 32>;  // Of Ed25519.

struct OpenOptions {
  // Not empty: one of them must have signed the manifest.
  std::vector<PublicKey> trusted_keys;
  int64_t manifest_bytes_max = int64_t{64} << 20;
};

class Package {
 public:
  // Opens the folder or zip file at `path`.
  static absl::StatusOr<Package> Open(const std::string& path, const OpenOptions& options);
  // The same of a zip file in memory, which must outlive the package. `name` is for messages.
  static absl::StatusOr<Package> FromMemory(std::span<const std::byte> zip,
                                            const std::string& name,
                                            const OpenOptions& options);
  Package(Package&&) noexcept;
  Package& operator=(Package&&) = delete;
  ~Package();

  const Manifest& manifest() const;
  const std::string& path() const;

  // manifest.json as it is: canonical JSON, with those fields that a reader ignores. Lives as long
  // as the package.
  std::string_view manifest_text() const;

  // The bytes of a file that the manifest names, which live as long as the package. Errors: also
  // kNotFound for no such file. Cost: hashes it the first time.
  absl::StatusOr<std::span<const std::byte>> Read(const std::string& name) const;

  // Checks every byte: all digests, what only a zip file has, and that constants are in their
  // safetensors files, with their dtype and shape. What a linter does first.
  absl::Status Verify() const;

 private:
  struct Contents;
  explicit Package(std::unique_ptr<Contents> contents);

  std::unique_ptr<Contents> contents_;
};

// Writes a folder's package as a zip file, canonically; its manifest may have any layout, and gets
// its digests of files and of itself. Errors: also what opening the result would say.
absl::Status Pack(const std::string& folder, const std::string& zip_path);

}  // namespace coppice::package
