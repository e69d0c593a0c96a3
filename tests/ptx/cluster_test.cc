// Goal: blocks of a cluster run at the same time, know where they are, meet at their barrier, reach
// each other's shared memory, and get what one of them copies for all. Method: kernels that pass
// values around a cluster, on several seeds; and what is wrong with them.

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/launch.h"
#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeedsOfClusters = 20;

// Each thread gives its value to the next block of its cluster, by a store there, and takes that of
// the block before by a load.
constexpr char kRing[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>;
  .shared .align 16 .b32 mine[32]; .shared .align 16 .b32 given[32];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r4, %cluster_nctarank;
  mad.lo.u32 %r5, %r2, 32, %r1;
  shl.b32 %r6, %r1, 2;
  mov.u32 %r7, mine; add.s32 %r7, %r7, %r6;
  mov.u32 %r8, given; add.s32 %r8, %r8, %r6;
  st.shared.u32 [%r7], %r5;
  add.s32 %r9, %r3, 1; rem.u32 %r9, %r9, %r4;
  add.s32 %r10, %r3, %r4; sub.s32 %r10, %r10, 1; rem.u32 %r10, %r10, %r4;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mapa.shared::cluster.u32 %r11, %r8, %r9;
  st.shared::cluster.u32 [%r11], %r5;
  mapa.shared::cluster.u32 %r12, %r7, %r10;
  ld.shared::cluster.u32 %r13, [%r12];
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  ld.shared.u32 %r14, [%r8];
  mul.wide.u32 %rd2, %r5, 8; add.s64 %rd2, %rd2, %rd1;
  st.global.v2.u32 [%rd2], {%r13, %r14};
  ret;
}
)";

TEST(ClusterTest, ValuesGoAround) {
  Launcher launcher(kRing);
  for (const unsigned size : {1U, 2U, 4U, 8U}) {
    for (uint64_t seed = 1; seed <= kSeedsOfClusters; ++seed) {
      launcher.seed = seed;
      const uint64_t out = launcher.AllocateBytes(16 * 32 * 8);
      ExpectClean(launcher.Run(
          "K", {.grid = {16, 1, 1}, .block = {32, 1, 1}, .cluster = {size, 1, 1}}, out));
      const auto stored = launcher.Read<uint32_t>(out, 16 * 32 * 2);
      for (uint32_t thread = 0; thread < 16 * 32; ++thread) {
        const uint32_t block = thread / 32;
        const uint32_t before = block / size * size + (block % size + size - 1) % size;
        ASSERT_EQ(stored[2 * thread], before * 32 + thread % 32) << size << " " << thread;
        ASSERT_EQ(stored[2 * thread + 1], before * 32 + thread % 32) << size << " " << thread;
      }
    }
  }
}

constexpr char kWhere[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 out) .reqnctapercluster 2, 2, 1 {
  .reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x;
  mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 32; add.s64 %rd2, %rd2, %rd1;
  mov.u32 %r5, %clusterid.x; mov.u32 %r6, %clusterid.y; mov.u32 %r7, %cluster_ctaid.x;
  mov.u32 %r8, %cluster_ctaid.y;
  mov.u32 %r9, %cluster_ctarank; mov.u32 %r10, %nclusterid.x; mov.u32 %r11, %cluster_nctaid.y;
  selp.u32 %r12, 1, 0, %is_explicit_cluster;
  st.global.v4.u32 [%rd2], {%r5, %r6, %r7, %r8};
  st.global.v4.u32 [%rd2 + 16], {%r9, %r10, %r11, %r12};
  ret;
}
)";

TEST(ClusterTest, BlocksKnowWhereTheyAre) {
  Launcher launcher(kWhere);
  const uint64_t out = launcher.AllocateBytes(4 * 4 * 32);
  ExpectClean(launcher.Run("K", {.grid = {4, 4, 1}, .cluster = {2, 2, 1}}, out));
  const auto stored = launcher.Read<uint32_t>(out, 128);
  for (uint32_t y = 0; y < 4; ++y)
    for (uint32_t x = 0; x < 4; ++x) {
      const auto block = static_cast<long>(8 * (4 * y + x));
      EXPECT_THAT(std::vector<uint32_t>(stored.begin() + block, stored.begin() + block + 8),
                  testing::ElementsAre(x / 2, y / 2, x % 2, y % 2, x % 2 + 2 * (y % 2), 2, 2, 1));
    }
}

