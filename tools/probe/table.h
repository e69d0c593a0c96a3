// A table as text: comment lines that begin with '#', a line of column names, then rows; fields are
// separated by tabs. It is written as it grows, so that a run that dies keeps what it has measured.
//
// Threads: one at a time.

#pragma once

#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "fmt/format.h"

namespace coppice {

// How tables spell a cell: a figure with three decimals, anything else as fmt does.
template <typename Value>
std::string CellOf(const Value& value) {
  if constexpr (std::is_floating_point_v<Value>) {
    return fmt::format("{:.3f}", value);
  } else {
    return fmt::format("{}", value);
  }
}

class Table {
 public:
  // `file` must outlive the table.
  explicit Table(std::FILE* file) : file_(file) {}

  // May stand anywhere.
  void Comment(const std::string& text);

  // Names the columns, units included. Precedes the first row.
  void Columns(std::initializer_list<const char*> names);

  // Requires: as many cells as columns (checked).
  template <typename... Values>
  void Row(const Values&... values) {
    WriteRow({CellOf(values)...});
  }
  void WriteRow(const std::vector<std::string>& cells);

 private:
  std::FILE* file_;
  size_t column_count_ = 0;
};

}  // namespace coppice
