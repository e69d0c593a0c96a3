// Pads each cell to the widest of its column.

#include "tools/support/text_table.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/plural.h"

namespace coppice {

void TextTable::Add(std::vector<std::string> cells) {
  COPPICE_CHECK(cells.size() == alignment_.size(), "a row must have one cell per column");
  rows_.push_back(std::move(cells));
}

std::string TextTable::Format() const {
  std::vector<size_t> widths(alignment_.size());
  for (const std::vector<std::string>& row : rows_)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  ";
      line += alignment_[i] == 'r' ? fmt::format("{:>{}}", row[i], widths[i])
                                   : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

double Percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string Grouped(int64_t number) {
  std::string text = fmt::format("{}", number);
  const ptrdiff_t first = number < 0 ? 1 : 0;
  for (ptrdiff_t at = std::ssize(text) - 3; at > first; at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::string Counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", Grouped(count), what, PluralEnding(count));
}

}  // namespace coppice
