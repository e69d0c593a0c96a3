// Goal: text becomes tokens and numbers as lexer.h says. Method: a few characters each.

#include "runtime/emulator/ptx/lexer.h"

#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coppice::ptx {
namespace {

using testing::ElementsAre;

std::vector<std::string> TextsOf(std::string_view text) {
  std::vector<std::string> texts;
  Lexer lexer(text);
  for (Token token = lexer.Next(); token.kind != Token::Kind::kEnd; token = lexer.Next())
    texts.emplace_back(token.text);
  return texts;
}

int LineOfLast(std::string_view text) {
  Lexer lexer(text);
  int line = 0;
  for (Token token = lexer.Next(); token.kind != Token::Kind::kEnd; token = lexer.Next())
    line = token.line;
  return line;
}

uint64_t BitsOf(std::string_view text, Number::Kind kind = Number::Kind::kInteger) {
  const auto number = ParseNumber(text);
  EXPECT_TRUE(number.has_value()) << text;
  EXPECT_EQ(number.value_or(Number{}).kind, kind) << text;
  return number.value_or(Number{}).bits;
}

TEST(LexerTest, WordsDirectivesNumbersAndMarksAreTokens) {
  EXPECT_THAT(TextsOf(".reg .b32 %r<7>;"), ElementsAre(".reg", ".b32", "%r", "<", "7", ">", ";"));
  EXPECT_THAT(TextsOf("[%rd1+-16]"), ElementsAre("[", "%rd1", "+", "-", "16", "]"));
  EXPECT_THAT(TextsOf("%tid.x"), ElementsAre("%tid", ".x"));
  EXPECT_THAT(TextsOf("p|q"), ElementsAre("p", "|", "q"));
}

TEST(LexerTest, CommentsAndLinesThatBeginWithAHashAreSkipped) {
  EXPECT_THAT(TextsOf("a // b\nc /* d\n e */ f"), ElementsAre("a", "c", "f"));
  EXPECT_THAT(TextsOf("# 1 \"a.cu\"\nb\n#c"), ElementsAre("b"));
  EXPECT_THAT(TextsOf("a /* never"), ElementsAre("a", "/", "*", "never"));
}

TEST(LexerTest, LinesCountFromOneThroughCommentsAndStrings) {
  EXPECT_EQ(LineOfLast("a"), 1);
  EXPECT_EQ(LineOfLast("/* \n\n */ a"), 3);
  EXPECT_EQ(LineOfLast("\"x\ny\" // z\na"), 3);
}

TEST(LexerTest, AStringIsWithoutItsQuotesUnlessItNeverEnds) {
  EXPECT_THAT(TextsOf("\"a b\" \"c"), ElementsAre("a b", "\"", "c"));
}

TEST(LexerTest, AnOpcodeIsOneTokenWithItsModifiers) {
  Lexer lexer("cp.async.bulk.tensor.2d.shared::cta.global [%r1]");
  EXPECT_EQ(lexer.WithModifiers(lexer.Next()).text, "cp.async.bulk.tensor.2d.shared::cta.global");
  EXPECT_EQ(lexer.Next().text, "[");
}

TEST(LexerTest, ALabelIsAWordAndAColon) {
  Lexer lexer("$L__BB0_1:.reg");
  EXPECT_EQ(lexer.WithModifiers(lexer.Next()).text, "$L__BB0_1");
  EXPECT_EQ(lexer.Next().text, ":");
}

TEST(LexerTest, IntegersHaveFourBases) {
  EXPECT_EQ(BitsOf("12"), 12u);
  EXPECT_EQ(BitsOf("12U"), 12u);
  EXPECT_EQ(BitsOf("0x1F"), 31u);
  EXPECT_EQ(BitsOf("0XfU"), 15u);
  EXPECT_EQ(BitsOf("017"), 15u);
  EXPECT_EQ(BitsOf("0b101"), 5u);
  EXPECT_EQ(BitsOf("0"), 0u);
  EXPECT_EQ(BitsOf("18446744073709551615"), ~uint64_t{0});
}

TEST(LexerTest, FloatsArePatternsOrDecimals) {
  EXPECT_EQ(BitsOf("0f3F800000", Number::Kind::kFloat32), 0x3f800000u);
  EXPECT_EQ(BitsOf("0dBFF0000000000000", Number::Kind::kFloat64), 0xbff0000000000000u);
  EXPECT_EQ(BitsOf("1.5e-3", Number::Kind::kFloat64), std::bit_cast<uint64_t>(1.5e-3));
  EXPECT_EQ(BitsOf("2.", Number::Kind::kFloat64), std::bit_cast<uint64_t>(2.0));
}

TEST(LexerTest, RefusesNumbersThatAreNone) {
  for (const char* text : {"18446744073709551616", "0f3F8", "0d1", "0b102", "0x", "09", "1x",
                           "1.2.3", "0f3F8000000", "1e", "12UU"})
    EXPECT_FALSE(ParseNumber(text).has_value()) << text;
}

TEST(LexerTest, ASignInsideADecimalIsItsOwn) {
  EXPECT_THAT(TextsOf("1e-3+2"), ElementsAre("1e-3", "+", "2"));
  EXPECT_THAT(TextsOf("0x1e-3"), ElementsAre("0x1e", "-", "3"));
  EXPECT_THAT(TextsOf("0f3F80000e-3"), ElementsAre("0f3F80000e", "-", "3"));
}

TEST(LexerTest, AnyBytesAreTokens) {
  std::string bytes;
  for (int c = 0; c < 256; ++c)
    bytes.push_back(static_cast<char>(c));
  EXPECT_FALSE(TextsOf(bytes).empty());
}

}  // namespace
}  // namespace coppice::ptx
