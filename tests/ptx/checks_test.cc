// What the checks of a launch find, and that they find nothing else.
//
// Method: kernels with one mistake each, of which line and thread are known, and their twins
// without it, on several seeds.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/launch.h"
#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kSeedsOfChecks = 20;

std::string WithVersion(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + body;
}

// Address of element tid.x of `out` in %rd3; line 10 is the first of `body`.
std::string ElementKernel(const std::string& body) {
  return WithVersion(R"(.visible .entry K(.param .u64 out) {
  .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .shared .b32 s[64];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r3, s;
  mul.wide.u32 %rd2, %r1, 4; shl.b32 %r2, %r1, 2; add.s32 %r4, %r3, %r2;
  add.s64 %rd3, %rd1, %rd2;
)") + body +
         "  ret;\n}\n";
}

TEST(ChecksTest, AnAccessBehindTheEndNamesItsThreadAndLine) {
  Launcher launcher(ElementKernel("  ld.global.u32 %r5, [%rd3];\n"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(40));
  const Outcome outcome = launcher.Run("K", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, out);
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress);
  EXPECT_EQ(outcome.fault->thread[0], 40u);
  EXPECT_EQ(outcome.fault->line, 10);
  EXPECT_THAT(outcome.fault->message, HasSubstr("reads 4 bytes"));
  EXPECT_THAT(outcome.fault->message, HasSubstr("0 bytes past the end of the range of 160 bytes"));
}

TEST(ChecksTest, AWideAccessAcrossTheEndIsOne) {
  Launcher launcher(ElementKernel("  st.global.v2.u32 [%rd1+8], {%r1, %r2};\n"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(3));
  const Outcome outcome = launcher.Run("K", {}, out);
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress);
  EXPECT_THAT(outcome.fault->message, HasSubstr("writes 8 bytes"));
  EXPECT_THAT(outcome.fault->message, HasSubstr("across the end"));
}

TEST(ChecksTest, NullIsNoAddress) {
  Launcher launcher(ElementKernel("  ld.global.u32 %r5, [%rd3];\n"));
  const Outcome outcome = launcher.Run("K", {}, uint64_t{0});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_THAT(outcome.fault->message, HasSubstr("a null pointer"));
}

TEST(ChecksTest, AMisalignedAccessNamesItsThread) {
  Launcher launcher(ElementKernel(R"(  setp.eq.u32 %p1, %r1, 21;
  @%p1 add.s64 %rd3, %rd3, 2;
  st.global.u32 [%rd3], %r1;
)"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(64));
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, out);
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kMisaligned);
  EXPECT_EQ(outcome.fault->thread[0], 21u);
  EXPECT_EQ(outcome.fault->line, 12);
}

TEST(ChecksTest, SharedMemoryEndsWithTheBlocks) {
  Launcher launcher(ElementKernel("  st.shared.u32 [%r4+128], %r1;\n"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(64));
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, out);
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress);
  EXPECT_EQ(outcome.fault->thread[0], 32u);
  EXPECT_EQ(outcome.fault->line, 10);
  EXPECT_THAT(outcome.fault->message, HasSubstr("in shared memory, but the block has only 256"));
}

TEST(ChecksTest, LocalMemoryEndsWithTheThreads) {
  Launcher launcher(WithVersion(R"(.visible .entry K(.param .u64 out) {
  .local .align 8 .b8 depot[16]; .reg .b64 %rd<4>;
  mov.u64 %rd1, depot;
  st.local.u64 [%rd1+8], %rd1;
  st.local.u64 [%rd1+16], %rd1;
  ret;
})"));
  const Outcome outcome = launcher.Run("K", {}, uint64_t{0});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->line, 8);
}

