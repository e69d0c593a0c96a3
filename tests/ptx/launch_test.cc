// How PTX runs: lanes that part and meet, calls, waiting, blocks.
//
// Method: kernels written by hand, each of which a simpler way to run warps would hang or get
// wrong, on several seeds.

#include "runtime/emulator/ptx/launch.h"

#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string WithHeader(std::string body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + std::move(body);
}

constexpr int kSeeds = 20;

// Lane 0 of each warp sets a flag behind a loop in which the others wait for it; the branch is such
// that the loop is below.
TEST(LaunchTest, LanesThatSpinDoNotStarveTheirWarp) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  .shared .align 4 .b32 flag[4];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, flag;
  and.b32 %r3, %r1, 31;
  setp.ne.s32 %p1, %r3, 0;
  @%p1 bra Skip;
  mov.u32 %r4, 0;
  st.volatile.shared.u32 [%r2], %r4;
Skip:
  bar.warp.sync 0xffffffff;
  setp.eq.s32 %p2, %r3, 0;
  @%p2 bra Produce;
Wait:
  ld.volatile.shared.u32 %r5, [%r2];
  setp.eq.s32 %p1, %r5, 0;
  @%p1 bra Wait;
  bra Done;
Produce:
  mov.u32 %r5, 7;
  st.volatile.shared.u32 [%r2], %r5;
Done:
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r5;
  ret;
})"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(32));
  ExpectClean(launcher.Run("K", {.block = {32, 1, 1}}, out));
  EXPECT_THAT(launcher.Read<uint32_t>(out, 32), Each(7));
}

TEST(LaunchTest, LanesOfAWarpTakeALockInTurn) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 lock, .param .u64 sum) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [lock];
  ld.param.u64 %rd2, [sum];
Take:
  atom.global.cas.b32 %r1, [%rd1], 0, 1;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra Take;
  membar.gl;
  ld.global.u32 %r2, [%rd2];
  add.s32 %r2, %r2, 1;
  st.global.u32 [%rd2], %r2;
  membar.gl;
  atom.global.exch.b32 %r3, [%rd1], 0;
  ret;
})"));
  for (int seed = 1; seed <= 3; ++seed) {
    launcher.seed = static_cast<uint64_t>(seed);
    const uint64_t lock = launcher.Allocate<uint32_t>({0});
    const uint64_t sum = launcher.Allocate<uint32_t>({0});
    ExpectClean(launcher.Run("K", {.grid = {3, 1, 1}, .block = {64, 1, 1}}, lock, sum));
    EXPECT_THAT(launcher.Read<uint32_t>(sum, 1), Each(192));
  }
}

TEST(LaunchTest, CallsRecurseToADepthOfEachLane) {
  Launcher launcher(WithHeader(R"(
.func (.param .b32 result) Fibonacci(.param .b32 n) {
  .reg .pred %p; .reg .b32 %r<8>;
  ld.param.u32 %r1, [n];
  setp.lt.s32 %p, %r1, 2;
  @%p bra Done;
  add.s32 %r2, %r1, -1;
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0+0], %r2;
    call.uni (retval0), Fibonacci, (param0);
    ld.param.b32 %r3, [retval0+0]; }
  add.s32 %r4, %r1, -2;
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0+0], %r4;
    call.uni (retval0), Fibonacci, (param0);
    ld.param.b32 %r5, [retval0+0]; }
  add.s32 %r1, %r3, %r5;
Done:
  st.param.b32 [result+0], %r1;
  ret;
}
.visible .entry K(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0+0], %r1;
    call.uni (retval0), Fibonacci, (param0);
    ld.param.b32 %r2, [retval0+0]; }
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
})"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(13));
  ExpectClean(launcher.Run("K", {.block = {13, 1, 1}}, out));
  EXPECT_EQ(launcher.Read<uint32_t>(out, 13),
            (std::vector<uint32_t>{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144}));
}

