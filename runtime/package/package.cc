// Opening: the container, the signature, the JSON, its digest, its meaning, then its files.

#include "coppice/runtime/package.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/safetensors.h"

#include "base/json_document.h"
#include "base/json_fields.h"
#include "runtime/package/container.h"
#include "runtime/package/digest.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

constexpr int64_t kSignatureBytes = 64;
constexpr size_t kDigits = 64;  // Of a digest.

std::string_view TextIn(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> BytesIn(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

absl::StatusOr<std::span<const std::byte>> ReadManifestBytes(const Container& container,
                                                             int64_t bytes_max) {
  const ZipEntry* const entry = container.Find(kManifestName);
  if (entry == nullptr)
    return InvalidArgument("{}: it has no manifest.json; give a kernel package", container.path());
  if (entry->bytes > bytes_max)
    return InvalidArgument("{}: manifest.json has {} bytes, but OpenOptions allow only {}",
                           container.path(), entry->bytes, bytes_max);
  COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, container.Read(*entry));
  if (container.is_zip() && Crc32Of(bytes) != entry->crc)
    return InvalidArgument(
        "{}: manifest.json: its CRC-32 is {:#010x}, but the zip says {:#010x}; the file is "
        "damaged, fetch it again",
        container.path(), Crc32Of(bytes), entry->crc);
  return bytes;
}

absl::Status CheckSignature(const Container& container,
                            std::span<const std::byte> manifest,
                            const std::vector<PublicKey>& keys) {
  const ZipEntry* const entry = container.Find(kSignatureName);
  if (entry != nullptr && entry->bytes != kSignatureBytes)
    return InvalidArgument("{}: manifest.sig has {} bytes, but a signature has {}",
                           container.path(), entry->bytes, kSignatureBytes);
  if (keys.empty()) return absl::OkStatus();
  if (entry == nullptr)
    return MakeError(absl::StatusCode::kPermissionDenied,
                     "{}: it has no manifest.sig, but must be signed by a trusted key; sign it",
                     container.path());
  COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> signature, container.Read(*entry));
  for (const PublicKey& key : keys) {
    if (IsSignedBy(key, manifest, signature)) return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kPermissionDenied,
      "{}: manifest.sig: no trusted key made this signature of this manifest (keys tried: {}); "
      "sign the package with a trusted key, or trust the key that signed it",
      container.path(), keys.size());
}

// The digest that the manifest has of itself, compared.
absl::StatusOr<std::string> CheckDigest(const JsonDocument& document, std::string_view text) {
  const Json value = document.root()["integrity"]["manifest_sha256"];
  if (!value.is(JsonKind::kText) || value.text().size() != kDigits)
    return document.root().Error(
        "/integrity/manifest_sha256 is not a digest; write 64 hexadecimal "
        "digits");
  const size_t begin = value.offset();
  const size_t behind = begin + QuoteText(value.text(), kDigits).size();
  std::string digest =
      Sha256Of({BytesIn(text.substr(0, begin)), BytesIn("null"), BytesIn(text.substr(behind))});
  if (value.text() != digest)
    return value.Error(
        "{} is recorded, but the digest of this manifest is {}; the manifest is damaged or was "
        "edited, so fetch it again or pack it again",
        value.Show(), digest);
  return digest;
}

// That safetensors files have the constants that the manifest takes from them.
absl::Status CheckConstants(const Package& package) {
  const Manifest& manifest = package.manifest();
  std::map<int, Safetensors> files;
  for (const Constant& constant : manifest.constants) {
    if (constant.file < 0) continue;
    const std::string& name = manifest.files[static_cast<size_t>(constant.file)].name;
    auto file = files.find(constant.file);
    if (file == files.end()) {
      COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, package.Read(name));
      COPPICE_ASSIGN_OR_RETURN(
          Safetensors tensors,
          Safetensors::FromMemory(bytes, fmt::format("{}: {}", package.path(), name)));
      file = files.emplace(constant.file, std::move(tensors)).first;
    }
    const absl::StatusOr<SafeTensor> tensor = file->second.Get(constant.tensor);
    const std::string where = fmt::format("{}: manifest.json: the constant {}", package.path(),
                                          QuoteText(constant.name, kNameMax));
    if (!tensor.ok()) return InvalidArgument("{}: {}", where, MessageOf(tensor.status()));
    if (tensor->dtype != constant.dtype || tensor->shape != constant.shape)
      return InvalidArgument(
          "{}: is {} [{}], but the tensor {} of {} is {} [{}]; make them the same", where,
          coppice::NameOf(constant.dtype), fmt::join(constant.shape, ", "),
          QuoteText(tensor->name, kNameMax), name, coppice::NameOf(tensor->dtype),
          fmt::join(tensor->shape, ", "));
  }
  return absl::OkStatus();
}