TEST(ChecksTest, ConstantRangesAreReadOnly) {
  Launcher launcher(ElementKernel("  st.global.u32 [%rd3], %r1;\n"));
  std::vector<uint32_t> values(4);
  const uint64_t address = reinterpret_cast<uint64_t>(values.data());
  const std::vector<MemoryRange> ranges = {{address, address + 16, false}};
  const Launch launch = {.kernel = launcher.program().FindKernel("K"),
                         .parameters = std::as_bytes(std::span(&address, 1))};
  const Outcome outcome = coppice::ptx::Run(launch, {.memory = ranges});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_THAT(outcome.fault->message, HasSubstr("read-only"));
}

TEST(ChecksTest, AnAssertionNamesItsPlace) {
  Launcher launcher(WithVersion(R"(
.extern .func __assertfail(.param .b64 a,.param .b64 b,.param .b32 c,.param .b64 d,.param .b64 e);
.global .align 1 .b8 text[8] = {120, 32, 62, 32, 48};
.visible .entry K() {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  .reg .pred %p;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p, %r1, 3;
  @%p exit;
  mov.u64 %rd1, text;
  cvta.global.u64 %rd2, %rd1;
  { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
    st.param.b64 [p0], %rd2; st.param.b64 [p1], %rd2; st.param.b32 [p2], 19;
    st.param.b64 [p3], %rd2; st.param.b64 [p4], 1;
    call.uni __assertfail, (p0, p1, p2, p3, p4); }
  ret;
})"));
  const Outcome outcome = launcher.Run("K", {.block = {32, 1, 1}});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kAssert);
  EXPECT_EQ(outcome.fault->thread[0], 3u);
  EXPECT_THAT(outcome.fault->message, HasSubstr(":19: x > 0: assertion `x > 0` failed"));
}

// --- races

// Each thread writes its element and reads that of another, behind a barrier or not.
TEST(ChecksTest, AMissingBarrierIsARaceOnEverySeed) {
  const std::string before = "  st.shared.u32 [%r4], %r1;\n";
  const std::string after = R"(  xor.b32 %r6, %r2, 252;
  add.s32 %r6, %r6, %r3;
  ld.shared.u32 %r7, [%r6];
  st.global.u32 [%rd3], %r7;
)";
  Launcher right(ElementKernel(before + "  bar.sync 0;\n" + after));
  Launcher wrong(ElementKernel(before + "  mov.u32 %r9, 0;\n" + after));
  // A warp that reads before the other has written also reads what nobody has.
  wrong.checks.uninitialized = false;
  for (uint64_t seed = 1; seed <= kSeedsOfChecks; ++seed) {
    right.seed = wrong.seed = seed;
    const uint64_t out = right.Allocate(std::vector<uint32_t>(64));
    const Outcome fine = right.Run("K", {.block = {64, 1, 1}}, out);
    EXPECT_FALSE(fine.fault.has_value());
    EXPECT_THAT(fine.findings, IsEmpty());
    const uint64_t other = wrong.Allocate(std::vector<uint32_t>(64));
    const Outcome racy = wrong.Run("K", {.block = {64, 1, 1}}, other);
    EXPECT_FALSE(racy.fault.has_value());
    ASSERT_FALSE(racy.findings.empty());
    EXPECT_EQ(racy.findings[0].kind, Finding::Kind::kRace);
    // Whichever comes second is at fault: the load, or the store behind it.
    EXPECT_THAT(racy.findings[0].line, ::testing::AnyOf(10, 14));
    EXPECT_THAT(racy.findings[0].message, HasSubstr("of shared memory"));
  }
}

