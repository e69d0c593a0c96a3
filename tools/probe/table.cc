// Writes a table line by line.

#include "tools/probe/table.h"

#include "fmt/ranges.h"

#include "coppice/base/check.h"

#include "tools/support/console.h"

namespace coppice {

void Table::Comment(const std::string& text) {
  Print(file_, "# {}\n", text);
}

void Table::Columns(std::initializer_list<const char*> names) {
  column_count_ = names.size();
  Print(file_, "{}\n", fmt::join(names, "\t"));
}

void Table::WriteRow(const std::vector<std::string>& cells) {
  COPPICE_CHECK(cells.size() == column_count_, "a row has one cell per column");
  Print(file_, "{}\n", fmt::join(cells, "\t"));
  std::fflush(file_);
}

}  // namespace coppice
