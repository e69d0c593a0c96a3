// Dynamic axes as text: one line, short enough for an environment variable, says which axes of
// which inputs vary between calls.
//
//   x:0                axis 0 of the input x
//   x:0,kv*:1          and axis 1 of every input whose name starts with kv
//
// Entries are separated by commas; spaces around an entry are ignored. The axis follows an entry's
// last colon. A pattern must match a whole name; `*` matches any number of characters, including
// none, and every other character matches itself.
//
// Units: axes count from 0. Threads: plain values.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice {

struct DynamicAxis {
  std::string pattern;
  int axis = 0;  // In [0, kRankMax).

  // Whether the pattern matches the whole of `name`. Cost: O(pattern * name); never allocates.
  bool Matches(std::string_view name) const;

  friend bool operator==(const DynamicAxis&, const DynamicAxis&) = default;
};

// The entries of `text` in their order; none if it is empty or all spaces. Errors: kInvalidArgument
// quoting the text and the first entry that has no pattern, no axis or an axis out of range.
absl::StatusOr<std::vector<DynamicAxis>> ParseDynamicAxes(const std::string& text);

}  // namespace coppice