TEST(ChecksTest, AReadThatALaterWriteMeetsIsARace) {
  Launcher launcher(ElementKernel(R"(  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  ld.shared.u32 %r7, [%r3];
  st.shared.u32 [%r4], %r7;
)"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(64));
  // The one whose store changes what others read is thread 0, and it writes what is there.
  EXPECT_THAT(launcher.Run("K", {.block = {64, 1, 1}}, out).findings, IsEmpty());

  Launcher changed(ElementKernel(R"(  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  ld.shared.u32 %r7, [%r3];
  add.s32 %r7, %r7, 5;
  st.shared.u32 [%r4], %r7;
)"));
  const Outcome outcome = changed.Run("K", {.block = {64, 1, 1}}, out);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  // Thread 0 writes what others have read, or they read what it has written.
  EXPECT_THAT(outcome.findings[0].line, ::testing::AnyOf(12, 14));
}

// Lanes that read places of each other, so that no two are neighbours.
TEST(ChecksTest, AReadBehindABarrierOfSomeWarpsIsTheLastOne) {
  const auto kernel = [](const std::string& barrier) {
    return ElementKernel(R"(  setp.ge.u32 %p1, %r1, 64;
  setp.lt.u32 %p2, %r1, 32;
  and.b32 %r5, %r2, 124;
  xor.b32 %r5, %r5, 4; add.s32 %r5, %r5, %r3;
  @%p1 bra Out;
  @%p2 ld.shared.u32 %r6, [%r5];
  )" + barrier + R"(
  @%p2 bra Out;
  ld.shared.u32 %r6, [%r5];
  st.shared.u32 [%r5], %r1;
Out:
  bar.sync 0;
)");
  };
  Launcher right(kernel("bar.sync 1, 64;"));
  Launcher wrong(kernel("mov.u32 %r7, 0;"));
  right.checks.uninitialized = wrong.checks.uninitialized = false;
  for (uint64_t seed = 1; seed <= kSeedsOfChecks; ++seed) {
    right.seed = wrong.seed = seed;
    EXPECT_THAT(right.Run("K", {.block = {96, 1, 1}}, uint64_t{0}).findings, IsEmpty());
    const Outcome outcome = wrong.Run("K", {.block = {96, 1, 1}}, uint64_t{0});
    ASSERT_THAT(outcome.findings, SizeIs(1));
    EXPECT_EQ(outcome.findings[0].kind, Finding::Kind::kRace);
    // The first warp reads what the second has written, or that writes what both have read.
    EXPECT_THAT(outcome.findings[0].line, ::testing::AnyOf(15, 19));
  }
}

TEST(ChecksTest, ThreadsThatWriteOnePlaceRaceUnlessTheyAgree) {
  Launcher differ(ElementKernel("  st.global.u32 [%rd1], %r1;\n"));
  Launcher agree(ElementKernel("  mov.u32 %r5, 3;\n  st.global.u32 [%rd1], %r5;\n"));
  const uint64_t one = differ.Allocate(std::vector<uint32_t>(1));
  const Outcome racy = differ.Run("K", {.block = {64, 1, 1}}, one);
  ASSERT_THAT(racy.findings, SizeIs(1));
  EXPECT_EQ(racy.findings[0].line, 10);
  EXPECT_THAT(racy.findings[0].message, HasSubstr("thread (31, 0, 0) has written"));
  const uint64_t other = agree.Allocate(std::vector<uint32_t>(1));
  EXPECT_THAT(agree.Run("K", {.grid = {4, 1, 1}, .block = {64, 1, 1}}, other).findings, IsEmpty());
}

TEST(ChecksTest, CopiesOfAValueMayDifferInTheLastBit) {
  const auto found = [](const std::string& other) {
    Launcher launcher(ElementKernel("  setp.lt.u32 %p1, %r1, 32;\n  selp.b32 %r5, 0f3F800001, " +
                                    other + ", %p1;\n  st.shared.b32 [%r3], %r5;\n"));
    const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, uint64_t{0});
    EXPECT_THAT(outcome.findings, SizeIs(1));
    return outcome.findings.at(0);
  };
  EXPECT_EQ(found("0f3F801000").kind, Finding::Kind::kRace);
  EXPECT_EQ(found("0fBF800000").kind, Finding::Kind::kRace);
  EXPECT_EQ(found("0f3F800000").kind, Finding::Kind::kReplicas);
  EXPECT_THAT(found("0f3F800000").Describe(), HasSubstr("replicas differ: kernel K"));
  EXPECT_THAT(found("0f3F800000").message, HasSubstr("enable_fp_fusion=False"));
}

// Compilers let lanes compute one value each, which round differently, and store them all.
TEST(ChecksTest, LanesOfOneInstructionThatWriteOnePlaceDoNotRace) {
  for (const std::string store :
       {"st.global.u32 [%rd1], %r1;", "st.shared.u32 [%r3], %r1;",
        "st.global.v2.u32 [%rd1], {%r1, %r2};", "st.volatile.shared.u32 [%r3], %r1;",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r1};"}) {
    Launcher launcher(ElementKernel("  " + store + "\n"));
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(2));
    const Outcome outcome = launcher.Run("K", {.block = {32, 1, 1}}, out);
    EXPECT_FALSE(outcome.fault.has_value());
    EXPECT_THAT(outcome.findings, IsEmpty()) << store;
  }
}

