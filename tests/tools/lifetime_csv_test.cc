// Goal: a table of lifetimes becomes the buffers that it says, is written back with offsets, and
// every bad input gets one line with file and line. Method: small texts.

#include "tools/plan/lifetime_csv.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

LifetimeTable TableOf(const std::string& text) {
  auto table = ParseLifetimes(text, "t.csv");
  EXPECT_THAT(table, IsOk()) << text;
  return table.ok() ? *std::move(table) : LifetimeTable();
}

TEST(LifetimeCsvTest, ReadsOneBufferPerRow) {
  const LifetimeTable table = TableOf("id,lower,upper,size\nb1,0,3,4\nb2,3,9,512\n");
  EXPECT_THAT(table.ids, ElementsAre("b1", "b2"));
  EXPECT_THAT(table.lines, ElementsAre(2, 3));
  ASSERT_EQ(table.buffers.size(), 2U);
  EXPECT_THAT(table.buffers[1].lifetime, ElementsAre(Interval{.lower = 3, .upper = 9}));
  EXPECT_EQ(table.buffers[1].bytes, 512);
  EXPECT_EQ(table.buffers[1].alignment, 1);
  EXPECT_FALSE(table.buffers[1].fixed_offset);
}

TEST(LifetimeCsvTest, FindsColumnsByNameInAnyOrder) {
  const LifetimeTable table = TableOf("size,offset,upper,alignment,lower,id\n4,16,3,8,1,a\n");
  EXPECT_THAT(table.buffers[0].lifetime, ElementsAre(Interval{.lower = 1, .upper = 3}));
  EXPECT_EQ(table.buffers[0].bytes, 4);
  EXPECT_EQ(table.buffers[0].alignment, 8);
  EXPECT_EQ(table.buffers[0].fixed_offset, 16);
}

TEST(LifetimeCsvTest, KnowsTheOtherNamesOfColumns) {
  for (const char* id : {"id", "buffer", "buffer_id"}) {
    for (const char* lower : {"lower", "begin", "start"}) {
      const LifetimeTable table = TableOf(fmt::format("{},{},upper,size\na,1,3,4\n", id, lower));
      EXPECT_THAT(table.buffers[0].lifetime, ElementsAre(Interval{.lower = 1, .upper = 3}));
    }
  }
}

TEST(LifetimeCsvTest, EndNamesTheLastStepOfLifetimesAndGaps) {
  const LifetimeTable table = TableOf("id,start,end,size,gaps\na,0,9,4,3-5\n");
  EXPECT_THAT(table.buffers[0].lifetime,
              ElementsAre(Interval{.lower = 0, .upper = 3}, Interval{.lower = 6, .upper = 10}));
}

TEST(LifetimeCsvTest, GapsCutTheLifetimeInAnyOrder) {
  const LifetimeTable table = TableOf("id,lower,upper,size,gaps\na,0,20,4,8-9 3-5\nb,0,2,1,\n");
  EXPECT_THAT(table.buffers[0].lifetime,
              ElementsAre(Interval{.lower = 0, .upper = 3}, Interval{.lower = 5, .upper = 8},
                          Interval{.lower = 9, .upper = 20}));
  EXPECT_THAT(table.buffers[1].lifetime, ElementsAre(Interval{.lower = 0, .upper = 2}));
}

TEST(LifetimeCsvTest, GapsAtTheEndsShortenTheLifetimeAndAdjacentOnesJoin) {
  const LifetimeTable table = TableOf("id,lower,upper,size,gaps\na,2,20,4,2-5 5-6 18-20\n");
  EXPECT_THAT(table.buffers[0].lifetime, ElementsAre(Interval{.lower = 6, .upper = 18}));
}

TEST(LifetimeCsvTest, AGapThatKeepsSomeBytesCountsAsUse) {
  const LifetimeTable table = TableOf("id,lower,upper,size,gaps\na,0,20,4,3-5@0:2 8-9\n");
  EXPECT_EQ(table.partial_gaps, 1);
  EXPECT_THAT(table.buffers[0].lifetime,
              ElementsAre(Interval{.lower = 0, .upper = 8}, Interval{.lower = 9, .upper = 20}));
}

