// Splits text into lines, and lines into fields.

#include "coppice/base/tsv.h"

#include <algorithm>

#include "coppice/base/status.h"

namespace coppice {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

absl::StatusOr<std::vector<TsvRow>> ParseTsv(std::string_view text,
                                             std::string_view name,
                                             std::string_view columns) {
  const size_t column_count = Split(columns, '\t').size();
  std::vector<TsvRow> rows;
  bool has_columns = false;
  int number = 0;
  for (const std::string_view line : Split(text, '\n')) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (!has_columns) {
      if (line != columns)
        return InvalidArgument("{}:{}: the columns are '{}'; give '{}'", name, number, line,
                               columns);
      has_columns = true;
      continue;
    }
    rows.push_back({.line = number, .fields = Split(line, '\t')});
    if (rows.back().fields.size() != column_count)
      return InvalidArgument("{}:{}: the row has {} fields; give {}, separated by tabs", name,
                             number, rows.back().fields.size(), column_count);
  }
  if (!has_columns)
    return InvalidArgument("{}:{}: the table has no header row; give '{}'", name, number, columns);
  return rows;
}

}  // namespace coppice
