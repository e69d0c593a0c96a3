// Goal: what may end any command is one line and an exit code. Method: host memory that runs out,
// said to have and in truth.

#include "tools/support/command.h"

#include <fstream>
#include <new>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/resource.h>

#include "tests/support/sanitized.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"
#include "tools/support/console.h"

namespace coppice {
namespace {

TEST(RunToolTest, GivesTheExitCodeOfWhatItRan) {
  EXPECT_EQ(RunTool("coppice", {}, [] { return kExitMismatch; }), kExitMismatch);
}

TEST(RunToolTest, LeavesTheHandlerOfWhoeverRunsIt) {
  const std::new_handler before = std::get_new_handler();
  RunTool("coppice", {}, [&] {
    EXPECT_NE(std::get_new_handler(), before);
    return kExitOk;
  });
  EXPECT_EQ(std::get_new_handler(), before);
}

TEST(CommandTest, SubcommandThatDoesNotExistIsNamedWithThoseThatDo) {
  const CommandOutcome top = RunCoppice({"runn"});
  EXPECT_EQ(top.code, kExitUsage);
  EXPECT_THAT(top.err, testing::StartsWith(
                           "coppice: 'runn' is not a subcommand; the subcommands are run, "));
  EXPECT_THAT(
      RunCoppice({"prof", "t.trace"}).err,
      testing::StartsWith("coppice prof: 't.trace' is not a subcommand; the subcommands are "));
  EXPECT_THAT(RunCoppice({"bench"}).err, testing::HasSubstr("A subcommand is required"));
}

TEST(RunToolDeathTest, HostMemoryThatRunsOutIsOneLineAndAnExitCode) {
  const auto run = [] {
    std::get_new_handler()();
    return kExitOk;
  };
  EXPECT_EXIT(RunTool("coppice", {}, run), testing::ExitedWithCode(kExitMemory),
              "^coppice: host memory ran out; [^\n]*\n$");
}

TEST(RunToolDeathTest, APlanThatNeedsMoreMemoryThanThereIsEndsSo) {
#ifdef COPPICE_SANITIZED
  GTEST_SKIP() << "a sanitizer needs more address space than a process may be left with";
#endif
  std::string rows = "id,lower,upper,size\n";
  for (int i = 0; i < 200'000; ++i)
    rows += fmt::format("b{},{},{},64\n", i, i, i + 2);
  const TemporaryFile file(rows, "big.csv");
  const auto plan = [&] {
    // What the process has by now, and little more.
    std::ifstream size("/proc/self/statm");
    rlim_t pages = 0;
    size >> pages;
    const rlim_t bytes = pages * 4096 + (rlim_t{16} << 20);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
    setrlimit(RLIMIT_AS, &limit);
    const char* const arguments[] = {"coppice", "plan", file.path().c_str()};
    RunCommandLine(3, arguments, /*program=*/"", {});
  };
  EXPECT_EXIT(plan(), testing::ExitedWithCode(kExitMemory), "coppice: host memory ran out");
}

}  // namespace
}  // namespace coppice