TEST(ChecksTest, LanesOfTwoInstructionsThatWriteOnePlaceRace) {
  const auto stores = [](const std::string& between) {
    return ElementKernel(
        "  setp.eq.u32 %p1, %r1, 3;\n  setp.eq.u32 %p2, %r1, 5;\n"
        "  @%p1 st.shared.u32 [%r3], %r1;\n  " +
        between + "\n  @%p2 st.shared.u32 [%r3], %r1;\n");
  };
  Launcher racy(stores("mov.u32 %r5, 0;"));
  Launcher fine(stores("bar.warp.sync 0xffffffff;"));
  const uint64_t out = racy.Allocate(std::vector<uint32_t>(1));
  const Outcome outcome = racy.Run("K", {.block = {32, 1, 1}}, out);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].line, 14);
  EXPECT_EQ(outcome.findings[0].thread[0], 5u);
  EXPECT_THAT(outcome.findings[0].message, HasSubstr("thread (3, 0, 0) has written"));
  EXPECT_THAT(fine.Run("K", {.block = {32, 1, 1}}, out).findings, IsEmpty());
}

TEST(ChecksTest, LanesRaceWithAnEarlierExecutionOfTheirInstruction) {
  // Lane %r5 writes: 3, then 5.
  const auto kernel = [](const std::string& store) {
    return ElementKernel("  mov.u32 %r5, 3;\nAgain:\n  setp.eq.u32 %p1, %r1, %r5;\n  " + store +
                         "\n  add.s32 %r5, %r5, 2;\n  setp.lt.u32 %p2, %r5, 6;\n"
                         "  @%p2 bra Again;\n");
  };
  for (const auto& [store, races] : std::vector<std::pair<std::string, size_t>>{
           {"@%p1 st.shared.u32 [%r3], %r1;", 1},
           {"@%p1 red.global.add.u32 [%rd1], %r1;", 0},
           {"@%p1 st.global.u32 [%rd1], %r1;", 0},  // Both times they execute it together.
       }) {
    Launcher launcher(kernel(store));
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(1));
    EXPECT_THAT(launcher.Run("K", {.block = {32, 1, 1}}, out).findings, SizeIs(races)) << store;
  }
}

// Compilers let lanes hold one value each, where there are more lanes than values: all load what
// one of them stores.
TEST(ChecksTest, WhatAWarpDoesTogetherIsOrdered) {
  const std::string replicas = R"(  and.b32 %r5, %r1, 15;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd4, %rd1, %rd4;
  setp.lt.u32 %p1, %r1, 16;
)";
  const std::string load = "  ld.global.u32 %r6, [%rd4];\n";
  const std::string store = "  add.s32 %r6, %r6, 1;\n  @%p1 st.global.u32 [%rd4], %r6;\n";
  const std::string apart = "  @%p1 bra Met;\n  mov.u32 %r7, 1;\nMet:\n";
  const auto races = [&](const std::string& body, unsigned threads) {
    Launcher launcher(ElementKernel(replicas + body));
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(16));
    return launcher.Run("K", {.block = {threads, 1, 1}}, out).findings.size();
  };
  EXPECT_EQ(races(load + store, 32), 0u);
  EXPECT_EQ(races(load + store + load + store, 32), 0u);
  // The last lanes there are.
  EXPECT_EQ(races(load + store, 24), 0u);
  // Another warp is not ordered.
  EXPECT_EQ(races(load + store, 64), 1u);
  // Nor are lanes that went different ways: they may not be together again.
  EXPECT_EQ(races(apart + load + store, 32), 1u);
  EXPECT_EQ(races(apart + "  bar.warp.sync 0xffffffff;\n" + load + store, 32), 0u);
  EXPECT_EQ(races(apart + "  bar.sync 0;\n" + load + store, 32), 0u);
  // What was together before they parted stays ordered.
  EXPECT_EQ(races(load + apart + store, 32), 0u);
  // Lanes that one path has kept apart load what others stored.
  EXPECT_EQ(races("  @!%p1 bra Met;\n" + store + "Met:\n" + load, 32), 1u);
}

