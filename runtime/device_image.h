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

#include "absl/status/statusor.h"

namespace coppice::internal {

enum class DeviceImageKind : uint8_t { kCubin, kFatbin, kPtx };

// "a cubin", "a fatbin" or "PTX".
const char* NameOf(DeviceImageKind kind);

// The kind of `image`, by how it starts; of text, by its directives. A NUL may end PTX.
// Errors: kInvalidArgument if it is none of them, or ends before its headers say.
absl::StatusOr<DeviceImageKind> ClassifyDeviceImage(std::span<const std::byte> image);

}  // namespace coppice::internal