TEST(LaunchTest, CallsThatNeverReturnEndTheLaunch) {
  Launcher launcher(WithHeader(R"(
.func Deeper() { call Deeper; ret; }
.visible .entry K() { call Deeper; ret; })"));
  const Outcome outcome = launcher.Run("K", {});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress);
  EXPECT_THAT(outcome.fault->message, HasSubstr("the stack has no room left"));
}

TEST(LaunchTest, LanesCallWhatTheirAddressesSay) {
  Launcher launcher(WithHeader(R"(
.func (.param .b32 result) Twice(.param .b32 x) {
  .reg .b32 %r<2>; ld.param.u32 %r1, [x]; add.s32 %r1, %r1, %r1;
  st.param.b32 [result], %r1; ret; }
.func (.param .b32 result) Square(.param .b32 x) {
  .reg .b32 %r<2>; ld.param.u32 %r1, [x]; mul.lo.s32 %r1, %r1, %r1;
  st.param.b32 [result], %r1; ret; }
.func (.param .b32 result) Same(.param .b32 x) {
  .reg .b32 %r<2>; ld.param.u32 %r1, [x]; st.param.b32 [result], %r1; ret; }
.global .align 8 .u64 table[3] = {Twice, Square, Same};
.visible .entry K(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  rem.u32 %r2, %r1, 3;
  mov.u64 %rd2, table;
  mul.wide.u32 %rd3, %r2, 8;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.u64 %rd4, [%rd2];
  { .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r1;
    shape: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (retval0), %rd4, (param0), shape;
    ld.param.b32 %r3, [retval0]; }
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd1, %rd5;
  st.global.u32 [%rd6], %r3;
  ret;
})"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(40));
  ExpectClean(launcher.Run("K", {.block = {40, 1, 1}}, out));
  const auto values = launcher.Read<uint32_t>(out, 40);
  for (uint32_t i = 0; i < 40; ++i)
    EXPECT_EQ(values[i], i % 3 == 0 ? 2 * i : i % 3 == 1 ? i * i : i);
}

TEST(LaunchTest, BranchesGoWhereEachLanesIndexSays) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 3;
  targets: .branchtargets A, B, C, A;
  brx.idx %r2, targets;
A: mov.u32 %r3, 10; bra Done;
B: mov.u32 %r3, 20; bra Done;
C: mov.u32 %r3, 30;
Done:
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r3;
})"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(8));
  ExpectClean(launcher.Run("K", {.block = {8, 1, 1}}, out));
  EXPECT_EQ(launcher.Read<uint32_t>(out, 8),
            (std::vector<uint32_t>{10, 20, 30, 10, 10, 20, 30, 10}));
}

// --- waiting

// Threads of odd number leave before the second barrier.
TEST(LaunchTest, BarriersDoNotWaitForThreadsThatExited) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  .shared .align 4 .b32 values[96];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, values;
  add.s32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  and.b32 %r5, %r1, 1;
  setp.eq.s32 %p1, %r5, 1;
  @%p1 exit;
  sub.s32 %r6, 380, %r2;
  add.s32 %r6, %r3, %r6;
  ld.shared.u32 %r7, [%r6];
  barrier.sync 0;
  st.shared.u32 [%r4], %r7;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r7;
  ret;
})"));
  for (int seed = 1; seed <= kSeeds; ++seed) {
    launcher.seed = static_cast<uint64_t>(seed);
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(96));
    ExpectClean(launcher.Run("K", {.block = {96, 1, 1}}, out));
    const auto values = launcher.Read<uint32_t>(out, 96);
    for (uint32_t i = 0; i < 96; i += 2)
      EXPECT_EQ(values[i], 95 - i);
  }
}

