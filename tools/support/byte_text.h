// Bytes for people: two decimals and a unit.
//
// Units: bytes; KiB, MiB and GiB are powers of 1024. Threads: pure function.

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "fmt/format.h"

#include "coppice/base/units.h"

namespace coppice {

struct ByteUnit {
  int64_t bytes = 1;
  const char* name = "B";
};

// The largest unit that `bytes` fills at least once.
inline ByteUnit UnitOf(int64_t bytes) {
  constexpr std::array kUnits = {ByteUnit{kGiB, "GiB"}, ByteUnit{kMiB, "MiB"},
                                 ByteUnit{kKiB, "KiB"}};
  for (const ByteUnit& unit : kUnits)
    if (bytes >= unit.bytes) return unit;
  return {};
}

// "12 B", "1.50 KiB", "380.25 MiB".
inline std::string FormatBytes(int64_t bytes) {
  const ByteUnit unit = UnitOf(bytes);
  if (unit.bytes == 1) return fmt::format("{} B", bytes);
  return fmt::format("{:.2f} {}", static_cast<double>(bytes) / static_cast<double>(unit.bytes),
                     unit.name);
}

}  // namespace coppice
