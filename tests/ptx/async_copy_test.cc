// Goal: copies by cp.async land when they are waited for, and not before; who does not wait, or
// does not order others behind the wait, is found at the line. Method: kernels that pass tiles
// through shared memory, and mutants of each, a line changed, on several seeds.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/launch.h"
#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint64_t kSeedsOfCopies = 20;

// A text whose lines are known by what they contain.
std::string With(std::string text, std::string_view line, std::string_view other) {
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), other);
}

int LineOf(const std::string& text, std::string_view part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
}

// --- one tile

// Thread t copies element t, and reads that of its neighbour; shared memory holds 7 before.
constexpr char kExchange[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 in, .param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .shared .align 16 .b32 s[64];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.s32 %r4, %r2, %r3;
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  st.shared.u32 [%r4], 7;
  bar.sync 0;
  cp.async.ca.shared.global [%r4], [%rd4], 4;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  xor.b32 %r5, %r3, 252; add.s32 %r5, %r5, %r2;
  ld.shared.u32 %r6, [%r5];
  st.global.u32 [%rd5], %r6;
  ret;
}
)";

std::vector<uint32_t> Numbers(size_t count) {
  std::vector<uint32_t> numbers(count);
  for (size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<uint32_t>(1000 + 3 * i);
  return numbers;
}

TEST(AsyncCopyTest, BytesLandAtTheWait) {
  Launcher launcher(kExchange);
  for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
    launcher.seed = seed;
    const uint64_t in = launcher.Allocate(Numbers(64));
    const uint64_t out = launcher.AllocateBytes(256);
    ExpectClean(launcher.Run("K", {.block = {64, 1, 1}}, in, out));
    const auto stored = launcher.Read<uint32_t>(out, 64);
    for (size_t i = 0; i < stored.size(); ++i)
      EXPECT_EQ(stored[i], 1000 + 3 * (63 - i));
  }
}

TEST(AsyncCopyTest, WithoutTheWaitOldBytesAreReadWhichIsARace) {
  const std::string text = With(kExchange, "  cp.async.wait_group 0;\n", "\n");
  Launcher launcher(text);
  for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
    launcher.seed = seed;
    const uint64_t in = launcher.Allocate(Numbers(64));
    const uint64_t out = launcher.AllocateBytes(256);
    const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, in, out);
    EXPECT_THAT(launcher.Read<uint32_t>(out, 64), Each(7));
    ASSERT_EQ(outcome.findings.size(), 1u);
    EXPECT_EQ(outcome.findings[0].kind, Finding::Kind::kRace);
    EXPECT_EQ(outcome.findings[0].line, LineOf(text, "ld.shared"));
    EXPECT_THAT(outcome.findings[0].message,
                HasSubstr("an asynchronous copy that no thread has waited for"));
  }
}

TEST(AsyncCopyTest, EvenTheThreadThatCopiesHasToWait) {
  const std::string text = With(With(kExchange, "  cp.async.wait_group 0;\n", "\n"),
                                "xor.b32 %r5, %r3, 252", "mov.b32 %r5, %r3");
  const uint64_t line = static_cast<uint64_t>(LineOf(text, "ld.shared"));
  Launcher launcher(text);
  const uint64_t in = launcher.Allocate(Numbers(64));
  const uint64_t out = launcher.AllocateBytes(256);
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, in, out);
  ASSERT_EQ(outcome.findings.size(), 1u);
  EXPECT_EQ(outcome.findings[0].line, static_cast<int>(line));
}

TEST(AsyncCopyTest, WhatNobodyHasWaitedForIsNotWritten) {
  Launcher launcher(With(With(kExchange, "  cp.async.wait_group 0;\n", "\n"),
                         "  st.shared.u32 [%r4], 7;\n", "\n"));
  launcher.checks.races = false;
  const uint64_t in = launcher.Allocate(Numbers(64));
  const uint64_t out = launcher.AllocateBytes(256);
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, in, out);
  ASSERT_EQ(outcome.findings.size(), 1u);
  EXPECT_EQ(outcome.findings[0].kind, Finding::Kind::kUninitialized);
}

