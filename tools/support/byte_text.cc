// One table of units for both directions.

#include "tools/support/byte_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {
namespace {

constexpr std::array kUnits = {ByteUnit{kGiB, "GiB"}, ByteUnit{kMiB, "MiB"}, ByteUnit{kKiB, "KiB"},
                               ByteUnit{}};

}  // namespace

ByteUnit UnitOf(int64_t bytes) {
  const auto* const unit = std::find_if(
      kUnits.begin(), kUnits.end(), [bytes](const ByteUnit& each) { return bytes >= each.bytes; });
  return unit == kUnits.end() ? ByteUnit{} : *unit;
}

std::string FormatBytes(int64_t bytes) {
  const ByteUnit unit = UnitOf(bytes);
  if (unit.bytes == 1) return fmt::format("{} B", bytes);
  return fmt::format("{:.2f} {}", static_cast<double>(bytes) / static_cast<double>(unit.bytes),
                     unit.name);
}

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  const char* const last = text.data() + text.size();
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), last, count);
  const std::string_view name(end, static_cast<size_t>(last - end));
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end(),
                                        [&](const ByteUnit& each) { return name == each.name; });
  const int64_t factor = name.empty() ? 1 : unit == kUnits.end() ? 0 : unit->bytes;
  if (error == std::errc() && count >= 1 && factor >= 1 && count <= INT64_MAX / factor)
    return count * factor;
  return InvalidArgument(
      "'{}' is not a size; give a number of bytes from 1 to 2^63 - 1, or a whole number with KiB, "
      "MiB or GiB",
      text);
}

int64_t ByteStep(int64_t bytes, int64_t parts) {
  int64_t step = 1;
  while (bytes / parts > step)
    step *= 2;
  return step;
}

}  // namespace coppice
