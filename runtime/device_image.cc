// Reads the headers of cubins (ELF) and fatbins, and looks for the directives of PTX.

#include "runtime/device_image.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "coppice/base/status.h"
#include "coppice/runtime/kernel_image.h"

namespace coppice::internal {
namespace {

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
  return InvalidArgument("device image: {} of {} bytes was cut off after {}; pass all of it", what,
                         wanted, size);
}

// Offsets of the ELF-64 header.
absl::StatusOr<DeviceImageKind> ClassifyElf(std::span<const std::byte> image) {
  constexpr size_t kHeaderBytes = 64;
  constexpr unsigned kMachineCuda = 190;
  if (image.size() < kHeaderBytes)
    return CutOff("the header of a cubin", kHeaderBytes, image.size());
  const unsigned machine = ReadAt<uint16_t>(image, 18);
  if (machine != kMachineCuda)
    return InvalidArgument("device image: an ELF file for machine {}, and cubins are for {}; {}",
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
  constexpr size_t kHeaderBytes = 16;
  const uint64_t end = image.size() < kHeaderBytes
                           ? kHeaderBytes
                           : SumOf(ReadAt<uint64_t>(image, 8), ReadAt<uint16_t>(image, 6));
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
  constexpr uint32_t kElfMagic = 0x464C457F;      // "\x7f" "ELF" in memory order.
  constexpr uint32_t kFatbinMagic = 0xBA55ED50;   // Of what `nvcc -fatbin` writes.
  constexpr uint32_t kWrapperMagic = 0x466243B1;  // Of the struct that nvcc compiles in.
  const auto magic = ReadAt<uint32_t>(image, 0);
  if (magic == kElfMagic) return ClassifyElf(image);
  if (magic == kFatbinMagic) return ClassifyFatbin(image);
  if (magic == kWrapperMagic)
    return InvalidArgument(
        "device image: the struct around a fatbin that nvcc compiles into a program; pass the "
        "fatbin that it points to");
  if (ReadAt<uint64_t>(image, 0) == HostImage::kMagic)
    return InvalidArgument("device image: a HostImage; load it as part of a KernelImage");
  std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  while (text.ends_with('\0'))
    text.remove_suffix(1);
  if (text.find('\0') == std::string_view::npos &&
      text.find(".version") != std::string_view::npos &&
      text.find(".target") != std::string_view::npos)
    return DeviceImageKind::kPtx;
  return InvalidArgument("device image: {} bytes that start with {:#010x}; {}", image.size(), magic,
                         kWhat);
}

}  // namespace coppice::internal
