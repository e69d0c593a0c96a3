// Goal: every sentence of dynamic_axes.h. Method: the header's picture, and each bad entry.

#include "coppice/graphs/dynamic_axes.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

std::vector<DynamicAxis> Parsed(const std::string& text) {
  const absl::StatusOr<std::vector<DynamicAxis>> axes = ParseDynamicAxes(text);
  EXPECT_OK(axes);
  return axes.ok() ? *axes : std::vector<DynamicAxis>();
}

// The entry of a text that has one.
DynamicAxis One(const std::string& text) {
  const std::vector<DynamicAxis> axes = Parsed(text);
  EXPECT_EQ(axes.size(), 1u);
  return axes.empty() ? DynamicAxis() : axes[0];
}

TEST(DynamicAxesTest, ReadsEntriesInTheirOrder) {
  EXPECT_THAT(Parsed("x:0"), ElementsAre(DynamicAxis{"x", 0}));
  EXPECT_THAT(Parsed("x:0,kv*:1"), ElementsAre(DynamicAxis{"x", 0}, DynamicAxis{"kv*", 1}));
  EXPECT_THAT(Parsed("x:3,x:2,x:3"),
              ElementsAre(DynamicAxis{"x", 3}, DynamicAxis{"x", 2}, DynamicAxis{"x", 3}));
}

TEST(DynamicAxesTest, SpacesAroundAnEntryDoNotCount) {
  EXPECT_THAT(Parsed(" x:0 ,\tkv *:1 "), ElementsAre(DynamicAxis{"x", 0}, DynamicAxis{"kv *", 1}));
}

TEST(DynamicAxesTest, TheAxisFollowsTheLastColon) {
  const DynamicAxis axis = One("*:v:1");
  EXPECT_EQ(axis.pattern, "*:v");
  EXPECT_TRUE(axis.Matches("q:v"));
}

TEST(DynamicAxesTest, AnEmptyTextHasNoEntries) {
  EXPECT_THAT(Parsed(""), IsEmpty());
  EXPECT_THAT(Parsed(" \t "), IsEmpty());
}

TEST(DynamicAxesTest, PatternsMatchWholeNames) {
  EXPECT_TRUE(One("x:0").Matches("x"));
  EXPECT_FALSE(One("x:0").Matches("xs"));
  EXPECT_FALSE(One("x:0").Matches("ax"));
  EXPECT_FALSE(One("x:0").Matches("X"));
  EXPECT_FALSE(One("x:0").Matches(""));
  EXPECT_TRUE(One("kv*:1").Matches("kv"));
  EXPECT_TRUE(One("kv*:1").Matches("kv_cache.3"));
  EXPECT_FALSE(One("kv*:1").Matches("my_kv"));
}

TEST(DynamicAxesTest, AStarIsAnyCharactersAndAllElseIsItself) {
  EXPECT_TRUE(One("*:0").Matches(""));
  EXPECT_TRUE(One("**:0").Matches("x"));
  EXPECT_TRUE(One("layer.*.k[0]:0").Matches("layer.12.k[0]"));
  EXPECT_FALSE(One("layer.*.k[0]:0").Matches("layer_12.k[0]"));
  EXPECT_FALSE(One("layer.*.k[0]:0").Matches("layer.12.k[0]s"));
  EXPECT_TRUE(One("a*b*c:0").Matches("abbcabc"));
  EXPECT_FALSE(One("a*b*c:0").Matches("acb"));
  EXPECT_FALSE(One("(q|k):0").Matches("q"));
  EXPECT_TRUE(One("(q|k):0").Matches("(q|k)"));
}

TEST(DynamicAxesTest, LongNamesAndPatternsAreMatchedInPlace) {
  const std::string name(100'000, 'a');
  EXPECT_TRUE(One("*:0").Matches(name));
  EXPECT_FALSE(One("*a*a*a*a*b:0").Matches(name));
  EXPECT_TRUE(One(std::string(100'000, '*') + ":0").Matches(name));
  EXPECT_FALSE(One(std::string(100'000, '(') + ":0").Matches(name));
}

TEST(DynamicAxesTest, RefusesBadEntriesAndQuotesThem) {
  struct Bad {
    const char* text;
    const char* entry;
    const char* reason;
  };
  for (const Bad& bad : {
           Bad{"x", "x", "no ':' with an axis"},
           Bad{"x:0,y", "y", "no ':' with an axis"},
           Bad{"x:0,", "", "no ':' with an axis"},
           Bad{",x:0", "", "no ':' with an axis"},
           Bad{"x:0,,y:0", "", "no ':' with an axis"},
           Bad{"kv{1,2}:0", "kv{1", "no ':' with an axis"},
           Bad{":0", ":0", "no pattern"},
           Bad{"x:", "x:", "axis \"\" is not an integer in [0, 7]"},
           Bad{"x:8", "x:8", "axis \"8\" is not an integer in [0, 7]"},
           Bad{"x:-1", "x:-1", "axis \"-1\" is not an integer"},
           Bad{"x:+1", "x:+1", "axis \"+1\" is not an integer"},
           Bad{"x: 1", "x: 1", "axis \" 1\" is not an integer"},
           Bad{"x:1y", "x:1y", "axis \"1y\" is not an integer"},
           Bad{"x:99999999999", "x:99999999999", "is not an integer"},
       }) {
    const absl::StatusOr<std::vector<DynamicAxis>> axes = ParseDynamicAxes(bad.text);
    ASSERT_THAT(axes, StatusIs(kWrongArgument)) << bad.text;
    const std::string message = MessageOf(axes.status());
    EXPECT_THAT(message, HasSubstr(fmt::format("\"{}\"", bad.text)));
    EXPECT_THAT(message, HasSubstr(fmt::format("entry \"{}\"", bad.entry)));
    EXPECT_THAT(message, HasSubstr(bad.reason));
  }
}

}  // namespace
}  // namespace coppice