TEST(LaunchTest, BarriersReduceWhatEachThreadBrings) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out, .param .u32 limit) {
  .reg .pred %p<6>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r9, [limit];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, %r9;
  bar.red.popc.u32 %r2, 0, %p1;
  bar.red.and.pred %p2, 1, %p1;
  bar.red.or.pred %p3, 2, 64, !%p1;
  selp.b32 %r3, 1000, 0, %p2;
  selp.b32 %r4, 2000, 0, %p3;
  add.s32 %r2, %r2, %r3;
  add.s32 %r2, %r2, %r4;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
})"));
  for (const uint32_t limit : {0u, 5u, 64u}) {
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(64));
    ExpectClean(launcher.Run("K", {.block = {64, 1, 1}}, out, limit));
    const uint32_t all = limit == 64 ? 1000 : 2000;
    EXPECT_THAT(launcher.Read<uint32_t>(out, 64), Each(limit + all));
  }
}

// Warp 0 fills a buffer, warp 1 uses it; neither waits for more than the other.
TEST(LaunchTest, NamedBarriersLetWarpsPassABuffer) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  .shared .align 4 .b32 buffer[32];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  shl.b32 %r3, %r2, 2;
  mov.u32 %r4, buffer;
  add.s32 %r4, %r4, %r3;
  mov.u32 %r5, 0;
  mov.u32 %r6, 0;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra Use;
Fill:
  mad.lo.s32 %r7, %r5, 100, %r2;
  st.shared.u32 [%r4], %r7;
  bar.arrive 1, 64;
  bar.sync 2, 64;
  add.s32 %r5, %r5, 1;
  setp.lt.s32 %p2, %r5, 10;
  @%p2 bra Fill;
  ret;
Use:
  bar.sync 1, 64;
  xor.b32 %r8, %r3, 124;
  mov.u32 %r9, buffer;
  add.s32 %r8, %r8, %r9;
  ld.shared.u32 %r7, [%r8];
  add.s32 %r6, %r6, %r7;
  bar.arrive 2, 64;
  add.s32 %r5, %r5, 1;
  setp.lt.s32 %p2, %r5, 10;
  @%p2 bra Use;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
})"));
  for (int seed = 1; seed <= kSeeds; ++seed) {
    launcher.seed = static_cast<uint64_t>(seed);
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(32));
    ExpectClean(launcher.Run("K", {.block = {64, 1, 1}}, out));
    const auto values = launcher.Read<uint32_t>(out, 32);
    for (uint32_t i = 0; i < 32; ++i)
      EXPECT_EQ(values[i], 4500 + 10 * (31 - i));
  }
}

TEST(LaunchTest, LanesMeetAtWarpBarriersOfDifferentPlaces) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
  .shared .align 4 .b32 values[32];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, values;
  add.s32 %r4, %r3, %r2;
  xor.b32 %r5, %r2, 124;
  add.s32 %r5, %r3, %r5;
  st.shared.u32 [%r4], %r1;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra Low;
  bar.warp.sync -1;
  ld.shared.u32 %r6, [%r5];
  bra Done;
Low:
  bar.warp.sync -1;
  ld.shared.u32 %r6, [%r5];
Done:
  add.s64 %rd3, %rd1, 0;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
})"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(32));
  ExpectClean(launcher.Run("K", {.block = {32, 1, 1}}, out));
  const auto values = launcher.Read<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(values[i], 31 - i);
}

// Some lanes sleep before they make the call in which all of them vote.
TEST(LaunchTest, LanesThatCallOneAfterTheOtherMeetInTheCall) {
  Launcher launcher(WithHeader(R"(
.func (.param .b32 votes) F(.param .b32 of) {
  .reg .pred %p; .reg .b32 %r<4>;
  ld.param.b32 %r1, [of];
  setp.gt.u32 %p, %r1, 20;
  vote.sync.ballot.b32 %r2, %p, 0xffffffff;
  add.u32 %r2, %r2, %r1;
  st.param.b32 [votes], %r2;
  ret;
}
.visible .entry K(.param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 7;
  @!%p1 bra Go;
  nanosleep.u32 10;
Go:
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), F, (a);
    ld.param.b32 %r2, [b]; }
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd1;
  st.global.u32 [%rd2], %r2;
  ret;
})"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(32));
  ExpectClean(launcher.Run("K", {.block = {32, 1, 1}}, out));
  const std::vector<uint32_t> votes = launcher.Read<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(votes[i], 0xffe00000 + i);
}

