// Columns of text that line up, for people.
//
// Threads: one at a time per table.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coppice {

class TextTable {
 public:
  // One letter of `alignment` per column: l or r. `titles` may be empty: no first line of titles.
  TextTable(std::string_view alignment, const std::vector<std::string>& titles)
      : alignment_(alignment) {
    if (!titles.empty()) Add(titles);
  }

  // Requires: a cell per column (checked).
  void Add(std::vector<std::string> cells);

  // Lines that begin with two spaces and end in a newline.
  std::string Format() const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

// 100 x part / whole; 0 of nothing.
double Percent(int64_t part, int64_t whole);

// "1,234,567".
std::string Grouped(int64_t number);

// As Plural, with the digits of reports: "1 call", "2,000 calls".
std::string Counted(int64_t count, std::string_view what);

}  // namespace coppice
