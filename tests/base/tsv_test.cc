// Goal: a table is read as tsv.h says, and a wrong one is refused with its name and line. Method:
// tables of a few lines.

#include "coppice/base/tsv.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

constexpr std::string_view kColumns = "name\tcount";

TEST(TsvTest, RowsAreTheFieldsBetweenTabs) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<TsvRow> rows,
                               ParseTsv("name\tcount\na\t1\nb c\t\n", "t", kColumns));
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_THAT(rows[0].fields, ElementsAre("a", "1"));
  EXPECT_THAT(rows[1].fields, ElementsAre("b c", ""));
}

TEST(TsvTest, CommentsAndEmptyLinesCountAsLinesAndAreNoRows) {
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const std::vector<TsvRow> rows,
      ParseTsv("# About.\n\nname\tcount\n# More.\na\t1\n\nb\t2", "t", kColumns));
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].line, 5);
  EXPECT_EQ(rows[1].line, 7);
}

TEST(TsvTest, RowsPointIntoTheText) {
  const std::string_view text = "name\tcount\na\t1\n";
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<TsvRow> rows, ParseTsv(text, "t", kColumns));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].fields[0].data(), text.data() + text.find("a\t1"));
}

// The message of the error with which `text` is refused.
std::string RefusalOf(std::string_view text) {
  const auto rows = ParseTsv(text, "t.tsv", kColumns);
  EXPECT_THAT(rows, StatusIs(kWrongArgument));
  return MessageOf(rows.status());
}

TEST(TsvTest, RefusesOtherColumnsWithNameAndLine) {
  EXPECT_THAT(RefusalOf("# About.\ncount\tname\n"), HasSubstr("t.tsv:2"));
  EXPECT_THAT(RefusalOf("# About.\n"), HasSubstr("t.tsv:"));
}

TEST(TsvTest, RefusesARowWithoutAsManyFields) {
  for (const char* const row : {"a", "a\t1\t2"})
    EXPECT_THAT(RefusalOf(std::string("name\tcount\nb\t2\n") + row), HasSubstr("t.tsv:3"));
}

}  // namespace
}  // namespace coppice
