// Goal: a canonical text is taken and every other one refused, and values know their place. Method:
// short texts; random values, written as Python writes them.

#include "base/json_document.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

absl::Status StatusOfText(const std::string& text, const JsonLimits& limits = {}) {
  return JsonDocument::Parse(text, "test.json", limits).status();
}

TEST(JsonDocumentTest, TakesCanonicalTexts) {
  for (const char* const text :
       {"{}", "[]", "null", "true", "false", "0", "-1", "9223372036854775807",
        "-9223372036854775808", "\"\"", R"("\"\\\b\f\n\r\t\u0001\u007f\u00e9\ud83d\ude00/")",
        R"({"":[],"A":{"b":[1,2,{}]},"a":null,"\u00e9":-3})"})
    EXPECT_OK(StatusOfText(text)) << text;
}

TEST(JsonDocumentTest, RefusesTextsThatAreNotCanonical) {
  for (const char* const text : {"",
                                 " {}",
                                 "{} ",
                                 "{}\n",
                                 "[1, 2]",
                                 "[1 ,2]",
                                 "{\"a\": 1}",
                                 "{\"b\":1,\"a\":2}",
                                 "{\"a\":1,\"a\":1}",
                                 "-0",
                                 "01",
                                 "1.0",
                                 "1e3",
                                 "9223372036854775808",
                                 "-9223372036854775809",
                                 "\"\\/\"",
                                 "\"\\u0041\"",
                                 "\"\\u00E9\"",
                                 "\"\xc3\xa9\"",
                                 "\"\\u000a\"",
                                 "\"\x7f\"",
                                 "[1,]",
                                 "{,}",
                                 "nul",
                                 "\xef\xbb\xbf{}",
                                 "\"\xff\"",
                                 "\"\\ud800\"",
                                 "{}{}",
                                 "NaN",
                                 "'a'",
                                 "/**/{}"}) {
    const absl::Status status = StatusOfText(text);
    EXPECT_THAT(status, StatusIs(kWrongArgument)) << text;
    EXPECT_THAT(MessageOf(status), HasSubstr("test.json: ")) << text;
  }
}

TEST(JsonDocumentTest, ErrorsSayTheOffset) {
  EXPECT_THAT(MessageOf(StatusOfText("[1,2, 3]")), HasSubstr("offset 5"));
  EXPECT_THAT(MessageOf(StatusOfText("{\"a\":1,\"a\":2}")), HasSubstr("offset 6"));
}

TEST(JsonDocumentTest, TakesAnyLayoutWhereItNeedNotBeCanonical) {
  const JsonLimits any{.canonical = false};
  EXPECT_OK(StatusOfText(" { \"b\" : [ 1 , 2 ] ,\n\"a\" : \"\xc3\xa9\" } ", any));
  EXPECT_THAT(StatusOfText("{\"a\":1,\"b\":2,\"a\":1}", any), StatusIs(kWrongArgument));
  EXPECT_THAT(StatusOfText("[1.5]", any), StatusIs(kWrongArgument));
  EXPECT_THAT(StatusOfText("[1] 2", any), StatusIs(kWrongArgument));
}

TEST(JsonDocumentTest, NestingAndValuesAreLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_OK(StatusOfText(nested(32)));
  EXPECT_THAT(StatusOfText(nested(33)), StatusIs(kWrongArgument));
  EXPECT_OK(StatusOfText("[1,2]", {.values_max = 3}));
  EXPECT_THAT(StatusOfText("[1,2,3]", {.values_max = 3}), StatusIs(kWrongArgument));
}

TEST(JsonDocumentTest, ValuesAreFoundByNameAndInOrder) {
  const std::string text = R"({"a":[10,{"x":1},"t"],"b":{"c":true},"d":"q\n"})";
  COPPICE_ASSERT_OK_AND_ASSIGN(const JsonDocument document,
                               JsonDocument::Parse(text, "test.json", {}));
  const Json root = document.root();
  EXPECT_EQ(root.size(), 3);
  EXPECT_FALSE(root["none"].present());
  EXPECT_FALSE(root["a"]["x"].present());
  EXPECT_TRUE(root["b"]["c"].boolean());
  EXPECT_EQ(root["d"].text(), "q\n");
  std::string shown;
  for (const Json value : root["a"])
    shown += value.Show() + value.Pointer() + " ";
  EXPECT_EQ(shown, "10/a/0 an object of size 1/a/1 \"t\"/a/2 ");
  EXPECT_EQ(root["d"].offset(), text.find("\"q"));
}

TEST(JsonDocumentTest, PointersEscapeNames) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const JsonDocument document,
                               JsonDocument::Parse(R"({"a/b":{"~":[0,[5]]}})", "test.json", {}));
  Json inner = document.root()["a/b"]["~"];
  inner = *++inner.begin();
  EXPECT_EQ((*inner.begin()).Pointer(), "/a~1b/~0/1/0");
  EXPECT_THAT(MessageOf(inner.Error("wrong")), HasSubstr("test.json: /a~1b/~0/1: wrong"));
}

TEST(JsonDocumentTest, LongTextsAreCutInMessages) {
  EXPECT_EQ(QuoteText("abc", 3), "\"abc\"");
  EXPECT_EQ(QuoteText("abcd", 3), "\"abc...\"");
  EXPECT_EQ(QuoteText("\n\x01", 3), "\"\\n\\u0001\"");
}

}  // namespace
}  // namespace coppice
