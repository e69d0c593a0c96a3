// Tables as text: comment lines that begin with '#', a line of column names, then rows. Fields are
// separated by tabs.
//
// Threads: functions only.

#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coppice {

struct TsvRow {
  int line = 0;  // Line number in the text, from 1.
  std::vector<std::string_view> fields;
};

// The rows of `text`. Its columns must be `columns`, which are separated by tabs. Messages call the
// table `name`. The rows point into `text`. Errors: kInvalidArgument, with name and line: wrong
// columns, or a row with a wrong number of fields.
absl::StatusOr<std::vector<TsvRow>> ParseTsv(std::string_view text,
                                             std::string_view name,
                                             std::string_view columns);

}  // namespace coppice
