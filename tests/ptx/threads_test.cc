// Goal: programs are built and run on several threads at once, as program.h and launch.h say.
// Method: threads that each build a program and run it, and one that all of them run; what they
// compute is compared. Races are ThreadSanitizer's to find.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/program.h"
#include "tests/support/compiled_kernels.h"
#include "tests/support/status_matchers.h"

namespace coppice::ptx {
namespace {

constexpr int kThreads = 4;
constexpr int kRuns = 20;

// The words that WriteThreads sets in blocks of `threads`, all checks on.
std::vector<int64_t> Written(const Program& program, unsigned threads, int64_t first) {
  std::vector<int64_t> words(threads);
  const auto target = reinterpret_cast<uint64_t>(words.data());
  std::array<std::byte, 16> parameters;
  std::memcpy(parameters.data(), &target, sizeof(target));
  std::memcpy(parameters.data() + 8, &first, sizeof(first));
  const MemoryRange range = {target, target + threads * sizeof(int64_t), true};
  const Outcome outcome = Run({.kernel = program.FindKernel("WriteThreads"),
                               .block = {threads, 1, 1},
                               .parameters = parameters},
                              {.memory = {&range, 1}, .checks = Checks::All(true)});
  EXPECT_FALSE(outcome.fault.has_value());
  EXPECT_TRUE(outcome.findings.empty());
  return words;
}

TEST(PtxThreadsTest, OneProgramRunsOnSeveralThreadsWhileOthersAreBuilt) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Program> shared,
                               Program::Build(kCompiledKernels));
  const std::vector<int64_t> expected = Written(*shared, 100, 7);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&shared, &expected] {
      for (int run = 0; run < kRuns; ++run) {
        COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Program> own,
                                     Program::Build(kCompiledKernels));
        EXPECT_EQ(Written(*own, 100, 7), expected);
        EXPECT_EQ(Written(*shared, 100, 7), expected);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace
}  // namespace coppice::ptx