TEST(LaunchTest, ADeadlockNamesWhoWaitsWhere) {
  Launcher launcher(WithHeader(R"(
.visible .entry K() {
  .reg .pred %p<3>; .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra Other;
  bar.sync 3;
  ret;
Other:
  bar.sync 4;
  ret;
})"));
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kDeadlock);
  EXPECT_EQ(outcome.fault->line, 10);
  EXPECT_THAT(
      outcome.fault->message,
      HasSubstr(
          "32 threads in the range 0 to 31 at line 10, waiting at barrier 3, where 32 of 64"));
  EXPECT_THAT(
      outcome.fault->message,
      HasSubstr(
          "32 threads in the range 32 to 63 at line 13, waiting at barrier 4, where 32 of 64"));
}

TEST(LaunchTest, LanesThatWaitForALaneThatNeverComesAreADeadlock) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 flag) {
  .reg .pred %p<3>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
Wait:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.s32 %p1, %r1, 0;
  @%p1 bra Wait;
  ret;
})"));
  const uint64_t flag = launcher.Allocate<uint32_t>({0});
  const Outcome outcome =
      launcher.Run("K", {.grid = {2, 1, 1}, .block = {32, 1, 1}, .cooperative = true}, flag);
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kDeadlock);
  EXPECT_THAT(outcome.fault->message, HasSubstr("in a loop"));
}

// --- blocks

// A sum over blocks in which each waits for the one before, as a scan with look-back does.
TEST(LaunchTest, BlocksWaitForThoseBefore) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 sums, .param .u64 flags) {
  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [sums];
  ld.param.u64 %rd2, [flags];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r2, 0;
  setp.eq.s32 %p1, %r1, 0;
  @%p1 bra Add;
Wait:
  ld.acquire.gpu.global.u32 %r3, [%rd5+-4];
  setp.eq.s32 %p2, %r3, 0;
  @%p2 bra Wait;
  ld.global.u32 %r2, [%rd4+-4];
Add:
  add.s32 %r2, %r2, %r1;
  st.global.u32 [%rd4], %r2;
  mov.u32 %r4, 1;
  st.release.gpu.global.u32 [%rd5], %r4;
  ret;
})"));
  for (int seed = 1; seed <= 5; ++seed) {
    launcher.seed = static_cast<uint64_t>(seed);
    const uint64_t sums = launcher.Allocate(std::vector<uint32_t>(300));
    const uint64_t flags = launcher.Allocate(std::vector<uint32_t>(300));
    ExpectClean(launcher.Run("K", {.grid = {300, 1, 1}}, sums, flags));
    EXPECT_THAT(launcher.Read<uint32_t>(sums + 299 * 4, 1), Each(299 * 300 / 2));
  }
}

