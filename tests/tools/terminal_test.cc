// Goal: lines are as wide as they say, whatever is in them, and a block leaves nothing behind on
// the terminal. Method: exact texts.

#include "tools/support/terminal.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/tools/text_stream.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TerminalTest, ColumnsOfWideCharactersAreTwo) {
  EXPECT_EQ(ColumnsOf(""), 0);
  EXPECT_EQ(ColumnsOf("d\xC3\xA9j\xC3\xA0"), 4);
  EXPECT_EQ(ColumnsOf("\xE6\xBC\xA2"), 2);
}

TEST(TerminalTest, CutTextEndsInDotsWithinItsColumns) {
  EXPECT_EQ(CutTo("decode", 6), "decode");
  EXPECT_EQ(CutTo("decode", 5), "dec..");
  EXPECT_EQ(CutTo("decode", 2), "..");
  EXPECT_EQ(CutTo("decode", 1), ".");
  EXPECT_EQ(CutTo("decode", 0), "");
  EXPECT_EQ(CutTo("decode", -3), "");
  EXPECT_EQ(CutTo("\xE6\xBC\xA2\xE6\xBC\xA2", 3), "..");
}

TEST(TerminalTest, WrappedTextBreaksBetweenWords) {
  EXPECT_THAT(WrapText("", 10), IsEmpty());
  EXPECT_THAT(WrapText("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(WrapText("one", 10), ElementsAre("one"));
  EXPECT_THAT(WrapText("a long-word b", 5), ElementsAre("a", "lon..", "b"));
}

TEST(TerminalTest, LinesKeepTheirColumnsAndEndTheirStyles) {
  StyledLine line("title", TextStyle::kTitle);
  line.AddRight("12", 5).AddLeft(" x", 4, TextStyle::kBad);
  EXPECT_EQ(line.columns(), 14);
  EXPECT_EQ(line.Text(80, /*coloured=*/false), "title   12 x");
  EXPECT_EQ(line.Text(80, /*coloured=*/true), "\033[1mtitle\033[0m   12\033[31m x\033[0m");
  EXPECT_EQ(line.Text(9, /*coloured=*/false), "title   .");
  StyledLine narrow;
  narrow.AddLeft("decode", 4).AddRight("1234567", 4);
  EXPECT_EQ(narrow.Text(80, false), "de..12..");
}

std::vector<StyledLine> Numbered(int count) {
  std::vector<StyledLine> lines;
  for (int i = 0; i < count; ++i)
    lines.emplace_back(std::string(1, static_cast<char>('a' + i)));
  return lines;
}

TEST(TerminalTest, ABlockIsDrawnOverTheOneBefore) {
  RepaintedBlock block;
  const Terminal terminal = {.there = true, .columns = 40, .rows = 10};
  EXPECT_EQ(block.Paint(Numbered(2), terminal), "a\033[K\nb\033[K\n\033[J");
  EXPECT_EQ(block.Paint(Numbered(1), terminal), "\r\033[2Aa\033[K\n\033[J");
  block.Keep();
  EXPECT_EQ(block.Paint(Numbered(1), terminal), "a\033[K\n\033[J");
}

TEST(TerminalTest, ABlockThatIsTooHighIsCutAndASizeThatChangesClearsTheScreen) {
  RepaintedBlock block;
  EXPECT_EQ(block.Paint(Numbered(5), {.there = true, .columns = 40, .rows = 4}),
            "a\033[K\nb\033[K\n3 more lines; make the window taller\033[K\n\033[J");
  EXPECT_EQ(block.Paint(Numbered(1), {.there = true, .columns = 30, .rows = 4}),
            "\033[H\033[2Ja\033[K\n\033[J");
}

TEST(TerminalTest, WhereThereIsNoTerminalBlocksFollowEachOther) {
  const TextStream stream;
  EXPECT_FALSE(TerminalOf(stream.stream()).there);
  RepaintedBlock block;
  EXPECT_EQ(block.Paint(Numbered(2), {}), "a\nb\n");
  EXPECT_EQ(block.Paint(Numbered(1), {}), "\na\n");
}

}  // namespace
}  // namespace coppice
