// Texts of options, errors that name their file.

#include "tools/ptx/ptx.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/support/text_file.h"

namespace coppice {
namespace {

template <typename T>
bool IsNumber(std::string_view text, T* value) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, *value);
  return error == std::errc() && end == last;
}

// Takes a text up to the next comma off `rest`.
std::string_view TakeItem(std::string_view& rest) {
  const size_t end = std::min(rest.find(','), rest.size());
  const std::string_view item = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return item;
}

}  // namespace

absl::StatusOr<LaunchExtents> ParseLaunchExtents(const std::string& text) {
  LaunchExtents extents = {1, 1, 1};
  bool good = !text.empty() && text.back() != ',';
  std::string_view rest = text;
  for (size_t i = 0; good && !rest.empty(); ++i)
    good = i < extents.size() && IsNumber(TakeItem(rest), &extents[i]) && extents[i] > 0;
  if (good) return extents;
  return InvalidArgument(
      "'{}' is not a launch size; give whole numbers of at least 1, such as 64 or 64,2,1", text);
}

absl::StatusOr<int64_t> ParseSharedBytes(const std::string& text) {
  int64_t bytes = 0;
  if (IsNumber(std::string_view(text), &bytes) && bytes >= 0 && bytes <= kBlockSharedBytesMax)
    return bytes;
  return InvalidArgument("'{}' is not a number of bytes; give a whole number from 0 to {}", text,
                         kBlockSharedBytesMax);
}

absl::StatusOr<ptx::Checks> ParseChecks(const std::string& text) {
  if (text == "all") return ptx::Checks{.uninitialized = true};
  ptx::Checks checks = ptx::Checks::All(false);
  if (text == "none") return checks;
  const std::string ended = text + ",";  // So that a last comma has a name behind it, an empty one.
  for (std::string_view rest = ended; !rest.empty();) {
    const std::string_view name = TakeItem(rest);
    bool* const check = name == "races"            ? &checks.races
                        : name == "harmless_races" ? &checks.harmless_races
                        : name == "uninitialized"  ? &checks.uninitialized
                        : name == "record"         ? &checks.record
                                                   : nullptr;
    if (check == nullptr) {
      return InvalidArgument(
          "{} is not a check; give all, none, or some of races, harmless_races, uninitialized and "
          "record, separated by commas",
          Quote(name));
    }
    *check = true;
  }
  checks.races = checks.races || checks.harmless_races;
  return checks;
}

absl::Status AtFile(const std::string& file, const absl::Status& status) {
  std::string message = MessageOf(status);
  constexpr std::string_view kLine = "line ";
  if (absl::IsInvalidArgument(status) && message.starts_with(kLine))
    return InvalidArgument("{}:{}; give PTX as a compiler writes it", file,
                           message.substr(kLine.size()));
  return InvalidArgument("{}: {}", file, message);
}

std::string FormatJson(const nlohmann::ordered_json& json) {
  // Names and messages may hold bytes of the file that are not UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace coppice