TEST(ClusterTest, WhatIsNotInTheClusterIsAFault) {
  std::string text = kRing;
  text.replace(text.find("rem.u32 %r9, %r9, %r4;"), 22, "");
  Launcher launcher(text);
  EXPECT_THAT(launcher
                  .Run("K", {.grid = {4, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}},
                       launcher.AllocateBytes(1024))
                  .fault->message,
              HasSubstr("asks for an address in the block of rank 2, but the cluster size is 2"));
}

TEST(ClusterTest, ABlockThatNeverArrivesIsADeadlock) {
  std::string text = kRing;
  text.insert(text.find("barrier.cluster.arrive.aligned"),
              "setp.eq.u32 %p1, %r3, 0;\nL: @%p1 bra L;\n");
  Launcher launcher(text);
  const Outcome outcome =
      launcher.Run("K", {.grid = {4, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}},
                   launcher.AllocateBytes(1024));
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kDeadlock);
}

// Block 0 copies a row to all blocks; each waits at its own mbarrier.
constexpr char kMulticast[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 from, .param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>; .reg .b16 %h<2>;
  .shared .align 128 .b32 s[32]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, bar; mov.u32 %r4, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0; setp.eq.and.u32 %p2, %r4, 0, %p1;
  @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u16 %h1, 15;
  @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
      [%r2], [%rd1], 128, [%r3], %h1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
  @!%p3 bra WAIT;
  shl.b32 %r5, %r1, 2; add.s32 %r5, %r5, %r2;
  ld.shared.u32 %r6, [%r5];
  mov.u32 %r7, %ctaid.x; mad.lo.u32 %r8, %r7, 32, %r1;
  mul.wide.u32 %rd3, %r8, 4; add.s64 %rd3, %rd3, %rd2;
  st.global.u32 [%rd3], %r6;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
)";

TEST(ClusterTest, OneCopyReachesAllBlocks) {
  Launcher launcher(kMulticast);
  std::vector<uint32_t> row(32);
  for (uint32_t i = 0; i < 32; ++i)
    row[i] = 100 + i;
  for (uint64_t seed = 1; seed <= kSeedsOfClusters; ++seed) {
    launcher.seed = seed;
    const uint64_t out = launcher.AllocateBytes(8 * 128);
    ExpectClean(launcher.Run("K", {.grid = {8, 1, 1}, .block = {32, 1, 1}, .cluster = {4, 1, 1}},
                             launcher.Allocate(row), out));
    const auto stored = launcher.Read<uint32_t>(out, 256);
    for (uint32_t i = 0; i < 256; ++i)
      ASSERT_EQ(stored[i], 100 + i % 32) << i;
  }
}

// A kernel of two blocks, of which both execute these lines.
std::string PairKernel(std::string_view body) {
  return std::string(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 out) .reqnctapercluster 2 {
  .reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<8>;
  .shared .align 128 .b32 s[32]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, bar; mov.u32 %r4, %cluster_ctarank;
  xor.b32 %r5, %r4, 1; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0;
)") + std::string(body) +
         "ret;\n}\n";
}

Outcome RunPair(std::string_view body, uint64_t seed = 1) {
  Launcher launcher(PairKernel(body));
  launcher.seed = seed;
  return launcher.Run("K", {.grid = {2, 1, 1}, .block = {64, 1, 1}}, launcher.AllocateBytes(1024));
}

TEST(ClusterTest, ABarrierWaitsForThoseWhoHaveNotExited) {
  // Block 0 arrives and exits; its threads do not stand in for those of block 1.
  for (uint64_t seed = 1; seed <= kSeedsOfClusters; ++seed)
    ExpectClean(
        RunPair("barrier.cluster.arrive;\n@%p2 exit;\nbarrier.cluster.wait;\n"
                "barrier.cluster.arrive;\nbarrier.cluster.wait;\n",
                seed));
}