TEST(LifetimeCsvTest, AnEmptyOffsetLeavesTheBufferFree) {
  const LifetimeTable table = TableOf("id,lower,upper,size,offset\na,0,2,4,\nb,0,2,4,0\n");
  EXPECT_FALSE(table.buffers[0].fixed_offset);
  EXPECT_EQ(table.buffers[1].fixed_offset, 0);
}

TEST(LifetimeCsvTest, AcceptsCrLfBlanksAByteOrderMarkAndAMissingLastNewline) {
  const LifetimeTable table = TableOf("\xef\xbb\xbfid, lower ,upper,size\r\na, 1,3\t,4\r\nb,1,3,4");
  EXPECT_THAT(table.ids, ElementsAre("a", "b"));
  EXPECT_EQ(table.buffers[0].bytes, 4);
}

TEST(LifetimeCsvTest, AcceptsBlankLinesAtTheEnd) {
  EXPECT_EQ(TableOf("id,lower,upper,size\na,1,3,4\n\n").rows.size(), 1U);
  EXPECT_EQ(TableOf("id,lower,upper,size\r\na,1,3,4\r\n\r\n\r\n").rows.size(), 1U);
}

TEST(LifetimeCsvTest, AcceptsTheLargestNumbers) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const LifetimeTable table =
      TableOf(fmt::format("id,lower,upper,size\na,0,{},{}\n", most - 1, most - 1));
  EXPECT_EQ(table.buffers[0].lifetime[0].upper, most - 1);
  EXPECT_EQ(table.buffers[0].bytes, most - 1);
}

TEST(LifetimeCsvTest, BuffersAreWellFormed) {
  const LifetimeTable table = TableOf(
      "id,lower,upper,size,alignment,gaps,offset\n"
      "a,0,20,4,8,3-5,16\nb,0,1,1,1,,\nc,9,20,7,64,,0\n");
  EXPECT_THAT(ValidateBuffers(table.buffers), IsOk());
}

TEST(LifetimeCsvTest, WritesRowsBackWithAnOffsetAtTheEnd) {
  const LifetimeTable table = TableOf("size,id,lower,upper,out\n4,a,0,3,1\n5,b,0,3,0\n");
  EXPECT_EQ(FormatOffsets(table, {.offsets = {5, 0}, .height = 9}),
            "size,id,lower,upper,out,offset\n4,a,0,3,1,5\n5,b,0,3,0,0\n");
}

TEST(LifetimeCsvTest, ReplacesAnOffsetThatWasRead) {
  const LifetimeTable table = TableOf("id,offset,lower,upper,size\na,,0,3,4\nb,8,0,3,4\n");
  EXPECT_EQ(FormatOffsets(table, {.offsets = {0, 8}, .height = 12}),
            "id,lower,upper,size,offset\na,0,3,4,0\nb,0,3,4,8\n");
}

struct BadTable {
  const char* name;
  std::string text;
  int line;
  const char* what;
};

void PrintTo(const BadTable& bad, std::ostream* out) {
  *out << bad.name;
}

class BadTableTest : public testing::TestWithParam<BadTable> {};

TEST_P(BadTableTest, GetsOneLine) {
  const auto table = ParseLifetimes(GetParam().text, "t.csv");
  ASSERT_THAT(table, StatusIs(absl::StatusCode::kInvalidArgument));
  const std::string message = MessageOf(table.status());
  EXPECT_THAT(message, StartsWith(fmt::format("t.csv:{}: ", GetParam().line)));
  EXPECT_THAT(message, HasSubstr(GetParam().what));
  EXPECT_THAT(message, HasSubstr("; "));
  EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) {
    return c >= ' ' && c <= '~';
  })) << message;
}

std::string Row(const std::string& row) {
  return "id,lower,upper,size\na,0,1,1\n" + row + "\n";
}

