// Writes kernel packages for tests, by a writer that shares no code with the library's.
//
//   PackageBuilder builder(TwiceManifest());
//   builder.AddModule("twice_80", "ptx", "sm_80", ptx);
//   builder.manifest["programs"]["main"]["symbols"]["n"]["max"] = 64;
//   Package::Open(builder.WriteZip(folder.path() + "/twice.zip"), {})
//
// The manifest is edited as JSON in any way, right or wrong; lengths and digests of files, and its
// own digest, are filled in when the package is written.
//
// Units: bytes. Threads: one at a time.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/tensor.h"

namespace coppice::package {

// A folder for one test, which goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// The bytes of a file, and a file of these bytes; folders above it are made.
std::string ReadBytes(const std::string& path);
void WriteBytes(const std::string& path, std::string_view bytes);

// Text as bytes, and back. The text must outlive the span.
inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Sha256Hex(std::string_view bytes);
// As Python's json.dumps(m, sort_keys=True, separators=(",", ":")).
std::string CanonicalJson(const nlohmann::json& value);

// A zip of these files in this order, canonical but for what they are: names are not looked at.
std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& files);

// A manifest without files, modules, kernels, constants and programs; its entry is "main".
nlohmann::json EmptyManifest();
// That of FORMAT.md: y = 2 x, compiled for sm_80 and sm_90a. Its modules have no files yet.
nlohmann::json TwiceManifest();

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::string bytes;
};
// A safetensors file of these.
std::string SafetensorsOf(const std::vector<TensorToWrite>& tensors);

class PackageBuilder {
 public:
  // An empty manifest, or this one.
  PackageBuilder() : manifest(EmptyManifest()) {}
  explicit PackageBuilder(nlohmann::json json) : manifest(std::move(json)) {}

  // `manifest` of TwiceManifest, with images that nobody looks into.
  static PackageBuilder Twice();

  nlohmann::json manifest;

  // Adds a file and its line in `files`.
  PackageBuilder& AddFile(const std::string& name, std::string bytes);
  // Adds an image, its file bin/NAME.FORMAT and its line in `modules`.
  PackageBuilder& AddModule(const std::string& name,
                            const std::string& format,
                            const std::string& arch,
                            std::string image);
  // Adds data/NAME.safetensors, and for each tensor a constant of its name.
  PackageBuilder& AddConstants(const std::string& name, const std::vector<TensorToWrite>& tensors);
  // Makes manifest.sig of these bytes.
  PackageBuilder& Sign(std::string signature);

  // The manifest as text, canonical, with its digest.
  std::string ManifestText() const;
  // The zip, which FromMemory takes.
  std::string Zip() const;
  // Write it, and return the path.
  std::string WriteZip(const std::string& path) const;
  std::string WriteFolder(const std::string& path) const;

 private:
  std::map<std::string, std::string> files_;
  std::string signature_;
};

}  // namespace coppice::package