TEST(AsyncCopyTest, AWaitWithoutABarrierOrdersNobodyElse) {
  const std::string text =
      With(kExchange, "  cp.async.wait_group 0;\n  bar.sync 0;\n", "  cp.async.wait_group 0;\n\n");
  Launcher launcher(text);
  for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
    launcher.seed = seed;
    const uint64_t in = launcher.Allocate(Numbers(64));
    const Outcome outcome =
        launcher.Run("K", {.block = {64, 1, 1}}, in, launcher.AllocateBytes(256));
    ASSERT_FALSE(outcome.findings.empty());
    // The read that comes too early, or the copy that comes behind it.
    EXPECT_THAT(outcome.findings[0].line,
                ::testing::AnyOf(LineOf(text, "ld.shared"), LineOf(text, "cp.async.ca")));
  }
}

TEST(AsyncCopyTest, CopiesOfTheSameBitsToOnePlaceDoNotRace) {
  // All threads copy the first element to the first place, some before others have waited.
  Launcher launcher(With(kExchange, "[%r4], [%rd4], 4", "[%r2], [%rd1], 4"));
  for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
    launcher.seed = seed;
    const uint64_t in = launcher.Allocate(Numbers(64));
    const uint64_t out = launcher.AllocateBytes(256);
    ExpectClean(launcher.Run("K", {.block = {64, 1, 1}}, in, out));
    EXPECT_EQ(launcher.Read<uint32_t>(out, 64)[63], 1000u);
  }
}

TEST(AsyncCopyTest, GroupsLandInTheirOrder) {
  constexpr char kGroups[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 in, .param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .shared .align 16 .b32 s[4];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  st.shared.v4.u32 [s], {1, 2, 3, 4};
  cp.async.ca.shared.global [s], [%rd1], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [s+4], [%rd1+4], 4;
  cp.async.commit_group;
  cp.async.commit_group;
  cp.async.ca.shared.global [s+8], [%rd1+8], 4;
  cp.async.wait_group 2;
  ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s];
  st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};
  cp.async.wait_group 0;
  ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s];
  st.global.v4.u32 [%rd2+16], {%r1, %r2, %r3, %r4};
  cp.async.wait_all;
  ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s];
  st.global.v4.u32 [%rd2+32], {%r1, %r2, %r3, %r4};
  ret;
}
)";
  Launcher launcher(kGroups);
  launcher.checks.races = false;
  const uint64_t in = launcher.Allocate<uint32_t>({11, 12, 13});
  const uint64_t out = launcher.AllocateBytes(48);
  ExpectClean(launcher.Run("K", {}, in, out));
  EXPECT_EQ(launcher.Read<uint32_t>(out, 12),
            (std::vector<uint32_t>{11, 2, 3, 4, 11, 12, 3, 4, 11, 12, 13, 4}));
}

TEST(AsyncCopyTest, WhatIsNotReadIsZero) {
  constexpr char kSizes[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 in, .param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .shared .align 16 .b8 s[64];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, s; mov.u32 %r2, 5; mov.u32 %r3, 0; setp.eq.u32 %p1, %r3, 0;
  cvt.u64.u32 %rd3, %r1; cvta.shared.u64 %rd3, %rd3;
  st.shared.v4.u32 [%r1], {-1, -1, -1, -1}; st.shared.v4.u32 [%r1+16], {-1, -1, -1, -1};
  st.shared.v4.u32 [%r1+32], {-1, -1, -1, -1}; st.shared.v4.u32 [%r1+48], {-1, -1, -1, -1};
  cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16, %r2;
  cp.async.ca.shared.global [%r1+16], [%rd1+8], 8;
  cp.async.ca.shared::cta.global [%r1+24], [%rd1+4], 4, 1;
  cp.async.cg.shared.global [%r1+32], [0], 16, %r3;
  cp.async.ca.shared.global [%r1+48], [%rd1+8], 8, %p1;
  cp.async.ca.shared.global [%r1+56], [%rd1+4], 4, !%p1;
  cp.async.wait_all;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
  ld.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3+16]; st.global.v4.u32 [%rd2+16], {%r4, %r5, %r6, %r7};
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [s+32]; st.global.v4.u32 [%rd2+32], {%r4, %r5, %r6, %r7};
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [s+48]; st.global.v4.u32 [%rd2+48], {%r4, %r5, %r6, %r7};
  ret;
}
)";
  Launcher launcher(kSizes);
  const uint64_t in = launcher.Allocate<uint32_t>({0x04030201, 0x08070605, 0x0c0b0a09, 0x100f0e0d});
  const uint64_t out = launcher.AllocateBytes(64);
  ExpectClean(launcher.Run("K", {}, in, out));
  constexpr uint32_t kOld = 0xffffffff;
  EXPECT_EQ(launcher.Read<uint32_t>(out, 16),
            (std::vector<uint32_t>{0x04030201, 5, 0, 0, 0x0c0b0a09, 0x100f0e0d, 5, kOld, 0, 0, 0, 0,
                                   0, 0, 0x08070605, kOld}));
}

