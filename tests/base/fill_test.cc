// Goal: every fill has a word of its own, and is what its maker says.
// Method: all of them.

#include "coppice/base/fill.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(FillTest, EachKindHasAWordOfItsOwn) {
  std::set<std::string> words;
  for (int kind = 0; kind < kFillKindCount; ++kind)
    words.insert(NameOf(static_cast<FillKind>(kind)));
  EXPECT_THAT(words, testing::UnorderedElementsAre("zero", "value", "sentinel", "repeat_last",
                                                   "undefined"));
  EXPECT_STREQ(NameOf(static_cast<FillKind>(kFillKindCount)), "?");
}

TEST(FillTest, IsConstantIfItIsTheSameWhateverTheInputHolds) {
  EXPECT_TRUE(IsConstant(FillKind::kZero));
  EXPECT_TRUE(IsConstant(FillKind::kValue));
  EXPECT_TRUE(IsConstant(FillKind::kSentinel));
  EXPECT_FALSE(IsConstant(FillKind::kRepeatLast));
  EXPECT_FALSE(IsConstant(FillKind::kUndefined));
}

TEST(FillTest, IsWhatItsMakerSays) {
  EXPECT_EQ(Fill::Zero(), Fill());
  EXPECT_EQ(Fill::Value(2.5), (Fill{.kind = FillKind::kValue, .value = 2.5}));
  EXPECT_EQ(Fill::Sentinel().kind, FillKind::kSentinel);
  EXPECT_EQ(Fill::RepeatLast().kind, FillKind::kRepeatLast);
  EXPECT_EQ(Fill::Undefined().kind, FillKind::kUndefined);
}

}  // namespace
}  // namespace coppice
