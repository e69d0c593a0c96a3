// Reads the headers of cubins (ELF) and fatbins, and looks for the directives of PTX.

#include "runtime/device_image.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "coppice/base/status.h"
#include "coppice/runtime/kernel_image.h"

namespace coppice::internal {
namespace {

constexpr size_t kFatbinHeaderBytes = 16;

constexpr char kWhat[] = "pass the bytes of a cubin, a fatbin or PTX";

// The number at `offset`; 0 beyond the end.
template <typename T>
T ReadAt(std::span<const std::byte> image, size_t offset) {
  T value = 0;
  if (offset + sizeof(T) <= image.size()) std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

// a + b, or the largest number if that is larger.
uint64_t SumOf(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

absl::Status CutOff(const char* what, uint64_t wanted, size_t size) {
  return InvalidArgument(
      "device image: {} of {} bytes is cut off after {} bytes; pass the whole image", what, wanted,
      size);
}

// Offsets of the ELF-64 header.
absl::StatusOr<DeviceImageKind> ClassifyElf(std::span<const std::byte> image) {
  constexpr size_t kHeaderBytes = 64;
  constexpr unsigned kMachineCuda = 190;
  if (image.size() < kHeaderBytes)
    return CutOff("the header of a cubin", kHeaderBytes, image.size());
  const unsigned machine = ReadAt<uint16_t>(image, 18);
  if (machine != kMachineCuda)
    return InvalidArgument(
        "device image: this is an ELF file for machine {}, but cubins are for machine {}; {}",
        machine, kMachineCuda, kWhat);
  uint64_t end = 0;
  const auto reach = [&](size_t start, size_t entry_bytes, size_t entries) {
    const uint64_t table =
        uint64_t{ReadAt<uint16_t>(image, entry_bytes)} * ReadAt<uint16_t>(image, entries);
    if (table > 0) end = std::max(end, SumOf(ReadAt<uint64_t>(image, start), table));
  };
  reach(32, 54, 56);  // Segments.
  reach(40, 58, 60);  // Sections.
  if (end > image.size()) return CutOff("a cubin", end, image.size());
  return DeviceImageKind::kCubin;
}

absl::StatusOr<DeviceImageKind> ClassifyFatbin(std::span<const std::byte> image) {
  const uint64_t end =
      image.size() < kFatbinHeaderBytes ? kFatbinHeaderBytes : FatbinBytes(image.data());
  if (end > image.size()) return CutOff("a fatbin", end, image.size());
  return DeviceImageKind::kFatbin;
}

}  // namespace

const char* NameOf(DeviceImageKind kind) {
  switch (kind) {
    case DeviceImageKind::kCubin:
      return "a cubin";
    case DeviceImageKind::kFatbin:
      return "a fatbin";
    case DeviceImageKind::kPtx:
      return "PTX";
  }
  return "";
}

absl::StatusOr<DeviceImageKind> ClassifyDeviceImage(std::span<const std::byte> image) {
  constexpr uint32_t kWrapperMagic = 0x466243B1;  // Of the struct that nvcc compiles in.
  const auto magic = ReadAt<uint32_t>(image, 0);
  if (magic == kCubinMagic) return ClassifyElf(image);
  if (magic == kFatbinMagic) return ClassifyFatbin(image);
  if (magic == kWrapperMagic)
    return InvalidArgument(
        "device image: this is nvcc's wrapper struct of a fatbin (__fatBinC_Wrapper_t); pass the "
        "fatbin that it points to");
  if (ReadAt<uint64_t>(image, 0) == KernelImage::kMagic)
    return InvalidArgument(
        "device image: this is a KernelImage; use the overload of Load that takes one");
  std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  while (text.ends_with('\0'))
    text.remove_suffix(1);
  if (text.find('\0') == std::string_view::npos &&
      text.find(".version") != std::string_view::npos &&
      text.find(".target") != std::string_view::npos)
    return DeviceImageKind::kPtx;
  return InvalidArgument("device image: {} bytes that start with {:#010x} have no known format; {}",
                         image.size(), magic, kWhat);
}

uint64_t FatbinBytes(const void* image) {
  const std::span header(static_cast<const std::byte*>(image), kFatbinHeaderBytes);
  if (ReadAt<uint32_t>(header, 0) != kFatbinMagic) return 0;
  return SumOf(ReadAt<uint64_t>(header, 8), ReadAt<uint16_t>(header, 6));
}

uint64_t CubinBytes(const void* image) {
  constexpr size_t kHeaderBytes = 64;
  constexpr size_t kSectionBytes = 64;
  constexpr uint32_t kNoBits = 8;  // A section without bytes in the file.
  // An ELF file of 64 bits. Byte by byte, since what is none may be shorter.
  constexpr char kIdentity[] = "\x7f\x45LF\x02\x01";
  const auto* const start = static_cast<const std::byte*>(image);
  for (size_t i = 0; i + 1 < sizeof(kIdentity); ++i)
    if (start[i] != static_cast<std::byte>(kIdentity[i])) return 0;
  const std::span header(start, kHeaderBytes);
  if (ReadAt<uint16_t>(header, 58) != kSectionBytes) return 0;
  const auto sections = ReadAt<uint64_t>(header, 40);
  const uint64_t count = ReadAt<uint16_t>(header, 60);
  uint64_t end = SumOf(sections, count * kSectionBytes);
  end = std::max(end, SumOf(ReadAt<uint64_t>(header, 32),
                            uint64_t{ReadAt<uint16_t>(header, 54)} * ReadAt<uint16_t>(header, 56)));
  for (uint64_t i = 0; i < count; ++i) {
    const std::span section(start + sections + i * kSectionBytes, kSectionBytes);
    if (ReadAt<uint32_t>(section, 4) != kNoBits)
      end = std::max(end, SumOf(ReadAt<uint64_t>(section, 24), ReadAt<uint64_t>(section, 32)));
  }
  return end;
}

// The header of an entry: what it is (u16), at 4 its own bytes (u32), at 8 those that follow it
// (u64), at 28 the architecture (u32), at 40 flags (u64).
absl::StatusOr<std::vector<FatbinEntry>> FatbinEntries(std::span<const std::byte> fatbin) {
  constexpr uint16_t kPtx = 1;
  constexpr uint16_t kElf = 2;
  constexpr uint64_t kCompressed = 0x2000 | 0x8000;  // LZ4, Zstandard.
  constexpr uint64_t kEntryHeaderBytes = 64;
  constexpr uint32_t kArchitectureMax = 100'000;
  std::vector<FatbinEntry> entries;
  for (uint64_t at = ReadAt<uint16_t>(fatbin, 6); at < fatbin.size();) {
    const std::span<const std::byte> entry = fatbin.subspan(at);
    const auto header_bytes = ReadAt<uint32_t>(entry, 4);
    const uint64_t bytes = SumOf(header_bytes, ReadAt<uint64_t>(entry, 8));
    if (entry.size() < kEntryHeaderBytes || header_bytes < kEntryHeaderBytes ||
        bytes > entry.size())
      return CutOff("an entry of a fatbin", SumOf(at, bytes), fatbin.size());
    at += bytes;
    const auto kind = ReadAt<uint16_t>(entry, 0);
    const auto architecture = ReadAt<uint32_t>(entry, 28);
    if ((kind != kPtx && kind != kElf) || architecture > kArchitectureMax) continue;
    FatbinEntry found{.kind = kind == kPtx ? DeviceImageKind::kPtx : DeviceImageKind::kCubin,
                      .capability = static_cast<int>(architecture),
                      .compressed = (ReadAt<uint64_t>(entry, 40) & kCompressed) != 0,
                      .bytes = entry.subspan(header_bytes, bytes - header_bytes)};
    if (found.kind == DeviceImageKind::kPtx && !found.compressed) {
      const auto end = std::find(found.bytes.begin(), found.bytes.end(), std::byte{0});
      found.bytes = found.bytes.first(static_cast<size_t>(end - found.bytes.begin()));
    }
    entries.push_back(found);
  }
  return entries;
}

absl::StatusOr<std::string_view> FindPtx(std::span<const std::byte> fatbin, int capability) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<FatbinEntry> entries, FatbinEntries(fatbin));
  const FatbinEntry* found = nullptr;
  bool compressed = false;
  for (const FatbinEntry& entry : entries) {
    if (entry.kind != DeviceImageKind::kPtx || entry.capability > capability) continue;
    if (found != nullptr && entry.capability < found->capability) continue;
    if (entry.compressed)
      compressed = true;
    else
      found = &entry;
  }
  if (found != nullptr && found->capability != 0)
    return std::string_view(reinterpret_cast<const char*>(found->bytes.data()),
                            found->bytes.size());
  return MakeError(absl::StatusCode::kNotFound,
                   "device image: the fatbin lacks {} PTX for compute capability {}.{}; {}",
                   compressed ? "uncompressed" : "any", capability / 10, capability % 10,
                   compressed
                       ? "compile with nvcc --no-compress"
                       : "add it, for example with nvcc -gencode arch=compute_80,code=compute_80");
}

}  // namespace coppice::internal
