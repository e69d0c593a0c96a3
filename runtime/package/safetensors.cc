// The header is read as JSON of any layout; what it says is checked before any of it is believed.

#include "coppice/runtime/safetensors.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "base/json_document.h"
#include "base/json_fields.h"
#include "runtime/package/mapped_file.h"

namespace coppice::package {
namespace {

constexpr size_t kLengthBytes = 8;
// In the order of DType.
constexpr std::array<std::string_view, 16> kDTypes = {
    "F32", "F16", "BF16", "F64", "F8_E4M3", "F8_E5M2", "C64", "BOOL",
    "I8",  "I16", "I32",  "I64", "U8",      "U16",     "U32", "U64"};

// Where the word is in kDTypes; behind its end if it is not.
size_t IndexOfDType(std::string_view word) {
  return static_cast<size_t>(std::find(kDTypes.begin(), kDTypes.end(), word) - kDTypes.begin());
}

// That a known dtype and the shape have as many bytes as there are.
absl::Status CheckBytes(Json tensor, const std::vector<int64_t>& shape, int64_t bytes) {
  const size_t dtype = IndexOfDType(tensor["dtype"].text());
  if (dtype == kDTypes.size()) return absl::OkStatus();
  int64_t expected = SizeOf(static_cast<DType>(dtype));
  bool fits = true;
  for (const int64_t size : shape)
    fits = !__builtin_mul_overflow(expected, size, &expected) && fits;
  if (fits && expected == bytes) return absl::OkStatus();
  return tensor.Error(
      "has {} bytes, which does not match its shape and its dtype {}; write the file again", bytes,
      tensor["dtype"].Show());
}

struct Place {
  int64_t begin = 0;
  int64_t end = 0;
  Json tensor;
};

// That every byte belongs to one tensor.
absl::Status CheckPlaces(std::vector<Place> places, Json root, int64_t data_bytes) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t end = 0;
  for (const Place& place : places) {
    if (place.begin != end)
      return place.tensor.Error(
          "begins at byte {}, but the bytes before it end at byte {}; write the file again",
          place.begin, end);
    end = place.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return root.Error(
      "the tensors end at byte {}, but the data of the file ends at byte {}; write the file again",
      end, data_bytes);
}

}  // namespace

std::string FormatSafetensors(std::vector<SafeTensor> tensors) {
  std::ranges::sort(tensors, {}, &SafeTensor::name);
  nlohmann::json header = nlohmann::json::object();
  size_t next = 0;
  for (const SafeTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", kDTypes[static_cast<size_t>(tensor.dtype)]},
                           {"shape", tensor.shape},
                           {"data_offsets", {next, next + tensor.bytes.size()}}};
    next += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string file;
  file.reserve(kLengthBytes + text.size() + next);
  for (size_t byte = 0; byte < kLengthBytes; ++byte)
    file += static_cast<char>(text.size() >> (8 * byte));
  file += text;
  for (const SafeTensor& tensor : tensors)
    file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return file;
}

Safetensors::Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;
Safetensors::~Safetensors() = default;

absl::StatusOr<Safetensors> Safetensors::Open(const std::string& path) {
  COPPICE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path, /*follow_links=*/true));
  COPPICE_ASSIGN_OR_RETURN(Safetensors tensors, FromMemory(file.bytes(), path));
  tensors.file_ = std::make_unique<MappedFile>(std::move(file));
  return tensors;
}

absl::StatusOr<Safetensors> Safetensors::FromMemory(std::span<const std::byte> bytes,
                                                    const std::string& name) {
  uint64_t length = 0;
  for (size_t byte = 0; byte < std::min(bytes.size(), kLengthBytes); ++byte)
    length |= std::to_integer<uint64_t>(bytes[byte]) << (8 * byte);
  if (bytes.size() < kLengthBytes || length > bytes.size() - kLengthBytes ||
      length > static_cast<uint64_t>(kHeaderBytesMax))
    return InvalidArgument(
        "{}: the file has {} bytes, and its first 8 bytes give a header of {} bytes; give a "
        "safetensors file with a header of at most {} bytes",
        name, bytes.size(), length, kHeaderBytesMax);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);
  const auto data_bytes = static_cast<int64_t>(data.size());
  if (!text.starts_with('{'))
    return InvalidArgument("{}: its header is not a JSON object; give a safetensors file", name);
  COPPICE_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::Parse(text, name, {.canonical = false, .depth_max = 8}));
  Safetensors file;
  file.path_ = name;
  std::vector<Place> places;
  for (const Json tensor : document.root()) {
    if (tensor.key() == "__metadata__") continue;
    COPPICE_RETURN_IF_ERROR(CheckFields(tensor, {"dtype", "shape", "data_offsets"}));
    Entry entry{.name = std::string(tensor.key())};
    COPPICE_ASSIGN_OR_RETURN(entry.dtype, TextOf(tensor["dtype"]));
    COPPICE_RETURN_IF_ERROR(CheckKind(tensor["shape"], JsonKind::kList));
    for (const Json size : tensor["shape"]) {
      COPPICE_ASSIGN_OR_RETURN(const int64_t extent, IntegerOf(size, 0, INT64_MAX));
      entry.shape.push_back(extent);
    }
    const Json offsets = tensor["data_offsets"];
    COPPICE_RETURN_IF_ERROR(CheckList(offsets, 2, 2));
    Place place{.tensor = tensor};
    COPPICE_ASSIGN_OR_RETURN(place.begin, IntegerOf(*offsets.begin(), 0, data_bytes));
    COPPICE_ASSIGN_OR_RETURN(place.end, IntegerOf(*++offsets.begin(), place.begin, data_bytes));
    COPPICE_RETURN_IF_ERROR(CheckBytes(tensor, entry.shape, place.end - place.begin));
    entry.bytes = data.subspan(static_cast<size_t>(place.begin),
                               static_cast<size_t>(place.end - place.begin));
    places.push_back(place);
    file.entries_.push_back(std::move(entry));
  }
  COPPICE_RETURN_IF_ERROR(CheckPlaces(std::move(places), document.root(), data_bytes));
  std::sort(file.entries_.begin(), file.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return file;
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_)
    names.push_back(entry.name);
  return names;
}

absl::StatusOr<SafeTensor> Safetensors::Get(const std::string& name) const {
  const int index = IndexOf(entries_, name);
  if (index < 0)
    return MakeError(absl::StatusCode::kNotFound,
                     "{} has no tensor {}; name a tensor in the file ({} in all)", path_,
                     QuoteText(name, kNameMax), entries_.size());
  const Entry& entry = entries_[static_cast<size_t>(index)];
  const size_t dtype = IndexOfDType(entry.dtype);
  if (dtype == kDTypes.size())
    return MakeError(absl::StatusCode::kUnimplemented,
                     "{}: {} is of dtype {}, which coppice does not support; convert it", path_,
                     QuoteText(name, kNameMax), QuoteText(entry.dtype, kNameMax));
  return SafeTensor{entry.name, static_cast<DType>(dtype), entry.shape, entry.bytes};
}

}  // namespace coppice::package