// Two warps hold each of 16 values, and the first stores them; both may store what they loaded.
TEST(ChecksTest, RacesThatChangeNothingAreHarmless) {
  const std::string load = R"(  and.b32 %r5, %r1, 15;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd4, %rd1, %rd4;
  setp.lt.u32 %p1, %r1, 16;
  ld.global.u32 %r6, [%rd4];
)";
  const std::string store = "  add.s32 %r7, %r6, 1;\n  @%p1 st.global.u32 [%rd4], %r7;\n";
  const std::string use = "  st.global.u32 [%rd3+64], %r6;\n";
  struct Run {
    size_t races;
    std::vector<uint32_t> memory;
  };
  const auto run = [](const std::string& body, bool strict, uint64_t seed) {
    Launcher launcher(ElementKernel(body));
    launcher.seed = seed;
    launcher.checks.harmless_races = strict;
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(16 + 64, 7));
    const size_t races = launcher.Run("K", {.block = {64, 1, 1}}, out).findings.size();
    return Run{races, launcher.Read<uint32_t>(out, 16 + 64)};
  };
  for (uint64_t seed = 1; seed <= kSeedsOfChecks; ++seed) {
    const Run harmless = run(load + store, false, seed);
    EXPECT_EQ(harmless.races, 0u);
    EXPECT_EQ(run(load + store, true, seed).races, 1u);
    for (size_t i = 0; i < 16; ++i)
      EXPECT_EQ(harmless.memory[i], 8u) << "as if it had run once";
    // What the second warp has loaded is stored: 7 or 8, as the order is.
    const Run used = run(load + store + use, false, seed);
    EXPECT_EQ(used.races, 1u);
    EXPECT_EQ(used.memory, run(load + store + use, true, seed).memory) << "that of the first run";
    // Both warps add one.
    EXPECT_GE(
        run(load + "  add.s32 %r7, %r6, 1;\n  st.global.u32 [%rd4], %r7;\n", false, seed).races,
        1u);
  }
}

TEST(ChecksTest, RacesThatAnOrderOfWarpsShowsAreReported) {
  const auto races = [](const std::string& body, unsigned threads, uint64_t seed) {
    Launcher launcher(ElementKernel("  setp.lt.u32 %p1, %r1, 32;\n" + body));
    launcher.seed = seed;
    launcher.checks.harmless_races = false;
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(256, 7));
    return launcher.Run("K", {.block = {threads, 1, 1}}, out).findings.size();
  };
  size_t put_back = 0;
  for (uint64_t seed = 1; seed <= kSeedsOfChecks; ++seed) {
    // Lanes of one warp that have parted: no order of warps tells them apart.
    EXPECT_EQ(races("  setp.eq.u32 %p2, %r1, 0;\n  @%p2 bra Writer;\n"
                    "  ld.global.u32 %r5, [%rd1];\n  st.global.u32 [%rd3+64], %r5;\n  bra Done;\n"
                    "Writer:\n  mov.u32 %r6, 9;\n  st.global.u32 [%rd1], %r6;\nDone:\n",
                    2, seed),
              1u);
    // One warp writes, and puts back what was there; the other sees either. In few orders.
    put_back += races(
        "  @!%p1 bra Reader;\n  mov.u32 %r5, 9;\n  mov.u32 %r6, 7;\n"
        "  st.global.u32 [%rd1], %r5;\n  add.u32 %r7, %r1, 1;\n"
        "  st.global.u32 [%rd1], %r6;\n  bra Done;\nReader:\n"
        "  ld.global.u32 %r8, [%rd1];\n  st.global.u32 [%rd3+256], %r8;\nDone:\n",
        64, seed);
  }
  EXPECT_GE(2 * put_back, kSeedsOfChecks);
}

