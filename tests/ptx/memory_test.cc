// Loads and stores of every type, width and space.
//
// Method: bytes of a pattern go through registers and come back; what arrives is computed here.

#include "runtime/emulator/ptx/memory.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

constexpr size_t kBlockThreads = 40;

std::vector<uint8_t> Pattern(size_t bytes) {
  std::vector<uint8_t> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i)
    pattern[i] = static_cast<uint8_t>(i * 37 + 201 + (i >> 8));
  return pattern;
}

std::string KernelText(const std::string& declarations, const std::string& body) {
  return ".version 8.3\n.target sm_90\n.address_size 64\n" + declarations + R"(
.visible .entry K(.param .u64 in, .param .u64 out) {
  .reg .pred %p<4>; .reg .b16 %h<10>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .b128 %q<2>;
  .local .align 16 .b8 depot[64];
  .shared .align 16 .b8 box[8192];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
)" + body +
         "  ret;\n}\n";
}

// --- types and registers

struct Width {
  const char* type;
  const char* reg;   // A register of the width, without its number.
  const char* back;  // A type of the whole register.
  size_t bytes;      // In memory ...
  size_t reg_bytes;  // ... and in the register.
  bool sign = false;
};

// All types in all registers that hold them.
const std::vector<Width>& Widths() {
  static const std::vector<Width> widths = {
      {"u8", "%h", "b16", 1, 2},         {"b8", "%r", "b32", 1, 4},
      {"u8", "%rd", "b64", 1, 8},        {"s8", "%h", "b16", 1, 2, true},
      {"s8", "%r", "b32", 1, 4, true},   {"s8", "%rd", "b64", 1, 8, true},
      {"u16", "%h", "b16", 2, 2},        {"b16", "%r", "b32", 2, 4},
      {"u16", "%rd", "b64", 2, 8},       {"s16", "%h", "b16", 2, 2, true},
      {"s16", "%r", "b32", 2, 4, true},  {"s16", "%rd", "b64", 2, 8, true},
      {"u32", "%r", "b32", 4, 4},        {"b32", "%rd", "b64", 4, 8},
      {"s32", "%r", "b32", 4, 4, true},  {"s32", "%rd", "b64", 4, 8, true},
      {"f32", "%r", "b32", 4, 4},        {"u64", "%rd", "b64", 8, 8},
      {"s64", "%rd", "b64", 8, 8, true}, {"f64", "%rd", "b64", 8, 8},
      {"b64", "%rd", "b64", 8, 8},       {"b128", "%q", "b128", 16, 16},
  };
  return widths;
}

TEST(MemoryTest, LoadsExtendToTheirRegisters) {
  for (const Width& width : Widths()) {
    SCOPED_TRACE(std::string(width.type) + " in " + width.reg);
    const std::string reg = std::string(width.reg) + (width.bytes == 16 ? "1" : "9");
    Launcher launcher(KernelText("", R"(
  mul.wide.u32 %rd3, %r1, )" + std::to_string(width.bytes) +
                                         R"(; add.s64 %rd3, %rd1, %rd3;
  mul.wide.u32 %rd4, %r1, )" + std::to_string(width.reg_bytes) +
                                         R"(; add.s64 %rd4, %rd2, %rd4;
  ld.global.)" + width.type + " " + reg + ", [%rd3+" +
                                         std::to_string(width.bytes) + R"(];
  st.global.)" + width.back + " [%rd4], " +
                                         reg + ";\n"));
    const std::vector<uint8_t> bytes = Pattern((kBlockThreads + 1) * width.bytes);
    const uint64_t in = launcher.Allocate(bytes);
    const uint64_t out = launcher.AllocateBytes(kBlockThreads * width.reg_bytes);
    ExpectClean(launcher.Run("K", {.block = {kBlockThreads, 1, 1}}, in, out));
    const auto stored = launcher.Read<uint8_t>(out, kBlockThreads * width.reg_bytes);
    for (size_t i = 0; i < kBlockThreads; ++i) {
      const uint8_t* const from = bytes.data() + (i + 1) * width.bytes;
      const uint8_t fill = width.sign && (from[width.bytes - 1] & 0x80) != 0 ? 0xff : 0;
      std::vector<uint8_t> expected(width.reg_bytes, fill);
      std::memcpy(expected.data(), from, width.bytes);
      const uint8_t* const at = stored.data() + i * width.reg_bytes;
      ASSERT_EQ(std::vector<uint8_t>(at, at + width.reg_bytes), expected) << i;
    }
  }
}

