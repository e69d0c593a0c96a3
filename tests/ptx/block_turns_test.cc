// How blocks of a launch take turns: they meet each other half done, and wait for each other
// without executing for long.
//
// Method: kernels whose blocks wait for others, on several seeds; what they execute is counted.

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/launch.h"
#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::Each;

constexpr uint64_t kSeedsOfTurns = 12;

std::string WithTarget(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + body;
}

// `retries` counts how often a lock was met that another had taken.
TEST(BlockTurnsTest, BlocksMeetALockThatIsTakenOnSomeSeeds) {
  Launcher launcher(WithTarget(R"(
.visible .entry K(.param .u64 lock, .param .u64 sum, .param .u64 retries) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [lock];
  ld.param.u64 %rd2, [sum];
  ld.param.u64 %rd3, [retries];
Take:
  atom.global.acquire.gpu.cas.b32 %r1, [%rd1], 0, 1;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra Taken;
  red.global.add.u32 [%rd3], 1;
  bra Take;
Taken:
  ld.global.u32 %r2, [%rd2];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd2], %r2;
  atom.global.release.gpu.exch.b32 %r3, [%rd1], 0;
  ret;
})"));
  constexpr uint32_t kBlocks = 12;
  int met = 0;
  for (uint64_t seed = 1; seed <= kSeedsOfTurns; ++seed) {
    launcher.seed = seed;
    const uint64_t lock = launcher.Allocate(std::vector<uint32_t>(3));
    ExpectClean(launcher.Run("K", {.grid = {kBlocks, 1, 1}}, lock, lock + 4, lock + 8));
    EXPECT_THAT(launcher.Read<uint32_t>(lock + 4, 1), Each(kBlocks));
    met += launcher.Read<uint32_t>(lock + 8, 1)[0] != 0 ? 1 : 0;
  }
  EXPECT_GT(met, 0);
}

// As compilers wait: one thread asks, and the block meets at barriers before it asks again.
TEST(BlockTurnsTest, ABlockThatAsksForAnotherGivesWayAtOnce) {
  for (const std::string ask :
       {"atom.global.acquire.gpu.add.u32 %r4, [%rd2], 0;", "ld.acquire.gpu.global.u32 %r4, [%rd2];",
        "ld.volatile.global.u32 %r4, [%rd2];"}) {
    Launcher launcher(WithTarget(R"(
.visible .entry K(.param .u64 flags) {
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .shared .b32 seen;
  ld.param.u64 %rd1, [flags];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd2, %rd1;
  setp.eq.u32 %p1, %r2, 0;
Ask:
  bar.sync 0;
  @%p1 )" + ask + R"(
  @%p1 st.shared.u32 [seen], %r4;
  bar.sync 0;
  ld.shared.u32 %r5, [seen];
  setp.eq.u32 %p2, %r5, 0;
  @%p2 bra Ask;
  @%p1 atom.global.release.gpu.exch.b32 %r6, [%rd2+4], 1;
  ret;
})"));
    constexpr uint32_t kBlocks = 16;
    for (uint64_t seed = 1; seed <= kSeedsOfTurns; ++seed) {
      launcher.seed = seed;
      std::vector<uint32_t> flags(kBlocks + 1);
      flags[0] = 1;
      const uint64_t address = launcher.Allocate(flags);
      const Outcome outcome =
          launcher.Run("K", {.grid = {kBlocks, 1, 1}, .block = {128, 1, 1}}, address);
      ExpectClean(outcome);
      EXPECT_THAT(launcher.Read<uint32_t>(address, kBlocks + 1), Each(1));
      EXPECT_LT(outcome.counts.instructions, 200'000) << ask;
    }
  }
}

}  // namespace
}  // namespace coppice::ptx