TEST(AsyncCopyTest, ASourceThatIsNotThereIsFoundWhereTheCopyBegins) {
  Launcher launcher(kExchange);
  const uint64_t in = launcher.Allocate(Numbers(40));
  const Outcome outcome = launcher.Run("K", {.block = {64, 1, 1}}, in, launcher.AllocateBytes(256));
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress);
  EXPECT_EQ(outcome.fault->line, LineOf(kExchange, "cp.async.ca"));
  EXPECT_EQ(outcome.fault->thread[0], 40u);
}

// --- a product of matrices whose tiles are copied one step ahead

// C (32 x 8) = A (32 x 16 tiles) B, f16 to f32; B is stored by columns. Each of two warps has 16
// rows of C; all threads copy tiles, two stages of A (1,024 bytes) and B (256).
constexpr char kProduct[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 tiles) {
  .reg .pred %p<8>; .reg .b32 %r<40>; .reg .f32 %f<8>; .reg .b64 %rd<16>;
  .shared .align 16 .b8 stages[2560];
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r1, [tiles];
  mov.u32 %r2, %tid.x; mov.u32 %r3, stages;
  shr.u32 %r4, %r2, 1; and.b32 %r5, %r2, 1; shl.b32 %r6, %r1, 5; mul.lo.s32 %r7, %r4, %r6;
  shl.b32 %r8, %r5, 4; add.s32 %r7, %r7, %r8; cvt.u64.u32 %rd4, %r7;
  add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; setp.lt.u32 %p1, %r2, 16;
  shl.b32 %r9, %r2, 4; add.s32 %r9, %r9, %r3;
  cp.async.cg.shared.global [%r9], [%rd5], 16;
  @%p1 cp.async.cg.shared.global [%r9+1024], [%rd6], 16;
  cp.async.commit_group;
  mov.u32 %r10, 0; mov.u32 %r11, 0;
  and.b32 %r12, %r2, 31; shr.u32 %r13, %r2, 5; and.b32 %r14, %r12, 15; shr.u32 %r15, %r12, 4;
  shl.b32 %r16, %r13, 9; shl.b32 %r17, %r14, 5; add.s32 %r16, %r16, %r17;
  shl.b32 %r17, %r15, 4; add.s32 %r16, %r16, %r17; add.s32 %r16, %r16, %r3;
  and.b32 %r18, %r12, 7; shr.u32 %r19, %r14, 3; shl.b32 %r18, %r18, 5; shl.b32 %r19, %r19, 4;
  add.s32 %r18, %r18, %r19; add.s32 %r18, %r18, %r3;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
Loop:
  add.s32 %r20, %r10, 1; setp.ge.u32 %p2, %r20, %r1; sub.s32 %r21, 1280, %r11;
  @%p2 bra Last;
  add.s32 %r22, %r9, %r21; add.s64 %rd5, %rd5, 32; add.s64 %rd6, %rd6, 32;
  cp.async.cg.shared.global [%r22], [%rd5], 16;
  @%p1 cp.async.cg.shared.global [%r22+1024], [%rd6], 16;
Last:
  cp.async.commit_group;
  cp.async.wait_group 1;
  bar.sync 0;  // All copies of this tile have landed.
  add.s32 %r23, %r16, %r11; add.s32 %r24, %r18, %r11;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r25, %r26, %r27, %r28}, [%r23];
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r29, %r30}, [%r24+1024];
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4},
      {%r25, %r26, %r27, %r28}, {%r29, %r30}, {%f1, %f2, %f3, %f4};
  bar.sync 0;  // This tile has been read.
  mov.u32 %r11, %r21; mov.u32 %r10, %r20;
  @!%p2 bra Loop;
  shr.u32 %r31, %r12, 2; shl.b32 %r32, %r13, 4; add.s32 %r31, %r31, %r32; shl.b32 %r31, %r31, 5;
  and.b32 %r33, %r12, 3; shl.b32 %r33, %r33, 3; add.s32 %r31, %r31, %r33;
  cvt.u64.u32 %rd7, %r31; add.s64 %rd7, %rd3, %rd7;
  st.global.v2.f32 [%rd7], {%f1, %f2}; st.global.v2.f32 [%rd7+256], {%f3, %f4};
  ret;
}
)";

