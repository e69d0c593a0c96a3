// An emulated device with little memory.

#pragma once

#include <cstdint>

#include "coppice/base/units.h"
#include "coppice/runtime/emulator.h"

#include "tests/support/test_device.h"

namespace coppice {

inline constexpr int64_t kGranule = 2 * kMiB;  // In which it maps.

inline Emulator::Options WithMemory(int64_t bytes) {
  Emulator::Options options = TestEmulatorOptions();
  options.memory_bytes = bytes;
  return options;
}

}  // namespace coppice
