// Goal: reason.h. Method: every enumerator of both enums, against a list of the names in order.

#include "coppice/graphs/reason.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(ReasonTest, NamesEveryPath) {
  const char* const names[] = {"replay", "record", "warm_up", "eager", "include"};
  static_assert(std::size(names) == kRunKindCount);
  for (int i = 0; i < kRunKindCount; ++i)
    EXPECT_STREQ(NameOf(static_cast<RunKind>(i)), names[i]);
}

TEST(ReasonTest, NamesEveryReasonInSnakeCase) {
  const char* const names[] = {
      "none",          "new_bucket",          "static_input_moved", "other_live_regions",
      "evicted",       "over_largest_bucket", "unpadded_extent",    "graph_limit",
      "byte_limit",    "capture_invalidated", "not_capturable",     "gate_says_eager",
      "user_disabled", "padded_too_much"};
  static_assert(std::size(names) == kReasonCount);
  for (int i = 0; i < kReasonCount; ++i)
    EXPECT_STREQ(NameOf(static_cast<Reason>(i)), names[i]);
}

TEST(ReasonTest, CountsEndAtTheLastEnumerator) {
  EXPECT_EQ(static_cast<int>(RunKind::kInclude) + 1, kRunKindCount);
  EXPECT_EQ(static_cast<int>(Reason::kPaddedTooMuch) + 1, kReasonCount);
}

}  // namespace
}  // namespace coppice
