// Images of device code: which kind one is, and whether all of it is there.
//
// A driver is told where an image begins and not where it ends, so that one which was cut off would
// be read beyond its end.
//
// Units: bytes. Threads: stateless.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice::internal {

// How images start, as a number whose lowest byte is the first.
inline constexpr uint32_t kCubinMagic = 0x464C457F;   // "\x7f" "ELF".
inline constexpr uint32_t kFatbinMagic = 0xBA55ED50;  // Of what `nvcc -fatbin` writes.

enum class DeviceImageKind : uint8_t { kCubin, kFatbin, kPtx };

// "a cubin", "a fatbin" or "PTX".
const char* NameOf(DeviceImageKind kind);

// The kind of `image`, by how it starts; of text, by its directives. A NUL may end PTX.
// Errors: kInvalidArgument if it is none of them, or ends before its headers say.
absl::StatusOr<DeviceImageKind> ClassifyDeviceImage(std::span<const std::byte> image);

// What a fatbin takes, by its header; 0: its first bytes are no such header. Reads 16 bytes.
uint64_t FatbinBytes(const void* image);

// What a cubin takes, by its headers; 0: its first bytes are no such header. Reads the headers.
uint64_t CubinBytes(const void* image);

// What a fatbin has for one architecture.
struct FatbinEntry {
  DeviceImageKind kind = DeviceImageKind::kCubin;  // A cubin or PTX.
  int capability = 0;                              // Compiled for: 89 for 8.9.
  bool compressed = false;                         // The bytes are not readable as they are.
  std::span<const std::byte> bytes;                // Of the image; of PTX, without what pads it.
};

// The cubins and PTX of a fatbin, in their order; other kinds are left out. Points into it.
// Errors: kInvalidArgument  an entry ends behind the fatbin.
absl::StatusOr<std::vector<FatbinEntry>> FatbinEntries(std::span<const std::byte> fatbin);

// The PTX of a fatbin for the newest device that is not newer than `capability`: 89 for 8.9. Points
// into it.
// Errors: kInvalidArgument  an entry ends behind the fatbin;
//         kNotFound         there is none, or it is compressed: the message says what to do.
absl::StatusOr<std::string_view> FindPtx(std::span<const std::byte> fatbin, int capability);

}  // namespace coppice::internal