TEST(ClusterTest, LanesWaitInPhasesOfTheirOwn) {
  // Odd lanes are a phase ahead.
  ExpectClean(
      RunPair("and.b32 %r6, %r1, 1; setp.eq.u32 %p3, %r6, 0;\nbarrier.cluster.arrive;\n"
              "@%p3 bra EVEN;\nbarrier.cluster.wait;\nbarrier.cluster.arrive;\n"
              "bra END;\nEVEN:\nbarrier.cluster.wait;\nbarrier.cluster.arrive;\nEND:\n"
              "barrier.cluster.wait;\n"));
}

TEST(ClusterTest, WhoMisusesTheBarrierIsFound) {
  EXPECT_THAT(RunPair("barrier.cluster.wait;\n").fault->message, HasSubstr("has not arrived"));
  EXPECT_THAT(RunPair("barrier.cluster.arrive;\nbarrier.cluster.arrive;\n").fault->message,
              HasSubstr("arrives at the cluster barrier again"));
}

TEST(ClusterTest, ABlockThatHasEndedHasNoMemory) {
  // Block 0 says that it ends; block 1 waits for that.
  const Outcome outcome = RunPair(
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\nmapa.shared::cluster.u32 %r6, %r2, %r5;\n"
      "@%p2 st.relaxed.gpu.global.u32 [%rd1], 1;\n@%p2 exit;\nL:\n"
      "ld.relaxed.gpu.global.u32 %r8, [%rd1]; setp.ne.u32 %p4, %r8, 1;\n@%p4 bra L;\n"
      "ld.shared::cluster.u32 %r7, [%r6];\n");
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_THAT(outcome.fault->message, HasSubstr("this block has ended"));
}

TEST(ClusterTest, ACopyOfAThreadStaysInItsBlock) {
  const Outcome outcome = RunPair(
      "mapa.shared::cluster.u32 %r6, %r2, %r5;\n"
      "cp.async.ca.shared.global [%r6], [%rd1], 4;\n");
  EXPECT_THAT(outcome.fault->message, HasSubstr("outside the block's own shared memory"));
}

TEST(ClusterTest, AnArrivalAtAnotherBlockOrdersGlobalMemory) {
  // Block 1 writes and arrives at block 0's barrier, which waits and reads.
  for (uint64_t seed = 1; seed <= kSeedsOfClusters; ++seed)
    ExpectClean(
        RunPair("@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;\n"
                "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
                "setp.ne.u32 %p3, %r4, 0; and.pred %p3, %p3, %p1; and.pred %p4, %p2, %p1;\n"
                "@%p3 st.global.u32 [%rd1], 7;\n"
                "mapa.shared::cluster.u32 %r6, %r3, %r5;\n"
                "@%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n"
                "@!%p4 bra END;\nWAIT:\n"
                "mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r3], 0;\n"
                "@!%p5 bra WAIT;\nld.global.u32 %r7, [%rd1];\nEND:\n"
                "barrier.cluster.arrive;\nbarrier.cluster.wait;\n",
                seed));
}

TEST(ClusterTest, AddressesOfOtherBlocksAreTold) {
  Launcher launcher(
      PairKernel("cvt.u64.u32 %rd2, %r2; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, %r5;\n"
                 "isspacep.shared::cta %p3, %rd2; isspacep.shared::cta %p4, %rd3;\n"
                 "isspacep.shared::cluster %p5, %rd3;\n"
                 "selp.u32 %r6, 1, 0, %p3; selp.u32 %r7, 1, 0, %p4; selp.u32 %r8, 1, 0, %p5;\n"
                 "getctarank.u64 %r9, %rd3; mad.lo.u32 %r10, %r4, 16, 0;\n"
                 "cvt.u64.u32 %rd4, %r10; add.s64 %rd4, %rd4, %rd1;\n"
                 "@%p1 st.global.v4.u32 [%rd4], {%r6, %r7, %r8, %r9};\n"));
  const uint64_t out = launcher.AllocateBytes(32);
  ExpectClean(launcher.Run("K", {.grid = {2, 1, 1}, .block = {32, 1, 1}}, out));
  EXPECT_THAT(launcher.Read<uint32_t>(out, 8), testing::ElementsAre(1, 0, 1, 1, 1, 0, 1, 0));
}

}  // namespace
}  // namespace coppice::ptx