// A row with gaps, alignment and offset.
std::string Wide(const std::string& fields) {
  return "id,lower,upper,size,gaps,alignment,offset\na,2,20,4," + fields + "\n";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    BadTableTest,
    testing::Values(BadTable{"empty", "", 1, "the file is empty"},
                    BadTable{"blank", "\n", 1, "has no column id"},
                    BadTable{"no_header", "b1,0,3,4\n", 1, "has no column id"},
                    BadTable{"no_size", "id,lower,upper\na,0,1\n", 1, "has no column size"},
                    BadTable{"no_upper", "id,lower,size\na,0,1\n", 1, "has no column upper"},
                    BadTable{"twice", "id,lower,upper,size,id\na,0,1,1,a\n", 1, "column id twice"},
                    BadTable{"two_names", "id,lower,upper,size,start\na,0,1,1,0\n", 1,
                             "the column lower twice, the second time as 'start'"},
                    BadTable{"no_rows", "id,lower,upper,size\n", 1, "no rows"},
                    BadTable{"short_row", Row("b,0,1"), 3, "3 fields, but the header has 4"},
                    BadTable{"long_row", Row("b,0,1,1,1"), 3, "5 fields, but the header has 4"},
                    BadTable{"blank_row", Row("\nb,0,1,1"), 3, "the row has 0 fields"},
                    BadTable{"no_id", Row(",0,1,1"), 3, "id is empty"},
                    BadTable{"same_id", Row("a,0,1,1"), 3, "'a' is already used in line 2"},
                    BadTable{"word", Row("b,zero,1,1"), 3, "lower is 'zero', not a whole number"},
                    BadTable{"fraction", Row("b,0,1.5,1"), 3, "upper is '1.5', not a whole number"},
                    BadTable{"plus", Row("b,0,1,+1"), 3, "size is '+1', not a whole number"},
                    BadTable{"no_number", Row("b,0,,1"), 3, "upper is '', not a whole number"},
                    BadTable{"negative_step", Row("b,-1,1,1"), 3, "lower is '-1'"},
                    BadTable{"negative_size", Row("b,0,1,-5"), 3, "size is '-5'"},
                    BadTable{"no_bytes", Row("b,0,1,0"), 3, "size is '0'"},
                    BadTable{"huge", Row("b,0,1,9223372036854775808"), 3, "from 1 to 2^63 - 1"},
                    BadTable{"endless", Row("b,0,9223372036854775807,1"), 3, "give a smaller step"},
                    BadTable{"never", Row("b,4,4,1"), 3, "is empty"},
                    BadTable{"backwards", Row("b,5,4,1"), 3, "is empty"},
                    BadTable{"sum", Row("b,0,1,9223372036854775807"), 3, "add up to more than"},
                    BadTable{"alignment_sum", Wide(",4611686018427387904,4611686018427387904"), 2,
                             "add up to more than"},
                    BadTable{"alignment", Wide(",12,"), 2, "alignment is 12"},
                    BadTable{"no_alignment", Wide(",0,"), 2, "alignment is '0'"},
                    BadTable{"crooked_offset", Wide(",8,12"), 2, "offset 12 is not a multiple"},
                    BadTable{"negative_offset", Wide(",8,-8"), 2, "offset is '-8'"},
                    BadTable{"gap_word", Wide("3,8,"), 2, "the gap '3' is not a pair of steps"},
                    BadTable{"gap_empty", Wide("5-5,8,"), 2, "'5-5' is empty, or outside"},
                    BadTable{"gap_before", Wide("1-5,8,"), 2, "'1-5' is empty, or outside"},
                    BadTable{"gap_after", Wide("5-21,8,"), 2, "'5-21' is empty, or outside"},
                    BadTable{"gaps_overlap", Wide("3-6 5-8,8,"), 2, "two gaps share step 5"},
                    BadTable{"gap_over_all", Wide("2-20,8,"), 2, "cover the whole lifetime"},
                    BadTable{"gap_window", Wide("3-6@5,8,"), 2, "which bytes stay in use"},
                    BadTable{"gap_window_word", Wide("3-6@5:x,8,"), 2, "'x', not a whole number"},
                    BadTable{"nul", Row(std::string("b,0\0,1,1", 8)), 3, "NUL byte"},
                    BadTable{"binary", Row("b,0,\x7f\x01\xff,1"), 3, "'\\x7f\\x01\\xff'"},
                    BadTable{"long_word", Row("b,0," + std::string(500, 'a') + ",1"), 3,
                             "aaa...'"}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(LifetimeCsvTest, RefusesPathsThatAreNoFile) {
  EXPECT_THAT(ReadLifetimes(testing::TempDir()), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace coppice
