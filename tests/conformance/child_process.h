// Cases that end a process's CUDA work, or do what CUDA leaves undefined, each in a process of its
// own.
//
//   EXPECT_IN_CHILD({
//     EXPECT_CU(kSuccess, Store(a, nothing, 1));
//     EXPECT_CU(kIllegalAddress, cu.StreamSynchronize(a));
//   });
//
// The child runs this executable again for this one test, up to the block: no CUDA state crosses a
// fork. Expectations inside the block count in the child, which prints those that failed and exits
// with 1; then the test fails in the parent, with what the child printed.
//
// EXPECT_IN_CHILD_OF_CUDA is for what CUDA alone leaves undefined: a child there, and in place on
// the emulator, where each of some hundred wrong drivers would pay for the process.
//
// Cost: a process per block. Threads: the test's own.

#pragma once

#include "tests/support/test.h"

namespace coppice {

// Ends a child process with 0 if the running test has no failure, else prints them and exits
// with 1.
[[noreturn]] inline void ExitAsTheTestWent() {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.failed()) std::fprintf(stderr, "line %d: %s\n", part.line_number(), part.message());
  }
  std::fflush(stderr);
  std::_Exit(result.Failed() ? 1 : 0);  // What a dead context left behind is not torn down.
}

}  // namespace coppice

#define EXPECT_IN_CHILD(...)                                                                       \
  do {                                                                                             \
    testing::GTEST_FLAG(death_test_style) = "threadsafe";                                          \
    EXPECT_EXIT((([&] __VA_ARGS__)(), ::coppice::ExitAsTheTestWent()), testing::ExitedWithCode(0), \
                "");                                                                               \
  } while (false)

#define EXPECT_IN_CHILD_OF_CUDA(...)            \
  do {                                          \
    if (GetParam().kind == DriverKind::kCuda) { \
      EXPECT_IN_CHILD(__VA_ARGS__);             \
    } else {                                    \
      ([&] __VA_ARGS__)();                      \
    }                                           \
  } while (false)