TEST(ChecksTest, MatricesThatOneInstructionWritesTwiceRace) {
  // What lanes store grows by one.
  Launcher launcher(ElementKernel(R"(  mov.u32 %r5, 0;
Again:
  add.s32 %r6, %r5, %r1;
  stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r6};
  add.s32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, 2;
  @%p2 bra Again;
)"));
  const Outcome outcome = launcher.Run("K", {.block = {32, 1, 1}}, uint64_t{0});
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].line, 13);
}

// Which of them has won is open, even to the one that the executor lets win.
TEST(ChecksTest, WhatLanesWroteToOnePlaceIsReadOnceTheyHaveMet) {
  const auto kernel = [](const std::string& between) {
    return ElementKernel("  st.shared.u32 [%r3], %r1;\n  " + between +
                         "\n  setp.eq.u32 %p1, %r1, 31;\n  @%p1 ld.shared.u32 %r6, [%r3];\n");
  };
  Launcher racy(kernel("mov.u32 %r5, 0;"));
  Launcher fine(kernel("bar.warp.sync 0xffffffff;"));
  Launcher met(kernel("bar.sync 0;"));
  const Outcome outcome = racy.Run("K", {.block = {32, 1, 1}}, uint64_t{0});
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].line, 13);
  EXPECT_THAT(fine.Run("K", {.block = {32, 1, 1}}, uint64_t{0}).findings, IsEmpty());
  EXPECT_THAT(met.Run("K", {.block = {32, 1, 1}}, uint64_t{0}).findings, IsEmpty());
}