// What nvcc makes of cooperative_groups::this_grid().sync().
TEST(LaunchTest, BlocksOfACooperativeLaunchMeet) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 values, .param .u64 out) {
  .reg .pred %p<6>; .reg .b32 %r<24>; .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [values];
  ld.param.u64 %rd9, [out];
  mov.u32 %r1, %envreg2;
  cvt.u64.u32 %rd2, %r1;
  mov.u32 %r2, %envreg1;
  cvt.u64.u32 %rd3, %r2;
  bfi.b64 %rd4, %rd3, %rd2, 32, 32;
  setp.ne.s64 %p1, %rd4, 0;
  @%p1 bra Go;
  trap;
Go:
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %nctaid.x;
  mov.u32 %r6, %ntid.x;
  mad.lo.s32 %r7, %r4, %r6, %r3;
  mul.wide.u32 %rd5, %r7, 4;
  add.s64 %rd6, %rd1, %rd5;
  st.global.u32 [%rd6], %r7;
  add.s64 %rd7, %rd4, 4;
  barrier.sync 0;
  setp.ne.s32 %p2, %r3, 0;
  @%p2 bra Met;
  setp.eq.s32 %p3, %r4, 0;
  mov.u32 %r8, -2147483647;
  sub.s32 %r9, %r8, %r5;
  selp.b32 %r10, %r9, 1, %p3;
  atom.add.release.gpu.u32 %r11, [%rd7], %r10;
Wait:
  ld.acquire.gpu.u32 %r12, [%rd7];
  xor.b32 %r13, %r12, %r11;
  setp.gt.s32 %p4, %r13, -1;
  @%p4 bra Wait;
Met:
  barrier.sync 0;
  mul.lo.s32 %r14, %r5, %r6;
  sub.s32 %r15, %r14, %r7;
  mul.wide.u32 %rd8, %r15, 4;
  add.s64 %rd8, %rd1, %rd8;
  ld.global.u32 %r16, [%rd8+-4];
  add.s64 %rd10, %rd9, %rd5;
  st.global.u32 [%rd10], %r16;
  ret;
})"));
  for (int seed = 1; seed <= 5; ++seed) {
    launcher.seed = static_cast<uint64_t>(seed);
    const uint64_t values = launcher.Allocate(std::vector<uint32_t>(640));
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(640));
    ExpectClean(launcher.Run("K", {.grid = {10, 1, 1}, .block = {64, 1, 1}, .cooperative = true},
                             values, out));
    std::vector<uint32_t> expected(640);
    std::iota(expected.rbegin(), expected.rend(), 0);
    EXPECT_EQ(launcher.Read<uint32_t>(out, 640), expected);
  }
}

TEST(LaunchTest, ThreadsKnowTheirPlaces) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out) {
  .reg .b32 %r<24>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
  mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;
  mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z;
  mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
  mad.lo.s32 %r12, %r3, %r5, %r2;
  mad.lo.s32 %r12, %r12, %r4, %r1;
  mad.lo.s32 %r13, %r9, %r11, %r8;
  mad.lo.s32 %r13, %r13, %r10, %r7;
  mul.lo.s32 %r14, %r4, %r5;
  mul.lo.s32 %r14, %r14, %r6;
  mad.lo.s32 %r15, %r13, %r14, %r12;
  mul.wide.u32 %rd2, %r15, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r16, %laneid; mov.u32 %r17, %warpid;
  mad.lo.s32 %r18, %r17, 32, %r16;
  sub.s32 %r19, %r18, %r12;
  add.s32 %r20, %r15, %r19;
  st.global.u32 [%rd3], %r20;
  ret;
})"));
  constexpr size_t kThreads = 3 * 2 * 2 * 5 * 4 * 3;
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(kThreads));
  const Outcome outcome = launcher.Run("K", {.grid = {3, 2, 2}, .block = {5, 4, 3}}, out);
  ExpectClean(outcome);
  std::vector<uint32_t> expected(kThreads);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(launcher.Read<uint32_t>(out, kThreads), expected);
  EXPECT_EQ(outcome.counts.stores, kThreads);
  EXPECT_EQ(outcome.counts.loads, kThreads);
  // Two warps a block, of 60 threads; 28 instructions.
  EXPECT_EQ(outcome.counts.instructions, 12 * 2 * 28);
  EXPECT_EQ(outcome.counts.lane_instructions, 12 * 60 * 28);
}

