// Goal: the seed that a test program prints is that of the child processes of its tests as well.
// Method: a child, which is the program started again, tells its seed by its exit code.

#include <cstdlib>

#include "gtest/gtest.h"

#include "tests/support/test_device.h"

namespace coppice {
namespace {

int SeedAsExitCode() {
  return static_cast<int>(TestSeed() % 127);
}

TEST(TestSeedTest, ChildOfATestHasTheSeedOfItsParent) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const int code = SeedAsExitCode();  // Before the child begins, so that the parent is the first.
  EXPECT_EXIT(std::_Exit(SeedAsExitCode()), testing::ExitedWithCode(code), "");
}

}  // namespace
}  // namespace coppice