TEST(ChecksTest, NeighboursOfTwoBytesDoNotRace) {
  Launcher launcher(ElementKernel(R"(  cvt.u16.u32 %h1, %r1;
  mul.wide.u32 %rd4, %r1, 2;
  add.s64 %rd4, %rd1, %rd4;
  st.global.b16 [%rd4], %h1;
  mov.u32 %r5, s; add.s32 %r5, %r5, %r1; add.s32 %r5, %r5, %r1;
  st.shared.b16 [%r5], %h1;
)"));
  const uint64_t out = launcher.Allocate(std::vector<uint16_t>(64));
  EXPECT_THAT(launcher.Run("K", {.block = {64, 1, 1}}, out).findings, IsEmpty());
}

TEST(ChecksTest, BlocksThatWriteWhatOthersReadRace) {
  // Every block reads all of the row that block 0 writes.
  Launcher launcher(ElementKernel(R"(  mov.u32 %r5, %ctaid.x;
  setp.ne.u32 %p1, %r5, 0;
  @%p1 ld.global.u32 %r6, [%rd3];
  add.s32 %r1, %r1, 7;
  @!%p1 st.global.u32 [%rd3], %r1;
)"));
  for (uint64_t seed = 1; seed <= kSeedsOfChecks; ++seed) {
    launcher.seed = seed;
    const uint64_t out = launcher.Allocate(std::vector<uint32_t>(32));
    const Outcome outcome = launcher.Run("K", {.grid = {4, 1, 1}, .block = {32, 1, 1}}, out);
    ASSERT_FALSE(outcome.findings.empty()) << seed;
    EXPECT_THAT(outcome.findings[0].line, ::testing::AnyOf(12, 14));
    EXPECT_THAT(outcome.findings[0].message, HasSubstr("of global memory"));
  }
}

// The block that counts last reads what the others have written.
TEST(ChecksTest, AtomicsOrderWhatIsAroundThem) {
  const std::string text = R"(  mov.u32 %r5, %ctaid.x;
  mov.u32 %r6, %nctaid.x;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd4, %rd1, %rd4;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra Out;
  add.s32 %r7, %r5, 1;
  st.global.u32 [%rd4+4], %r7;
COUNT
  add.s32 %r9, %r6, -1;
  setp.ne.u32 %p2, %r8, %r9;
  @%p2 bra Out;
  mov.u32 %r10, 0; mov.u32 %r11, 0;
Sum:
  mul.wide.u32 %rd5, %r10, 4; add.s64 %rd5, %rd1, %rd5;
  ld.global.u32 %r12, [%rd5+4];
  add.s32 %r11, %r11, %r12;
  add.s32 %r10, %r10, 1;
  setp.lt.u32 %p3, %r10, %r6;
  @%p3 bra Sum;
  st.global.u32 [%rd1+64], %r11;
Out:
)";
  const auto with = [&text](const std::string& count) {
    std::string changed = text;
    changed.replace(changed.find("COUNT"), 5, count);
    return ElementKernel(changed);
  };
  Launcher right(with("  membar.gl; atom.global.add.u32 %r8, [%rd1], 1;"));
  Launcher wrong(
      with("  ld.global.u32 %r8, [%rd1]; add.s32 %r14, %r8, 1; st.global.u32 [%rd1], %r14;"));
  for (uint64_t seed = 1; seed <= kSeedsOfChecks; ++seed) {
    right.seed = wrong.seed = seed;
    const uint64_t out = right.Allocate(std::vector<uint32_t>(20));
    EXPECT_THAT(right.Run("K", {.grid = {8, 1, 1}, .block = {32, 1, 1}}, out).findings, IsEmpty());
    EXPECT_THAT(right.Read<uint32_t>(out + 64, 1), Each(36));
    const uint64_t other = wrong.Allocate(std::vector<uint32_t>(20));
    EXPECT_FALSE(wrong.Run("K", {.grid = {8, 1, 1}, .block = {32, 1, 1}}, other).findings.empty());
  }
}

TEST(ChecksTest, SwitchedOffNothingIsFound) {
  Launcher launcher(ElementKernel("  ld.shared.u32 %r9, [%r4];\n  st.global.u32 [%rd1], %r1;\n"));
  launcher.checks = Checks::All(false);
  const uint64_t one = launcher.Allocate(std::vector<uint32_t>(1));
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, one);
  EXPECT_THAT(outcome.findings, IsEmpty());
  EXPECT_THAT(outcome.touched, IsEmpty());
}

// --- the rest

TEST(ChecksTest, ReadsOfSharedMemoryThatNobodyWroteAreFoundOnce) {
  Launcher launcher(ElementKernel(R"(  setp.ne.u32 %p1, %r1, 5;
  @%p1 st.shared.u32 [%r4], %r1;
  bar.sync 0;
  ld.shared.u32 %r6, [%r4];
  st.global.u32 [%rd3], %r6;
)"));
  const uint64_t out = launcher.Allocate(std::vector<uint32_t>(32));
  const Outcome outcome = launcher.Run("K", {.grid = {3, 1, 1}, .block = {32, 1, 1}}, out);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings[0].kind, Finding::Kind::kUninitialized);
  EXPECT_EQ(outcome.findings[0].thread[0], 5u);
  EXPECT_EQ(outcome.findings[0].line, 13);
  launcher.checks.uninitialized = false;
  launcher.checks.races = false;
  EXPECT_THAT(launcher.Run("K", {.block = {32, 1, 1}}, out).findings, IsEmpty());
}

