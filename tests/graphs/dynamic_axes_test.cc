// Goal: every sentence of dynamic_axes.h. Method: the header's picture, and each bad entry.

#include "coppice/graphs/dynamic_axes.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_THAT(Parsed("x:0,kv.*:1"), ElementsAre(DynamicAxis{"x", 0}, DynamicAxis{"kv.*", 1}));
  EXPECT_THAT(Parsed("x:3,x:2,x:3"),
              ElementsAre(DynamicAxis{"x", 3}, DynamicAxis{"x", 2}, DynamicAxis{"x", 3}));
}

TEST(DynamicAxesTest, SpacesAroundAnEntryDoNotCount) {
  EXPECT_THAT(Parsed(" x:0 ,\tkv .*:1 "),
              ElementsAre(DynamicAxis{"x", 0}, DynamicAxis{"kv .*", 1}));
}

TEST(DynamicAxesTest, TheAxisFollowsTheLastColon) {
  const DynamicAxis axis = One("(?:q|k):v:1");
  EXPECT_EQ(axis.pattern, "(?:q|k):v");
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
  EXPECT_TRUE(One("kv.*:1").Matches("kv"));
  EXPECT_TRUE(One("kv.*:1").Matches("kv_cache.3"));
  EXPECT_FALSE(One("kv.*:1").Matches("my_kv"));
  for (const char* name : {"q", "k", "v"})
    EXPECT_TRUE(One("(q|k|v):0").Matches(name));
  EXPECT_FALSE(One("(q|k|v):0").Matches("qk"));
  EXPECT_TRUE(One("layer\\.\\d+\\[0\\]:0").Matches("layer.12[0]"));
  EXPECT_FALSE(One("layer\\.\\d+:0").Matches("layer_12"));
}

TEST(DynamicAxesTest, RefusesBadEntriesAndQuotesThem) {
  struct Bad {
    const char* text;
    const char* entry;
    const char* reason;
  };
  for (const Bad& bad : {
           Bad{"x", "x", "no ':' and axis"},
           Bad{"x:0,y", "y", "no ':' and axis"},
           Bad{"x:0,", "", "no ':' and axis"},
           Bad{",x:0", "", "no ':' and axis"},
           Bad{"x:0,,y:0", "", "no ':' and axis"},
           Bad{"kv{1,2}:0", "kv{1", "no ':' and axis"},
           Bad{":0", ":0", "no pattern"},
           Bad{"x:", "x:", "axis \"\" is no integer in [0, 3]"},
           Bad{"x:4", "x:4", "axis \"4\" is no integer in [0, 3]"},
           Bad{"x:-1", "x:-1", "axis \"-1\" is no integer"},
           Bad{"x:+1", "x:+1", "axis \"+1\" is no integer"},
           Bad{"x: 1", "x: 1", "axis \" 1\" is no integer"},
           Bad{"x:1y", "x:1y", "axis \"1y\" is no integer"},
           Bad{"x:99999999999", "x:99999999999", "is no integer"},
           Bad{"a:0,(q:0", "(q:0", "pattern \"(q\" is no regular expression"},
           Bad{"[q:0", "[q:0", "is no regular expression"},
           Bad{"*:0", "*:0", "is no regular expression"},
           Bad{"q\\:0", "q\\:0", "is no regular expression"},
       }) {
    const absl::StatusOr<std::vector<DynamicAxis>> axes = ParseDynamicAxes(bad.text);
    ASSERT_THAT(axes, StatusIs(absl::StatusCode::kInvalidArgument)) << bad.text;
    const std::string message = MessageOf(axes.status());
    EXPECT_THAT(message, HasSubstr(fmt::format("\"{}\"", bad.text)));
    EXPECT_THAT(message, HasSubstr(fmt::format("entry \"{}\"", bad.entry)));
    EXPECT_THAT(message, HasSubstr(bad.reason));
  }
}

TEST(DynamicAxesDeathTest, MatchesChecksAPatternThatWasNotParsed) {
  EXPECT_DEATH(DynamicAxis({"(", 0}).Matches("x"), "no regular expression");
}

}  // namespace
}  // namespace coppice
