// Goal: what is UTF-8 is told from what is not, sequence by sequence. Method: every boundary of the
// table of well-formed sequences, from both sides.

#include "coppice/base/utf8.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

using std::string_view_literals::operator""sv;

TEST(Utf8Test, SequencesHaveOneToFourBytes) {
  EXPECT_EQ(Utf8SequenceLength("\0"sv), 1U);
  EXPECT_EQ(Utf8SequenceLength("\x7F"), 1U);
  EXPECT_EQ(Utf8SequenceLength("\xC2\x80"), 2U);
  EXPECT_EQ(Utf8SequenceLength("\xDF\xBF"), 2U);
  EXPECT_EQ(Utf8SequenceLength("\xE0\xA0\x80"), 3U);
  EXPECT_EQ(Utf8SequenceLength("\xED\x9F\xBF"), 3U);
  EXPECT_EQ(Utf8SequenceLength("\xEF\xBF\xBF"), 3U);
  EXPECT_EQ(Utf8SequenceLength("\xF0\x90\x80\x80"), 4U);
  EXPECT_EQ(Utf8SequenceLength("\xF4\x8F\xBF\xBF"), 4U);
}

TEST(Utf8Test, OnlyTheFirstOfATextCounts) {
  EXPECT_EQ(Utf8SequenceLength("a\xFF"), 1U);
  EXPECT_EQ(Utf8SequenceLength("\xC2\x80\xFF"), 2U);
}

TEST(Utf8Test, WhatIsNoneHasNoLength) {
  for (const std::string_view wrong :
       {""sv, "\x80"sv, "\xBF"sv, "\xC0\x80"sv, "\xC1\xBF"sv, "\xC2"sv, "\xC2\x7F"sv, "\xC2\xC0"sv,
        "\xE0\x9F\xBF"sv, "\xED\xA0\x80"sv, "\xE1\x80"sv, "\xF0\x8F\xBF\xBF"sv,
        "\xF4\x90\x80\x80"sv, "\xF5\x80\x80\x80"sv, "\xF1\x80\x80"sv, "\xFF"sv})
    EXPECT_EQ(Utf8SequenceLength(wrong), 0U) << wrong;
}

}  // namespace
}  // namespace coppice