TEST(MemoryTest, StoresKeepTheLowBytes) {
  for (const Width& width : Widths()) {
    SCOPED_TRACE(std::string(width.type) + " of " + width.reg);
    const std::string reg = std::string(width.reg) + (width.bytes == 16 ? "1" : "9");
    Launcher launcher(KernelText("", R"(
  mul.wide.u32 %rd3, %r1, )" + std::to_string(width.reg_bytes) +
                                         R"(; add.s64 %rd3, %rd1, %rd3;
  mul.wide.u32 %rd4, %r1, )" + std::to_string(width.bytes) +
                                         R"(; add.s64 %rd4, %rd2, %rd4;
  ld.global.)" + width.back + " " + reg +
                                         R"(, [%rd3];
  st.global.)" + width.type + " [%rd4], " +
                                         reg + ";\n"));
    const std::vector<uint8_t> bytes = Pattern(kBlockThreads * width.reg_bytes);
    const uint64_t in = launcher.Allocate(bytes);
    const uint64_t out = launcher.AllocateBytes(kBlockThreads * width.bytes);
    ExpectClean(launcher.Run("K", {.block = {kBlockThreads, 1, 1}}, in, out));
    const auto stored = launcher.Read<uint8_t>(out, kBlockThreads * width.bytes);
    for (size_t i = 0; i < kBlockThreads; ++i)
      ASSERT_EQ(std::memcmp(stored.data() + i * width.bytes, bytes.data() + i * width.reg_bytes,
                            width.bytes),
                0)
          << i;
  }
}

TEST(MemoryTest, VectorsAreElementsInARow) {
  Launcher launcher(KernelText("", R"(
  mul.wide.u32 %rd3, %r1, 16; add.s64 %rd4, %rd2, %rd3; add.s64 %rd3, %rd1, %rd3;
  and.b32 %r2, %r1, 3;
  setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 1; setp.eq.u32 %p3, %r2, 2;
  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd3];
  @%p1 ld.global.v2.u64 {%rd5, %rd6}, [%rd3];
  @%p2 ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%rd3];
  st.global.v4.u32 [%rd4], {%r8, %r7, %r6, %r5};
  @%p1 st.global.v2.u64 [%rd4], {%rd6, 5};
  @%p2 st.global.v4.u8 [%rd4], {%h4, %h3, %h2, %h1};
  @%p3 ld.global.v2.u32 {_, %r9}, [%rd3];
  @%p3 st.global.v2.u32 [%rd4], {%r9, %r9};
)"));
  const std::vector<uint8_t> bytes = Pattern(kBlockThreads * 16);
  const uint64_t in = launcher.Allocate(bytes);
  const uint64_t out = launcher.AllocateBytes(bytes.size());
  ExpectClean(launcher.Run("K", {.block = {kBlockThreads, 1, 1}}, in, out));
  for (size_t i = 0; i < kBlockThreads; ++i) {
    std::array<uint32_t, 4> from;
    std::memcpy(from.data(), bytes.data() + 16 * i, 16);
    std::array<uint32_t, 4> expected = {from[3], from[2], from[1], from[0]};
    if (i % 4 == 0) expected = {from[2], from[3], 5, 0};
    if (i % 4 == 1) expected[0] = __builtin_bswap32(from[0]);
    if (i % 4 == 2) expected[0] = expected[1] = from[1];
    EXPECT_EQ(launcher.Read<uint32_t>(out + 16 * i, 4),
              std::vector<uint32_t>(expected.begin(), expected.end()))
        << i;
  }
}