constexpr size_t kRows = 32;
constexpr size_t kColumns = 8;
constexpr uint32_t kTiles = 5;
constexpr size_t kDepth = 16 * kTiles;

// An integer from -3 to 3, and its bits as f16.
int Small(size_t i) {
  return static_cast<int>(i * i % 31 % 7) - 3;
}
uint16_t HalfOf(int value) {
  if (value == 0) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - (112 << 23)) >> 13);
}

struct Tiled {
  explicit Tiled(Launcher& launcher) {
    std::vector<uint16_t> left(kRows * kDepth);
    std::vector<uint16_t> right(kColumns * kDepth);
    for (size_t i = 0; i < left.size(); ++i)
      left[i] = HalfOf(Small(i));
    for (size_t i = 0; i < right.size(); ++i)
      right[i] = HalfOf(Small(i + 5));
    a = launcher.Allocate(left);
    b = launcher.Allocate(right);
    c = launcher.AllocateBytes(kRows * kColumns * sizeof(float));
  }
  Outcome Run(Launcher& launcher) const {
    return launcher.Run("K", {.block = {64, 1, 1}}, a, b, c, kTiles);
  }

  uint64_t a;
  uint64_t b;
  uint64_t c;
};

TEST(AsyncPipelineTest, TilesThatAreCopiedAheadGiveTheProduct) {
  Launcher launcher(kProduct);
  for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
    launcher.seed = seed;
    const Tiled tiled(launcher);
    ExpectClean(tiled.Run(launcher));
    const auto product = launcher.Read<float>(tiled.c, kRows * kColumns);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < kColumns; ++column) {
        int sum = 0;
        for (size_t k = 0; k < kDepth; ++k)
          sum += Small(row * kDepth + k) * Small(column * kDepth + k + 5);
        ASSERT_EQ(product[row * kColumns + column], static_cast<float>(sum)) << row << column;
      }
    }
  }
}

struct PipelineMutant {
  const char* name;
  const char* line;
  const char* other;
  std::vector<const char*> found_at;
};
const std::vector<PipelineMutant>& PipelineMutants() {
  static const std::vector<const char*> reads = {"ldmatrix.sync.aligned.m8n8.x4",
                                                 "ldmatrix.sync.aligned.m8n8.x2"};
  // Whichever of a read and a copy comes second.
  static const std::vector<const char*> both = {reads[0],       reads[1],         "[%r9], [%rd5]",
                                                "[%r9+1024], ", "[%r22], [%rd5]", "[%r22+1024], "};
  static const std::vector<PipelineMutant> mutants = {
      {"NoWait", "  cp.async.wait_group 1;\n", "\n", reads},
      {"WaitsForTooFew", "wait_group 1;", "wait_group 2;", reads},
      {"NoBarrierBehindTheWait", "  bar.sync 0;  // All copies", "  // All copies", both},
      {"NoBarrierBehindTheRead", "  bar.sync 0;  // This tile", "  // This tile", both},
  };
  return mutants;
}

TEST(AsyncPipelineTest, EveryMissingWaitOrBarrierIsFoundOnEverySeed) {
  for (const PipelineMutant& mutant : PipelineMutants()) {
    SCOPED_TRACE(mutant.name);
    const std::string text = With(kProduct, mutant.line, mutant.other);
    std::vector<int> lines;
    for (const char* const part : mutant.found_at)
      lines.push_back(LineOf(text, part));
    Launcher launcher(text);
    launcher.checks.uninitialized = false;  // The first tile is not there either.
    for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
      launcher.seed = seed;
      const Outcome outcome = Tiled(launcher).Run(launcher);
      ASSERT_FALSE(outcome.findings.empty()) << "seed " << seed;
      for (const Finding& finding : outcome.findings) {
        EXPECT_EQ(finding.kind, Finding::Kind::kRace) << finding.Describe();
        EXPECT_THAT(lines, Contains(finding.line)) << finding.Describe();
      }
    }
  }
}

TEST(AsyncPipelineTest, ARowBehindTheTileIsFoundAtItsLine) {
  const std::string text = With(kProduct, "[%r24+1024];", "[%r24+2432];");
  Launcher launcher(text);
  const Outcome outcome = Tiled(launcher).Run(launcher);
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress);
  EXPECT_EQ(outcome.fault->line, LineOf(text, "m8n8.x2"));
  EXPECT_THAT(outcome.fault->message, HasSubstr("reads 16 bytes"));
}

