// What vprintf prints.
//
// Threads: as Warp.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {

struct Printed {
  std::string text;
  int32_t arguments = 0;  // That the format asked for.
};

// The text of a lane's call: the format and the arguments, as C passes them, are at generic
// addresses. Nothing: the lane may not read them, which has been noted.
std::optional<Printed> FormatPrint(ResidentWarp& warp,
                                   uint64_t format,
                                   uint64_t arguments,
                                   int lane);

}  // namespace coppice::ptx
