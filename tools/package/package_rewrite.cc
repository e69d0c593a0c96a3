// By way of a folder, which is what can be packed.

#include "tools/package/package_rewrite.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/support/scratch_folder.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kSignatureFile = "manifest.sig";

// A fraction as manifests have it.
std::string FractionText(double value) {
  return fmt::format("{}", value);
}

nlohmann::json ClaimOfManifest(const PaddingClaim& claim) {
  nlohmann::json equal = "bits";
  if (!claim.equal.bits) {
    equal = {{"absolute", FractionText(claim.equal.absolute)}};
    if (claim.equal.relative > 0) equal["relative"] = FractionText(claim.equal.relative);
  }
  return {{"padding", NameOf(claim.padding)}, {"equal", std::move(equal)}};
}

absl::Status WriteFolder(const package::Package& package,
                         std::string_view manifest,
                         const std::filesystem::path& folder) {
  for (const package::File& file : package.manifest().files) {
    COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, package.Read(file.name));
    const std::filesystem::path path = folder / file.name;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error)
      return FailedPrecondition("{}: the folder cannot be made: {}; free some disk space",
                                path.parent_path().string(), error.message());
    COPPICE_RETURN_IF_ERROR(WriteTextFile(
        path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  }
  return WriteTextFile(folder / kManifestFile, manifest);
}

absl::Status WriteBack(const package::Package& package, const nlohmann::json& manifest) {
  const std::filesystem::path path = package.path();
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  const std::filesystem::path signature = path / kSignatureFile;
  if (is_folder && std::filesystem::exists(signature, error))
    return FailedPrecondition(
        "{}: this signature is for the current manifest; remove it, and sign the package again "
        "after the change",
        signature.string());
  if (!is_folder) return PackWith(package, manifest, package.path());
  COPPICE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Create());
  const std::string zip = scratch.path() + "/package.zip";
  COPPICE_RETURN_IF_ERROR(PackWith(package, manifest, zip));
  COPPICE_ASSIGN_OR_RETURN(const package::Package packed, package::Package::Open(zip, {}));
  return WriteTextFile(path / kManifestFile, packed.manifest_text());
}

}  // namespace

nlohmann::json ManifestOf(const package::Package& package) {
  return nlohmann::json::parse(package.manifest_text(), nullptr, /*allow_exceptions=*/false);
}

absl::Status PackWith(const package::Package& package,
                      const nlohmann::json& manifest,
                      const std::string& zip_path) {
  COPPICE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Create());
  COPPICE_RETURN_IF_ERROR(WriteFolder(package, manifest.dump(), scratch.path()));
  return package::Pack(scratch.path(), zip_path);
}

absl::Status WriteSignature(const package::Package& package, std::string_view signature) {
  const std::filesystem::path path = package.path();
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return WriteTextFile(path / kSignatureFile, signature);
  COPPICE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Create());
  COPPICE_RETURN_IF_ERROR(WriteFolder(package, package.manifest_text(), scratch.path()));
  COPPICE_RETURN_IF_ERROR(
      WriteTextFile(std::filesystem::path(scratch.path()) / kSignatureFile, signature));
  return package::Pack(scratch.path(), path);
}

absl::Status WriteClaims(const package::Package& package,
                         const std::string& program,
                         const std::map<std::string, std::optional<PaddingClaim>>& claims) {
  nlohmann::json manifest = ManifestOf(package);
  nlohmann::json& symbols = manifest["programs"][program]["symbols"];
  for (const auto& [name, claim] : claims) {
    if (claim)
      symbols[name]["claim"] = ClaimOfManifest(*claim);
    else
      symbols[name].erase("claim");
  }
  const absl::Status status = WriteBack(package, manifest);
  return status.ok() ? status
                     : MakeError(absl::StatusCode::kDataLoss, "{}: claims cannot be written: {}",
                                 package.path(), MessageOf(status));
}

}  // namespace coppice
