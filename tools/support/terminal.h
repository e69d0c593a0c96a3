// Lines in styles, and a block of them that is drawn again in its place on a terminal.
//
// What is drawn leaves nothing to restore: no mode of the terminal is changed, the cursor stands
// below the block, and every line ends in the terminal's own style. Texts may be anything: what is
// not printable (printable.h) becomes `?`.
//
// Units: columns and rows. Threads: plain values.

#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace coppice {

enum class TextStyle : uint8_t { kPlain, kTitle, kQuiet, kGood, kWarning, kBad };

// Columns that printable text takes at most: two for what may be wide.
int64_t ColumnsOf(std::string_view printable);

// The beginning of printable text that takes `columns` at most; ends in ".." if it was cut.
std::string CutTo(std::string_view printable, int64_t columns);

// `text` in lines of `columns` at most, cut between words where possible.
std::vector<std::string> WrapText(std::string_view text, int64_t columns);

class StyledLine {
 public:
  StyledLine() = default;
  explicit StyledLine(std::string_view text, TextStyle style = TextStyle::kPlain) {
    Add(text, style);
  }

  StyledLine& Add(std::string_view text, TextStyle style = TextStyle::kPlain);
  // The same in `columns`, filled with spaces behind it, or before it; text that is longer is cut.
  StyledLine& AddLeft(std::string_view text, int64_t columns, TextStyle style = TextStyle::kPlain);
  StyledLine& AddRight(std::string_view text, int64_t columns, TextStyle style = TextStyle::kPlain);

  int64_t columns() const { return columns_; }

  // Without a newline, cut to `columns`.
  std::string Text(int64_t columns, bool coloured) const;

 private:
  struct Piece {
    std::string text;  // Printable.
    TextStyle style = TextStyle::kPlain;
  };

  std::vector<Piece> pieces_;
  int64_t columns_ = 0;
};

struct Terminal {
  bool there = false;  // False: a file, a pipe, or a terminal on which nothing can be drawn again.
  bool coloured = false;
  int64_t columns = 80;
  int64_t rows = 24;

  friend bool operator==(const Terminal&, const Terminal&) = default;
};

// Whether people read what is written to `stream`, on a terminal of any kind.
bool IsTerminal(std::FILE* stream);

// What `stream` leads to. Its terminal has colours unless NO_COLOR is set and not empty or TERM is
// "dumb".
Terminal TerminalOf(std::FILE* stream);

class RepaintedBlock {
 public:
  // What to write so that `lines` are seen in place of those before, as many as there is room for.
  // Where there is no terminal blocks follow each other with an empty line between.
  std::string Paint(const std::vector<StyledLine>& lines, const Terminal& terminal);

  // What is there stays, and the next block is drawn below.
  void Keep() { drawn_ = 0; }

 private:
  Terminal terminal_;
  int64_t drawn_ = 0;  // Lines above the cursor.
  bool first_ = true;
};

}  // namespace coppice