TEST(LaunchTest, GuardsKeepLanesOutOfCounts) {
  Launcher launcher(WithHeader(R"(
.visible .entry K() {
  .reg .pred %p; .reg .b32 %r<4>;
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p, %r1, 5;
  @%p add.s32 %r1, %r1, 1;
  @!%p add.s32 %r1, %r1, 1;
  @%p add.s32 %r1, %r1, 1;
  ret;
})"));
  const Outcome outcome = launcher.Run("K", {.block = {32, 1, 1}});
  ExpectClean(outcome);
  EXPECT_EQ(outcome.counts.instructions, 6);
  EXPECT_EQ(outcome.counts.lane_instructions, 3 * 32 + 5 + 27 + 5);
}

TEST(LaunchTest, ClocksGoForward) {
  Launcher launcher(WithHeader(R"(
.visible .entry K(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd2, %clock64;
  mov.u32 %r1, %clock;
  nanosleep.u32 20;
  mov.u64 %rd3, %globaltimer;
  mov.u64 %rd4, %clock64;
  cvt.u64.u32 %rd5, %r1;
  st.global.u64 [%rd1], %rd2;
  st.global.u64 [%rd1+8], %rd5;
  st.global.u64 [%rd1+16], %rd4;
  st.global.u64 [%rd1+24], %rd3;
  ret;
})"));
  const uint64_t out = launcher.Allocate(std::vector<uint64_t>(4));
  ExpectClean(launcher.Run("K", {}, out));
  const auto clocks = launcher.Read<uint64_t>(out, 4);
  EXPECT_LT(clocks[0], clocks[1]);
  EXPECT_LT(clocks[1], clocks[2]);
  EXPECT_GE(clocks[3], 1'000'000u);
}

// --- the driver's functions

TEST(LaunchTest, PrintsWhatCodePrints) {
  Launcher launcher(WithHeader(R"(
.extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 text[40] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 32, 37, 108, 108, 117,
  32, 37, 99, 37, 37, 10};
.global .align 1 .b8 word[4] = {97, 98, 99, 0};
.visible .entry K(.param .u64 out) {
  .local .align 8 .b8 depot[40];
  .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f64 %fd<2>;
  ld.param.u64 %rd7, [out];
  mov.u64 %rd1, depot;
  cvta.local.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  st.local.u32 [%rd1], %r1;
  mov.f64 %fd1, 0d3FF8000000000000;
  st.local.f64 [%rd1+8], %fd1;
  mov.u64 %rd3, word;
  cvta.global.u64 %rd4, %rd3;
  st.local.u64 [%rd1+16], %rd4;
  mov.u64 %rd5, 12345678901;
  st.local.u64 [%rd1+24], %rd5;
  mov.u32 %r2, 33;
  st.local.u32 [%rd1+32], %r2;
  mov.u64 %rd3, text;
  cvta.global.u64 %rd6, %rd3;
  { .param .b64 param0; .param .b64 param1; .param .b32 retval0;
    st.param.b64 [param0], %rd6;
    st.param.b64 [param1], %rd2;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r3, [retval0]; }
  st.global.u32 [%rd7], %r3;
  ret;
})"));
  const uint64_t out = launcher.Allocate<uint32_t>({0});
  ExpectClean(launcher.Run("K", {.block = {2, 1, 1}}, out));
  EXPECT_EQ(launcher.Printed(), "0 1.50 abc 12345678901 !%\n1 1.50 abc 12345678901 !%\n");
  EXPECT_THAT(launcher.Read<uint32_t>(out, 1), Each(5));
}

TEST(LaunchTest, ATrapNamesItsThread) {
  Launcher launcher(WithHeader(R"(
.visible .entry K() {
  .reg .pred %p; .reg .b32 %r<4>;
  mov.u32 %r1, %tid.x;
  setp.eq.s32 %p, %r1, 37;
  @%p trap;
  ret;
})"));
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kTrap);
  EXPECT_EQ(outcome.fault->thread[0], 37u);
  EXPECT_EQ(outcome.fault->line, 9);
  EXPECT_EQ(outcome.fault->kernel, "K");
}

}  // namespace
}  // namespace coppice::ptx