// That the files are those of the manifest, and have its lengths.
absl::Status CheckFiles(const Container& container, const Manifest& manifest) {
  for (const ZipEntry& entry : container.entries()) {
    if (entry.name == kManifestName || entry.name == kSignatureName) continue;
    const int file = IndexOf(manifest.files, entry.name);
    if (file < 0)
      return InvalidArgument("{}: {} is not in /files of the manifest; remove it", container.path(),
                             entry.name);
    const int64_t bytes = manifest.files[static_cast<size_t>(file)].bytes;
    if (bytes != entry.bytes)
      return InvalidArgument(
          "{}: {} has {} bytes, but /files of the manifest says {}; the package is damaged, fetch "
          "it again",
          container.path(), entry.name, entry.bytes, bytes);
  }
  for (const File& file : manifest.files) {
    if (container.Find(file.name) == nullptr)
      return InvalidArgument("{}: {} is in /files of the manifest, but missing; add it",
                             container.path(), file.name);
  }
  return absl::OkStatus();
}

}  // namespace

struct Package::Contents {
  std::unique_ptr<Container> container;
  std::string_view text;  // Of manifest.json.
  Manifest manifest;
  std::mutex mutex;
  std::vector<bool> is_checked;  // Per file: whether its digest was found right.

  static absl::StatusOr<std::unique_ptr<Contents>> Make(std::unique_ptr<Container> container,
                                                        const OpenOptions& options);
};

absl::StatusOr<std::unique_ptr<Package::Contents>> Package::Contents::Make(
    std::unique_ptr<Container> container, const OpenOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                           ReadManifestBytes(*container, options.manifest_bytes_max));
  COPPICE_RETURN_IF_ERROR(CheckSignature(*container, bytes, options.trusted_keys));
  COPPICE_ASSIGN_OR_RETURN(
      JsonDocument document,
      JsonDocument::Parse(TextIn(bytes), container->path() + ": manifest.json", {}));
  COPPICE_ASSIGN_OR_RETURN(const std::string digest, CheckDigest(document, TextIn(bytes)));
  auto contents = std::make_unique<Contents>();
  COPPICE_ASSIGN_OR_RETURN(contents->manifest, ReadManifest(document, digest));
  COPPICE_RETURN_IF_ERROR(CheckFiles(*container, contents->manifest));
  contents->text = TextIn(bytes);
  contents->container = std::move(container);
  contents->is_checked.resize(contents->manifest.files.size());
  return contents;
}

Package::Package(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
Package::Package(Package&&) noexcept = default;
Package::~Package() = default;

absl::StatusOr<Package> Package::Open(const std::string& path, const OpenOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Container> container, Container::Open(path));
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Contents> contents,
                           Contents::Make(std::move(container), options));
  return Package(std::move(contents));
}

absl::StatusOr<Package> Package::FromMemory(std::span<const std::byte> zip,
                                            const std::string& name,
                                            const OpenOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Container> container, Container::FromMemory(zip, name));
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Contents> contents,
                           Contents::Make(std::move(container), options));
  return Package(std::move(contents));
}

const Manifest& Package::manifest() const {
  return contents_->manifest;
}

std::span<const std::byte> Package::zip() const {
  return contents_->container->zip();
}

std::string_view Package::manifest_text() const {
  return contents_->text;
}

const std::string& Package::path() const {
  return contents_->container->path();
}

absl::StatusOr<std::span<const std::byte>> Package::Read(const std::string& name) const {
  const int index = IndexOf(contents_->manifest.files, name);
  if (index < 0)
    return MakeError(absl::StatusCode::kNotFound,
                     "{}: {} is not in /files of the manifest; name a file that is listed there",
                     path(), QuoteText(name, kNameMax));
  const auto file = static_cast<size_t>(index);
  COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                           contents_->container->Read(*contents_->container->Find(name)));
  {
    const std::lock_guard lock(contents_->mutex);
    if (contents_->is_checked[file]) return bytes;
  }
  const std::string digest = Sha256Of({bytes});
  if (digest != contents_->manifest.files[file].sha256)
    return InvalidArgument(
        "{}: {}: its digest is {}, but the manifest says {}; the file is damaged, fetch it again",
        path(), name, digest, contents_->manifest.files[file].sha256);
  const std::lock_guard lock(contents_->mutex);
  contents_->is_checked[file] = true;
  return bytes;
}

absl::Status Package::Verify() const {
  for (const File& file : contents_->manifest.files)
    COPPICE_RETURN_IF_ERROR(Read(file.name).status());
  COPPICE_RETURN_IF_ERROR(CheckConstants(*this));
  if (!contents_->container->is_zip()) return absl::OkStatus();
  for (const ZipEntry& entry : contents_->container->entries()) {
    COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                             contents_->container->Read(entry));
    if (Crc32Of(bytes) != entry.crc)
      return InvalidArgument(
          "{}: {}: its CRC-32 is {:#010x}, but the zip says {:#010x}; the file is damaged, fetch "
          "it again",
          path(), entry.name, Crc32Of(bytes), entry.crc);
  }
  return absl::OkStatus();
}

}  // namespace coppice::package
