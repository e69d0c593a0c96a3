// A zip of a manifest, tensors and perhaps a package.

#include <memory>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/graphs/case_file.h"
#include "coppice/runtime/safetensors.h"

#include "base/json_document.h"
#include "graphs/case/case_document.h"
#include "graphs/profile/profile_file.h"
#include "runtime/package/container.h"
#include "runtime/package/digest.h"
#include "runtime/package/zip_writer.h"

namespace coppice {
namespace {

constexpr char kTensors[] = "tensors.safetensors";
constexpr char kPackage[] = "package.zip";
constexpr int64_t kManifestBytesMax = int64_t{256} << 20;

std::span<const std::byte> BytesIn(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string TensorFile(const std::map<std::string, CaseTensor>& tensors) {
  std::vector<package::SafeTensor> list;
  for (const auto& [name, tensor] : tensors)
    list.push_back({name, tensor.dtype, tensor.dims, BytesIn(tensor.bytes)});
  return package::FormatSafetensors(std::move(list));
}

absl::StatusOr<std::map<std::string, CaseTensor>> ReadTensors(std::span<const std::byte> bytes,
                                                              const std::string& name) {
  COPPICE_ASSIGN_OR_RETURN(const package::Safetensors file,
                           package::Safetensors::FromMemory(bytes, name));
  std::map<std::string, CaseTensor> tensors;
  for (const std::string& each : file.names()) {
    COPPICE_ASSIGN_OR_RETURN(const package::SafeTensor tensor, file.Get(each));
    if (tensor.shape.size() > static_cast<size_t>(kRankMax))
      return InvalidArgument("{}: {} has {} dims; a tensor has at most {}", name,
                             QuoteText(each, 255), tensor.shape.size(), kRankMax);
    const auto* const first = reinterpret_cast<const char*>(tensor.bytes.data());
    tensors[each] = {tensor.dtype, tensor.shape, std::string(first, tensor.bytes.size())};
  }
  return tensors;
}

absl::StatusOr<Case> ReadFrom(const package::Container& container) {
  const std::string& name = container.path();
  if (!container.is_zip())
    return InvalidArgument("{} is a folder; give the file that the flight recorder wrote", name);
  for (const package::ZipEntry& entry : container.entries()) {
    if (entry.name != package::kManifestName && entry.name != kTensors && entry.name != kPackage)
      return InvalidArgument("{}: {} does not belong in a case", name, QuoteText(entry.name, 255));
    COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, container.Read(entry));
    if (package::Crc32Of(bytes) != entry.crc)
      return InvalidArgument("{}: {} is damaged: its checksum differs; get the file again", name,
                             entry.name);
  }
  const package::ZipEntry* const manifest = container.Find(package::kManifestName);
  const package::ZipEntry* const tensors = container.Find(kTensors);
  if (manifest == nullptr || tensors == nullptr)
    return InvalidArgument("{} has no {}; a case has a manifest and tensors", name,
                           manifest == nullptr ? package::kManifestName : kTensors);
  if (manifest->bytes > kManifestBytesMax)
    return InvalidArgument("{}: the manifest has {} bytes, but at most {} are allowed", name,
                           manifest->bytes, kManifestBytesMax);
  COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> text, container.Read(*manifest));
  COPPICE_ASSIGN_OR_RETURN(
      Case read,
      internal::ParseCaseManifest({reinterpret_cast<const char*>(text.data()), text.size()}, name));
  COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> data, container.Read(*tensors));
  COPPICE_ASSIGN_OR_RETURN(read.tensors, ReadTensors(data, name + ": " + kTensors));
  COPPICE_RETURN_IF_ERROR(internal::CheckTensors(read, name));
  if (const package::ZipEntry* const entry = container.Find(kPackage)) {
    COPPICE_ASSIGN_OR_RETURN(const std::span<const std::byte> zip, container.Read(*entry));
    read.package.assign(reinterpret_cast<const char*>(zip.data()), zip.size());
  }
  return read;
}

}  // namespace

absl::StatusOr<std::string> FormatCase(const Case& value) {
  std::string zip;
  const std::string name = "a case";
  const auto append = [&zip](std::string_view bytes) {
    zip += bytes;
    return absl::OkStatus();
  };
  package::ZipWriter writer(name, append);
  COPPICE_RETURN_IF_ERROR(writer.Add(package::kManifestName, BytesIn(internal::ManifestOf(value))));
  if (!value.package.empty()) COPPICE_RETURN_IF_ERROR(writer.Add(kPackage, BytesIn(value.package)));
  COPPICE_RETURN_IF_ERROR(writer.Add(kTensors, BytesIn(TensorFile(value.tensors))));
  COPPICE_RETURN_IF_ERROR(writer.Finish());
  return zip;
}

absl::Status WriteCase(const Case& value, const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(const std::string zip, FormatCase(value));
  return internal::WriteWhole(path, zip);
}

absl::StatusOr<Case> ParseCase(std::span<const std::byte> bytes, const std::string& name) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<package::Container> container,
                           package::Container::FromMemory(bytes, name));
  return ReadFrom(*container);
}

absl::StatusOr<Case> ReadCase(const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<package::Container> container,
                           package::Container::Open(path));
  return ReadFrom(*container);
}

}  // namespace coppice
