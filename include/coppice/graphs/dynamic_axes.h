// Dynamic axes as text: which axes of which inputs vary between calls, in one line that fits an
// environment variable.
//
//   x:0                axis 0 of the input x
//   x:0,kv.*:1         and axis 1 of every input whose name starts with kv
//   (q|k|v):0          axis 0 of q, k and v
//
// Entries are separated by commas, and spaces around one do not count. The axis follows an entry's
// last colon. A pattern is a regular expression (ECMAScript) that must match a whole name; it holds
// no comma, because a comma ends the entry.
//
// Units: axes count from 0. Threads: plain values.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice {

struct DynamicAxis {
  std::string pattern;
  int axis = 0;  // In [0, kRankMax).

  // Whether the pattern matches all of `name`. Requires: a pattern out of ParseDynamicAxes
  // (checked). Cost: compiles the pattern; allocates. A pattern with nested repetition can take
  // time exponential in the name's length.
  bool Matches(const std::string& name) const;

  friend bool operator==(const DynamicAxis&, const DynamicAxis&) = default;
};

// The entries of `text` in their order; none if it is empty or all spaces. Errors: kInvalidArgument
// quoting the text and the first entry that has no pattern, no axis, an axis out of range or a
// pattern that is no regular expression.
absl::StatusOr<std::vector<DynamicAxis>> ParseDynamicAxes(const std::string& text);

}  // namespace coppice
