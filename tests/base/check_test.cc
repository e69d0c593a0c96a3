// Goal: checks stop programmer errors where they happen, and cost nothing when they hold.
// Method: death tests, and conditions that count how often they are evaluated.

#include "coppice/base/check.h"

#include <csignal>

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(CheckTest, HoldingConditionIsEvaluatedOnce) {
  int evaluations = 0;
  COPPICE_CHECK(++evaluations > 0, "holds");
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckTest, IsOneStatement) {
  const bool choose_other = true;
  int chosen = 0;
  if (choose_other)
    COPPICE_CHECK(true, "holds");
  else
    chosen = 1;
  EXPECT_EQ(chosen, 0);
}

TEST(CheckDeathTest, FailedCheckPrintsWhereAndWhyAndAborts) {
  EXPECT_EXIT(COPPICE_CHECK(1 + 1 == 3, "arithmetic is broken"), testing::KilledBySignal(SIGABRT),
              "check_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3: arithmetic is broken");
}

TEST(CheckDeathTest, DebugCheckIsOnWithoutNdebugOnly) {
#ifdef NDEBUG
  int evaluations = 0;
  COPPICE_DCHECK(++evaluations < 0, "compiled out");
  EXPECT_EQ(evaluations, 0);
#else
  EXPECT_DEATH(COPPICE_DCHECK(false, "on in debug builds"), "on in debug builds");
#endif
}

}  // namespace
}  // namespace coppice
