// Plain ANSI: up, erase to the end of the line, erase what is below, and eight colours.

#include "tools/support/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "fmt/format.h"
#include <sys/ioctl.h>

#include "tools/support/printable.h"

namespace coppice {
namespace {

// From Hangul on there are wide ones; better too little room is used than too much.
int64_t ColumnsOfCharacter(char32_t character) {
  return character < 0x1100 ? 1 : 2;
}

const char* CodeOf(TextStyle style) {
  switch (style) {
    case TextStyle::kPlain:
      return "";
    case TextStyle::kTitle:
      return "\033[1m";
    case TextStyle::kQuiet:
      return "\033[2m";
    case TextStyle::kGood:
      return "\033[32m";
    case TextStyle::kWarning:
      return "\033[33m";
    case TextStyle::kBad:
      return "\033[31m";
  }
  return "";
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

}  // namespace

int64_t ColumnsOf(std::string_view printable) {
  int64_t columns = 0;
  while (!printable.empty())
    columns += ColumnsOfCharacter(TakeCharacter(printable));
  return columns;
}

std::string CutTo(std::string_view printable, int64_t columns) {
  if (ColumnsOf(printable) <= columns) return std::string(printable);
  const std::string dots(static_cast<size_t>(std::clamp<int64_t>(columns, 0, 2)), '.');
  std::string_view rest = printable;
  for (int64_t left = columns - std::ssize(dots); !rest.empty();) {
    std::string_view behind = rest;
    left -= ColumnsOfCharacter(TakeCharacter(behind));
    if (left < 0) break;
    rest = behind;
  }
  return std::string(printable.substr(0, printable.size() - rest.size())) + dots;
}

std::vector<std::string> WrapText(std::string_view text, int64_t columns) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    const bool fits = !lines.empty() && ColumnsOf(lines.back()) + 1 + ColumnsOf(word) <= columns;
    if (fits) {
      lines.back() += " " + std::string(word);
    } else {
      lines.push_back(CutTo(word, columns));
    }
  }
  return lines;
}

StyledLine& StyledLine::Add(std::string_view text, TextStyle style) {
  pieces_.push_back({Printable(text), style});
  columns_ += ColumnsOf(pieces_.back().text);
  return *this;
}

StyledLine& StyledLine::AddLeft(std::string_view text, int64_t columns, TextStyle style) {
  const std::string cut = CutTo(Printable(text), columns);
  Add(cut, style);
  return Add(std::string(static_cast<size_t>(columns - ColumnsOf(cut)), ' '));
}

StyledLine& StyledLine::AddRight(std::string_view text, int64_t columns, TextStyle style) {
  const std::string cut = CutTo(Printable(text), columns);
  Add(std::string(static_cast<size_t>(columns - ColumnsOf(cut)), ' '));
  return Add(cut, style);
}

std::string StyledLine::Text(int64_t columns, bool coloured) const {
  std::string text;
  size_t end = 0;  // Behind the last piece that is not all spaces.
  for (const Piece& piece : pieces_) {
    const std::string cut = CutTo(piece.text, columns);
    columns -= ColumnsOf(cut);
    const std::string_view code = coloured && !cut.empty() ? CodeOf(piece.style) : "";
    text.append(code).append(cut).append(code.empty() ? "" : "\033[0m");
    if (cut.find_first_not_of(' ') != std::string::npos) end = text.size();
  }
  text.resize(end);
  return text;
}

bool IsTerminal(std::FILE* stream) {
  const int file = fileno(stream);
  return file >= 0 && isatty(file) != 0;
}

Terminal TerminalOf(std::FILE* stream) {
  Terminal terminal;
  if (!IsTerminal(stream)) return terminal;
  const std::string kind = Variable("TERM");
  terminal.there = kind != "dumb";
  terminal.coloured = terminal.there && Variable("NO_COLOR").empty();
  struct winsize size {};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    terminal.columns = size.ws_col;
    terminal.rows = size.ws_row;
  }
  return terminal;
}

std::string RepaintedBlock::Paint(const std::vector<StyledLine>& lines, const Terminal& terminal) {
  std::string text;
  if (!terminal.there) {
    if (!first_) text += "\n";
    first_ = false;
    for (const StyledLine& line : lines)
      text += line.Text(terminal.columns, terminal.coloured) + "\n";
    return text;
  }
  // Lines that a change of the size has folded take nobody knows how many rows.
  if (drawn_ > 0 && !(terminal == terminal_)) text += "\033[H\033[2J";
  if (drawn_ > 0 && terminal == terminal_) text += fmt::format("\r\033[{}A", drawn_);
  terminal_ = terminal;
  // The cursor takes the last row. In the last column it would stand on what was written there, and
  // erasing what is behind it would take that.
  const int64_t columns = std::max<int64_t>(terminal.columns - 1, 1);
  const int64_t room = std::max<int64_t>(terminal.rows - 1, 1);
  const int64_t shown = std::ssize(lines) <= room ? std::ssize(lines) : room - 1;
  for (int64_t i = 0; i < shown; ++i)
    text += lines[static_cast<size_t>(i)].Text(columns, terminal.coloured) + "\033[K\n";
  drawn_ = shown;
  if (shown < std::ssize(lines)) {
    const StyledLine more(
        fmt::format("{} more lines; make the window taller", std::ssize(lines) - shown),
        TextStyle::kQuiet);
    text += more.Text(columns, terminal.coloured) + "\033[K\n";
    ++drawn_;
  }
  return text + "\033[J";
}

}  // namespace coppice
