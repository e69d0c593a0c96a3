// Dynamic axes: the entries and their patterns.

#include "coppice/graphs/dynamic_axes.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/base/tensor.h"

namespace coppice {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Errors say what is wrong with the entry; the caller adds where it is.
absl::StatusOr<DynamicAxis> ParseEntry(std::string_view entry) {
  const size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos) return InvalidArgument("the entry has no ':' with an axis");
  DynamicAxis dynamic{.pattern = std::string(entry.substr(0, colon))};
  if (dynamic.pattern.empty()) return InvalidArgument("the entry has no pattern before the ':'");
  const std::string_view axis = entry.substr(colon + 1);
  const char* end = axis.data() + axis.size();
  const std::from_chars_result read = std::from_chars(axis.data(), end, dynamic.axis);
  if (read.ec != std::errc() || read.ptr != end || dynamic.axis < 0 || dynamic.axis >= kRankMax)
    return InvalidArgument("axis \"{}\" is not an integer in [0, {}]", axis, kRankMax - 1);
  return dynamic;
}

}  // namespace

// The last star takes one character more wherever what follows it does not match: that is enough,
// because an earlier star could only leave less to the later ones.
bool DynamicAxis::Matches(std::string_view name) const {
  size_t at = 0;
  size_t in_name = 0;
  std::optional<size_t> star;
  size_t resume = 0;
  while (in_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in_name;
    } else if (at < pattern.size() && pattern[at] == name[in_name]) {
      ++at;
      ++in_name;
    } else if (star) {
      at = *star + 1;
      in_name = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string::npos;
}

absl::StatusOr<std::vector<DynamicAxis>> ParseDynamicAxes(const std::string& text) {
  std::vector<DynamicAxis> axes;
  std::string_view rest = text;
  if (Trim(rest).empty()) return axes;
  for (size_t comma = 0; comma != std::string_view::npos;) {
    comma = rest.find(',');
    const std::string_view entry = Trim(rest.substr(0, comma));
    absl::StatusOr<DynamicAxis> axis = ParseEntry(entry);
    if (!axis.ok())
      return InvalidArgument(
          "ParseDynamicAxes: \"{}\" has the entry \"{}\", but {}; write entries such as x:0,kv*:1",
          text, entry, MessageOf(axis.status()));
    axes.push_back(*std::move(axis));
    if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
  }
  return axes;
}

}  // namespace coppice