TEST(MemoryTest, APolicyForCachesChangesNothing) {
  Launcher launcher(KernelText("", R"(
  mul.wide.u32 %rd3, %r1, 16; add.s64 %rd4, %rd2, %rd3; add.s64 %rd3, %rd1, %rd3;
  createpolicy.fractional.L2::evict_last.b64 %rd7, 1.0;
  ld.global.L1::evict_last.L2::cache_hint.v4.b32 { %r5, %r6, %r7, %r8 }, [ %rd3 + 0 ], %rd7;
  st.global.L1::evict_first.L2::cache_hint.v4.b32 [ %rd4 + 0 ], { %r5, %r6, %r7, %r8 }, %rd7;
)"));
  const std::vector<uint8_t> bytes = Pattern(kBlockThreads * 16);
  const uint64_t in = launcher.Allocate(bytes);
  const uint64_t out = launcher.AllocateBytes(bytes.size());
  ExpectClean(launcher.Run("K", {.block = {kBlockThreads, 1, 1}}, in, out));
  EXPECT_EQ(launcher.Read<uint8_t>(out, bytes.size()), bytes);
}

// --- spaces

// The same bytes through shared, local and generic addresses.
TEST(MemoryTest, AVectorOfOneElementIsThatElement) {
  Launcher launcher(KernelText("", R"(
  setp.gt.u32 %p1, %r1, 7;
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; add.s64 %rd3, %rd1, %rd3;
  mov.u32 %r5, 9;
  @%p1 ld.global.b32 { %r5 }, [ %rd3 + 0 ];
  st.global.b32 [ %rd4 + 0 ], { %r5 };
)"));
  std::vector<uint32_t> values(kBlockThreads);
  for (size_t i = 0; i < kBlockThreads; ++i)
    values[i] = static_cast<uint32_t>(100 + i);
  const uint64_t in = launcher.Allocate(values);
  const uint64_t out = launcher.AllocateBytes(kBlockThreads * sizeof(uint32_t));
  ExpectClean(launcher.Run("K", {.block = {kBlockThreads, 1, 1}}, in, out));
  std::fill(values.begin(), values.begin() + 8, 9);
  EXPECT_EQ(launcher.Read<uint32_t>(out, kBlockThreads), values);
}

TEST(MemoryTest, SpacesHoldWhatIsStoredThere) {
  Launcher launcher(KernelText(".const .align 4 .b32 table[2] = {7, 9};\n", R"(
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; add.s64 %rd3, %rd1, %rd3;
  ld.u32 %r2, [%rd3];
  mul.lo.s32 %r3, %r1, 20; mov.u32 %r4, box; add.s32 %r4, %r4, %r3;
  st.shared.u32 [%r4+4], %r2;
  cvt.u64.u32 %rd5, %r4;
  cvta.shared.u64 %rd5, %rd5;
  ld.u32 %r5, [%rd5+4];
  mov.u64 %rd6, depot;
  st.local.u32 [%rd6+12], %r5;
  cvta.local.u64 %rd7, %rd6;
  ld.u32 %r6, [%rd7+12];
  st.u32 [%rd7+16], %r6;
  ld.local.u32 %r7, [depot+16];
  ld.const.u32 %r8, [table+4];
  mov.u64 %rd8, table; cvta.const.u64 %rd8, %rd8; ld.u32 %r9, [%rd8];
  and.b32 %r10, %r1, 1; setp.eq.u32 %p1, %r10, 0;
  selp.b64 %rd9, %rd7, %rd5, %p1;
  selp.b64 %rd10, 12, 4, %p1; add.s64 %rd9, %rd9, %rd10;
  ld.u32 %r11, [%rd9];
  isspacep.shared %p2, %rd5; isspacep.local %p3, %rd5;
  selp.b32 %r12, 100, 0, %p2; @%p3 add.s32 %r12, %r12, 1000;
  isspacep.global %p2, %rd1; isspacep.local %p3, %rd7;
  @%p2 add.s32 %r12, %r12, 10000; @%p3 add.s32 %r12, %r12, 100000;
  cvta.to.shared.u64 %rd11, %rd5; ld.shared.u32 %r13, [%rd11+4];
  xor.b32 %r7, %r7, %r11; xor.b32 %r7, %r7, %r13;
  add.s32 %r7, %r7, %r8; add.s32 %r7, %r7, %r9; add.s32 %r7, %r7, %r12;
  st.u32 [%rd4], %r7;
)"));
  std::vector<uint32_t> values(kBlockThreads);
  for (size_t i = 0; i < kBlockThreads; ++i)
    values[i] = static_cast<uint32_t>(i * 77777 + 5);
  const uint64_t in = launcher.Allocate(values);
  const uint64_t out = launcher.AllocateBytes(4 * kBlockThreads);
  ExpectClean(launcher.Run("K", {.block = {kBlockThreads, 1, 1}}, in, out));
  const auto stored = launcher.Read<uint32_t>(out, kBlockThreads);
  for (size_t i = 0; i < kBlockThreads; ++i)
    EXPECT_EQ(stored[i], values[i] + 7 + 9 + 110100) << i;
}

TEST(MemoryTest, AddressesOfLocalMemoryFitInto32Bits) {
  Launcher launcher(KernelText("", R"(
  .local .align 4 .b8 second[64];
  mov.b32 %r2, second; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3;
  add.s64 %rd3, %rd1, %rd3; ld.global.b32 %r3, [%rd3];
  add.u32 %r4, %r2, 8;
  st.local.b32 [%r2+4], %r3; st.local.b32 [%r4], 1000;
  cvt.u64.u32 %rd5, %r4; cvta.local.u64 %rd6, %rd5;
  ld.b32 %r5, [%rd6]; ld.local.b32 %r6, [%rd5+-4]; ld.b32 %r7, [%rd6+-4];
  sub.s32 %r6, %r6, %r7; add.s32 %r5, %r5, %r6; add.s32 %r5, %r5, %r7;
  st.global.b32 [%rd4], %r5;
)"));
  std::vector<uint32_t> values(kBlockThreads);
  for (size_t i = 0; i < kBlockThreads; ++i)
    values[i] = static_cast<uint32_t>(5 * i);
  const uint64_t in = launcher.Allocate(values);
  const uint64_t out = launcher.AllocateBytes(kBlockThreads * sizeof(uint32_t));
  ExpectClean(launcher.Run("K", {.block = {kBlockThreads, 1, 1}}, in, out));
  for (uint32_t& value : values)
    value += 1000;
  EXPECT_EQ(launcher.Read<uint32_t>(out, kBlockThreads), values);
}

TEST(MemoryTest, ParametersOfEveryWidthAreRead) {
  Launcher launcher(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u8 a, .param .s16 b, .param .align 8 .b8 c[16], .param .u64 out) {
  .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  ld.param.u8 %r1, [a];
  ld.param.s16 %r2, [b];
  ld.param.v2.u32 {%r3, %r4}, [c+8];
  ld.param.u64 %rd1, [out];
  mov.b64 %rd2, c;
  cvta.param.u64 %rd3, %rd2;
  ld.u32 %r5, [%rd3+4];
  ld.param.u32 %r6, [%rd2];
  st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
  st.global.v2.u32 [%rd1+16], {%r5, %r6};
  ret;
})");
  struct Bank {
    uint8_t a = 200;
    int16_t b = -3;
    uint32_t c[4] = {11, 12, 13, 14};
    uint64_t out = 0;
  } bank;
  bank.out = launcher.AllocateBytes(24);
  std::vector<std::byte> bytes(32);
  std::memcpy(bytes.data(), &bank.a, 1);
  std::memcpy(bytes.data() + 2, &bank.b, 2);
  std::memcpy(bytes.data() + 8, bank.c, 16);
  std::memcpy(bytes.data() + 24, &bank.out, 8);
  ExpectClean(launcher.RunWith("K", {}, bytes));
  EXPECT_EQ(launcher.Read<uint32_t>(bank.out, 6),
            (std::vector<uint32_t>{200, 0xfffffffd, 13, 14, 12, 11}));
}

TEST(MemoryTest, DynamicSharedMemoryIsBehindTheStatic) {
  Launcher launcher(KernelText(".extern .shared .align 16 .b8 dynamic[];\n", R"(
  mov.u32 %r2, dynamic; mov.u32 %r3, box;
  shl.b32 %r4, %r1, 2; add.s32 %r5, %r2, %r4; add.s32 %r6, %r3, %r4;
  st.shared.u32 [%r5], %r1; st.shared.u32 [%r6], 5;
  ld.shared.u32 %r7, [%r5];
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r7;
  mov.u32 %r8, %dynamic_smem_size; setp.eq.u32 %p1, %r1, 0;
  @%p1 st.global.u32 [%rd2+160], %r8;
)"));
  const uint64_t out = launcher.AllocateBytes(4 * kBlockThreads + 4);
  ExpectClean(
      launcher.Run("K", {.block = {kBlockThreads, 1, 1}, .shared = 4 * kBlockThreads}, out, out));
  EXPECT_EQ(launcher.Read<uint32_t>(out, 3), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(launcher.Read<uint32_t>(out + 4 * kBlockThreads, 1)[0], 4 * kBlockThreads);
  const Outcome outcome = launcher.Run(
      "K", {.block = {kBlockThreads, 1, 1}, .shared = 4 * kBlockThreads - 4}, out, out);
  ASSERT_TRUE(outcome.fault.has_value());
  EXPECT_EQ(outcome.fault->thread[0], kBlockThreads - 1);
}

}  // namespace
}  // namespace coppice::ptx