TEST(ChecksTest, ARowOfAMatrixThatNobodyWroteIsFound) {
  Launcher launcher(ElementKernel(R"(  and.b32 %r5, %r1, 28;
  setp.ne.u32 %p1, %r5, 20;
  @%p1 st.shared.u32 [%r4], %r1;
  bar.sync 0;
  and.b32 %r6, %r1, 7; shl.b32 %r6, %r6, 4; add.s32 %r6, %r6, %r3;
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6];
)"));
  const Outcome outcome = launcher.Run("K", {.block = {32, 1, 1}}, uint64_t{0});
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].kind, Finding::Kind::kUninitialized);
  EXPECT_EQ(outcome.findings[0].thread[0], 5u);
  EXPECT_EQ(outcome.findings[0].line, 15);
}

TEST(ChecksTest, LanesOfOneLoadAreCheckedInTheSpacesWhereTheyAre) {
  const auto kernel = [](const std::string& guard) {
    return ElementKernel(R"(  and.b32 %r5, %r1, 1;
  setp.eq.u32 %p1, %r5, 1;
  cvt.u64.u32 %rd4, %r4; cvta.shared.u64 %rd4, %rd4;
  selp.b64 %rd5, %rd4, %rd3, %p1;
  @)" + guard + R"( st.shared.u32 [%r4], %r1;
  bar.sync 0;
  ld.u32 %r6, [%rd5];
)");
  };
  Launcher right(kernel("%p1"));
  Launcher wrong(kernel("!%p1"));
  const uint64_t out = right.Allocate(std::vector<uint32_t>(32));
  const Outcome fine = right.Run("K", {.block = {32, 1, 1}}, out);
  EXPECT_THAT(fine.findings, IsEmpty());
  ASSERT_THAT(fine.touched, SizeIs(16));
  for (uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(fine.touched[i].begin, out + 8 * i);
    EXPECT_EQ(fine.touched[i].end, out + 8 * i + 4);
  }
  const uint64_t other = wrong.Allocate(std::vector<uint32_t>(32));
  const Outcome outcome = wrong.Run("K", {.block = {32, 1, 1}}, other);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].kind, Finding::Kind::kUninitialized);
  EXPECT_EQ(outcome.findings[0].thread[0], 1u);
  EXPECT_EQ(outcome.findings[0].line, 16);
}

TEST(ChecksTest, WhatIsTouchedIsExact) {
  Launcher launcher(ElementKernel(R"(  add.s32 %r5, %r1, 1;
  and.b32 %r6, %r1, 1;
  setp.eq.u32 %p1, %r6, 0;
  ld.global.u32 %r7, [%rd3];
  @%p1 st.global.u8 [%rd3+4097], %r5;
)"));
  const uint64_t out = launcher.AllocateBytes(8192);
  const Outcome outcome = launcher.Run("K", {.block = {40, 1, 1}}, out);
  ASSERT_THAT(outcome.touched, SizeIs(21));
  EXPECT_EQ(outcome.touched[0].begin, out);
  EXPECT_EQ(outcome.touched[0].end, out + 160);
  EXPECT_FALSE(outcome.touched[0].writes);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(outcome.touched[i + 1].begin, out + 4097 + 8 * i);
    EXPECT_EQ(outcome.touched[i + 1].end, out + 4098 + 8 * i);
    EXPECT_TRUE(outcome.touched[i + 1].writes);
  }
}

TEST(ChecksTest, FindingsSayWhereTheSourceIs) {
  Launcher launcher(WithVersion(R"(.visible .entry K(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  .loc 1 17 3
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  .loc 1 18 5
  st.global.u32 [%rd1], %r1;
  ret;
}
.file 1 "kernels/softmax.py"
)"));
  const uint64_t one = launcher.Allocate(std::vector<uint32_t>(1));
  const Outcome outcome = launcher.Run("K", {.grid = {1, 2, 1}, .block = {32, 1, 1}}, one);
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].source, "kernels/softmax.py:18");
  EXPECT_THAT(outcome.findings[0].Describe(), HasSubstr("race: kernel K, block (0, "));
  EXPECT_THAT(outcome.findings[0].Describe(), HasSubstr("PTX line 10, kernels/softmax.py:18: "));
}

}  // namespace
}  // namespace coppice::ptx