// --- a warp that copies for another, by mbarriers

constexpr char kBox[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 in, .param .u64 out, .param .u32 rounds) {
  .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<16>;
  .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 16 .b32 box[32];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [rounds];
  mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 31; shl.b32 %r4, %r3, 2; mov.u32 %r5, box;
  cvt.u64.u32 %rd3, %r4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  add.s32 %r6, %r5, %r4; xor.b32 %r7, %r4, 124; add.s32 %r7, %r7, %r5; mov.u32 %r8, 0;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra Ready;
  mbarrier.init.shared.b64 [full], 32;
  mbarrier.init.shared.b64 [empty], 32;
Ready:
  bar.sync 0;
  setp.ge.u32 %p2, %r2, 32;
  @%p2 bra Take;
Give:
  and.b32 %r9, %r8, 1; xor.b32 %r9, %r9, 1;
WaitEmpty:
  mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r9;
  @!%p3 bra WaitEmpty;
  cp.async.ca.shared.global [%r6], [%rd1], 4;
  cp.async.mbarrier.arrive.noinc.shared.b64 [full];
  add.s64 %rd1, %rd1, 128; add.s32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, %r1;
  @%p4 bra Give;
  ret;
Take:
  and.b32 %r9, %r8, 1;
WaitFull:
  mbarrier.try_wait.parity.shared.b64 %p3, [full], %r9;
  @!%p3 bra WaitFull;
  ld.shared.u32 %r10, [%r7];
  mbarrier.arrive.shared.b64 %rd4, [empty];
  st.global.u32 [%rd2], %r10;
  add.s64 %rd2, %rd2, 128; add.s32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, %r1;
  @%p4 bra Take;
  ret;
}
)";

TEST(MbarrierLaunchTest, AWarpPassesTilesToAnother) {
  Launcher launcher(kBox);
  constexpr uint32_t kRounds = 7;
  for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
    launcher.seed = seed;
    const uint64_t in = launcher.Allocate(Numbers(32 * kRounds));
    const uint64_t out = launcher.AllocateBytes(128 * kRounds);
    ExpectClean(launcher.Run("K", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, in, out, kRounds));
    const auto taken = launcher.Read<uint32_t>(out, 32 * kRounds);
    for (size_t i = 0; i < taken.size(); ++i)
      ASSERT_EQ(taken[i], 1000 + 3 * (i / 32 * 32 + 31 - i % 32)) << i;
  }
}

TEST(MbarrierLaunchTest, WhoDoesNotWaitForItRaces) {
  for (const char* const wait : {"  @!%p3 bra WaitFull;\n", "  @!%p3 bra WaitEmpty;\n"}) {
    const std::string text = With(kBox, wait, "\n");
    Launcher launcher(text);
    constexpr uint32_t kRounds = 7;
    for (uint64_t seed = 1; seed <= kSeedsOfCopies; ++seed) {
      launcher.seed = seed;
      launcher.checks.uninitialized = false;
      const uint64_t in = launcher.Allocate(Numbers(32 * kRounds));
      const uint64_t out = launcher.AllocateBytes(128 * kRounds);
      const Outcome outcome =
          launcher.Run("K", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, in, out, kRounds);
      // Without a wait for `full` the giver's first copies may come last: then it waits for ever.
      ASSERT_TRUE(!outcome.findings.empty() || outcome.fault.has_value()) << wait << seed;
      for (const Finding& finding : outcome.findings)
        EXPECT_EQ(finding.kind, Finding::Kind::kRace) << finding.Describe();
    }
  }
}

TEST(MbarrierLaunchTest, ABarrierThatNobodyArrivesAtIsADeadlock) {
  Launcher launcher(With(kBox, "  cp.async.mbarrier.arrive.noinc.shared.b64 [full];\n", "\n"));
  const uint64_t in = launcher.Allocate(Numbers(64));
  const uint64_t out = launcher.AllocateBytes(256);
  const Outcome outcome =
      launcher.Run("K", {.grid = {1, 1, 1}, .block = {64, 1, 1}}, in, out, uint32_t{2});
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->kind, Finding::Kind::kDeadlock);
}

}  // namespace
}  // namespace coppice::ptx
