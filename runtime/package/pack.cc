// A folder as a canonical zip: the manifest is written again, everything else is copied.

#include <cerrno>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/runtime/package.h"

#include "base/json_document.h"
#include "runtime/package/container.h"
#include "runtime/package/digest.h"
#include "runtime/package/zip_writer.h"

namespace coppice::package {
namespace {

std::string_view CharactersOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Dump(const nlohmann::json& manifest) {
  return manifest.dump(-1, ' ', /*ensure_ascii=*/true);
}

// The manifest, canonical, with the digests of the folder's files and of itself.
absl::StatusOr<std::string> RewriteManifest(const Container& folder) {
  const ZipEntry* const entry = folder.Find(kManifestName);
  if (entry == nullptr)
    return InvalidArgument("{}: it has no manifest.json; write one", folder.path());
  COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, folder.Read(*entry));
  const std::string_view text = CharactersOf(bytes);
  COPPICE_RETURN_IF_ERROR(
      JsonDocument::Parse(text, folder.path() + ": manifest.json", {.canonical = false}).status());
  nlohmann::json manifest = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object())
    return InvalidArgument(
        "{}: manifest.json: it is not a JSON object; a package manifest must be one",
        folder.path());
  nlohmann::json files = nlohmann::json::object();
  for (const ZipEntry& file : folder.entries()) {
    if (file.name == kManifestName || file.name == kSignatureName) continue;
    COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> content, folder.Read(file));
    files[file.name] = {{"bytes", file.bytes}, {"sha256", Sha256Of({content})}};
  }
  manifest["files"] = std::move(files);
  if (!manifest["integrity"].is_object()) manifest["integrity"] = nlohmann::json::object();
  manifest["integrity"]["manifest_sha256"] = nullptr;
  const std::string unsealed = Dump(manifest);
  manifest["integrity"]["manifest_sha256"] = Sha256Of({std::as_bytes(std::span(unsealed))});
  std::string canonical = Dump(manifest);
  if (folder.Find(kSignatureName) != nullptr && canonical != text)
    return InvalidArgument(
        "{}: manifest.sig: it is not the signature of the manifest that is packed; pack without "
        "it, then sign",
        folder.path());
  return canonical;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status WriteZip(const Container& folder,
                      const std::string& manifest,
                      const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wbe"));
  if (file == nullptr) return absl::ErrnoToStatus(errno, fmt::format("{} cannot be written", path));
  const auto write = [&](std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size())
      return absl::OkStatus();
    return absl::ErrnoToStatus(errno, fmt::format("{} cannot be written", path));
  };
  ZipWriter writer(path, write);
  for (const ZipEntry& entry : folder.entries()) {
    COPPICE_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, folder.Read(entry));
    if (entry.name == kManifestName) bytes = std::as_bytes(std::span(manifest));
    COPPICE_RETURN_IF_ERROR(writer.Add(entry.name, bytes));
  }
  COPPICE_RETURN_IF_ERROR(writer.Finish());
  if (std::fflush(file.get()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, fmt::format("{} cannot be written", path));
}

absl::Status WriteAndCheck(const Container& folder,
                           const std::string& manifest,
                           const std::string& path) {
  COPPICE_RETURN_IF_ERROR(WriteZip(folder, manifest, path));
  COPPICE_ASSIGN_OR_RETURN(const Package package, Package::Open(path, {}));
  return package.Verify();
}

}  // namespace

absl::Status Pack(const std::string& folder, const std::string& zip_path) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Container> container, Container::Open(folder));
  if (container->is_zip())
    return InvalidArgument("{} is already a zip file; give the folder to pack", folder);
  COPPICE_ASSIGN_OR_RETURN(const std::string manifest, RewriteManifest(*container));
  // Nobody finds half a package at the path.
  const std::string partial = zip_path + ".partial";
  absl::Status status = WriteAndCheck(*container, manifest, partial);
  if (status.ok() && std::rename(partial.c_str(), zip_path.c_str()) != 0)
    status = absl::ErrnoToStatus(errno, fmt::format("{} cannot be written", zip_path));
  if (!status.ok()) std::remove(partial.c_str());
  return status;
}

}  // namespace coppice::package
