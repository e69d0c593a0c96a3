// Goal: products of warpgroups are those of their matrices, of all types, sizes and layouts of
// shared memory; who does not wait, or does not fence, is found at the line. Method: matrices of
// small integers, laid out as the PTX ISA describes its canonical layouts, against sums of
// integers; and mutants of a kernel, a line changed.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/launch.h"
#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr int kProductRows = 64;

struct ProductElement {
  const char* name;
  int bits;
  int exponent_bits;  // 0: an integer.
  int mantissa_bits;
  bool is_signed;
};
constexpr ProductElement kF16 = {"f16", 16, 5, 10, true};
constexpr ProductElement kBF16 = {"bf16", 16, 8, 7, true};
constexpr ProductElement kTF32 = {"tf32", 32, 8, 23, true};
constexpr ProductElement kE4M3 = {"e4m3", 8, 4, 3, true};
constexpr ProductElement kE5M2 = {"e5m2", 8, 5, 2, true};
constexpr ProductElement kS8 = {"s8", 8, 0, 0, true};
constexpr ProductElement kU8 = {"u8", 8, 0, 0, false};

// A small integer, which the type has exactly.
uint32_t Encoded(const ProductElement& type, int value) {
  if (type.exponent_bits == 0) return static_cast<uint32_t>(value) & 0xff;
  if (value == 0) return 0;
  const auto magnitude = static_cast<uint32_t>(value < 0 ? -value : value);
  const int exponent = std::bit_width(magnitude) - 1;
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const uint32_t mantissa = (magnitude - (uint32_t{1} << exponent))
                            << (type.mantissa_bits - exponent);
  const auto sign = static_cast<uint32_t>(value < 0) << (type.bits - 1);
  return sign | static_cast<uint32_t>(exponent + bias) << type.mantissa_bits | mantissa;
}

// How a matrix lies in shared memory: rows of 16 << mode bytes whose pieces are exchanged; 0: tiles
// of 8 rows of 16 bytes. Across: elements of one depth follow each other, not those of one row.
struct Layout {
  int mode = 0;
  bool across = false;
};

// The byte of element (row, k), where tiles follow each other in memory; and what its descriptor
// says. `rows` is 64, or the columns of B.
struct Placed {
  uint64_t leading = 0;
  uint64_t stride = 0;
  std::function<uint64_t(int row, int k)> byte_of;
};

Placed Place(const Layout& layout, int rows, int element_bytes) {
  const int wide = 16 << layout.mode;
  if (layout.mode == 0 && !layout.across) {
    // Tiles of 8 rows by 16 bytes: those of one group of rows, then the next group.
    return {.leading = 128, .stride = 256, .byte_of = [=](int row, int k) {
              const int at = k * element_bytes;
              return static_cast<uint64_t>(row / 8 * 256 + at / 16 * 128 + row % 8 * 16 + at % 16);
            }};
  }
  if (layout.mode == 0) {
    // Tiles of 8 depths by 8 rows.
    return {.leading = static_cast<uint64_t>(rows / 8 * 128),
            .stride = 128,
            .byte_of = [=](int row, int k) {
              return static_cast<uint64_t>(k / 8 * (rows / 8 * 128) + row / 8 * 128 + k % 8 * 16 +
                                           row % 8 * 2);
            }};
  }
  const auto exchanged = [mode = layout.mode](uint64_t at) {
    const uint64_t line = at / 128 % (uint64_t{1} << mode);
    return (at & ~uint64_t{0x70}) | (((at >> 4 & 7) ^ line) << 4);
  };
  if (!layout.across) {
    return {
        .leading = 16, .stride = static_cast<uint64_t>(8 * wide), .byte_of = [=](int row, int k) {
          return exchanged(static_cast<uint64_t>(row * wide + k * element_bytes));
        }};
  }
  const int in_row = wide / 2;                          // Elements of 16 bits.
  const auto group = static_cast<uint64_t>(16 * wide);  // 16 depths of one row of elements.
  return {
      .leading = group, .stride = static_cast<uint64_t>(8 * wide), .byte_of = [=](int row, int k) {
        return exchanged(static_cast<uint64_t>(row / in_row) * group +
                         static_cast<uint64_t>(k * wide + row % in_row * 2));
      }};
}

uint64_t Descriptor(uint64_t start, const Placed& placed, int mode) {
  return start >> 4 | placed.leading >> 4 << 16 | placed.stride >> 4 << 32 |
         static_cast<uint64_t>((4 - mode) % 4) << 62;
}

constexpr uint64_t kStartOfB = 8192;
constexpr uint64_t kImageBytes = kStartOfB + 256 * 128;

struct Product {
  ProductElement a;
  ProductElement b;
  std::string_view sums = "f32";
  int columns = 64;
  Layout layout_a;
  Layout layout_b;
  bool fragments = false;  // A is in registers.
  bool adds = true;
  int sign = 1;

  int depth() const { return 256 / a.bits; }
  int registers() const { return columns / (sums == "f16" ? 4 : 2); }
};

std::string List(char prefix, int first, int count) {
  std::string list = "{";
  for (int i = 0; i < count; ++i)
    list += fmt::format("{}%{}{}", i == 0 ? "" : ", ", prefix, first + i);
  return list + "}";
}

// Copies an image to shared memory, multiplies, and stores the accumulators of each thread.
std::string KernelOf(const Product& of) {
  const int count = of.registers();
  std::string text = fmt::format(
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry K(.param .u64 image, .param .u64 a, .param .u64 out, .param .u64 da, "
      ".param .u64 db)\n{{\n"
      ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .b32 %d<{}>; .reg .b32 %a<4>;\n"
      ".shared .align 1024 .b8 s[{}];\n",
      count, kImageBytes);
  text += fmt::format(R"(
mov.u32 %r1, %tid.x; mov.u32 %r2, s;
ld.param.u64 %rd1, [image]; ld.param.u64 %rd2, [out];
ld.param.u64 %rd3, [da]; ld.param.u64 %rd4, [db]; ld.param.u64 %rd6, [a];
shl.b32 %r3, %r1, 2;
LOOP:
cvt.u64.u32 %rd5, %r3; add.s64 %rd5, %rd5, %rd1;
ld.global.u32 %r4, [%rd5]; add.s32 %r5, %r2, %r3; st.shared.u32 [%r5], %r4;
add.s32 %r3, %r3, 512; setp.lt.u32 %p1, %r3, {};
@%p1 bra LOOP;
mul.wide.u32 %rd7, %r1, 16; add.s64 %rd7, %rd7, %rd6;
ld.global.v4.u32 {{%a0, %a1, %a2, %a3}}, [%rd7];
)",
                      kImageBytes);
  for (int i = 0; i < count; ++i)
    text += fmt::format("mov.b32 %d{}, {};\n", i,
                        of.sums == "f32"   ? "0f40400000"  // 3
                        : of.sums == "f16" ? "0x42004200"
                                           : "3");
  text += fmt::format(
      "fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.ne.b32 %p2, {}, 0;\n"
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {}, {}, %rd4, %p2",
      of.adds ? 1 : 0, of.columns, of.depth(), of.sums, of.a.name, of.b.name, List('d', 0, count),
      of.fragments ? "{%a0, %a1, %a2, %a3}" : "%rd3");
  if (of.a.exponent_bits != 0) text += fmt::format(", {}, 1", of.sign);
  if (of.a.bits == 16) {
    if (!of.fragments) text += fmt::format(", {}", of.layout_a.across ? 1 : 0);
    text += fmt::format(", {}", of.layout_b.across ? 1 : 0);
  }
  text += fmt::format(
      ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
      "mul.wide.u32 %rd8, %r1, {}; add.s64 %rd8, %rd8, %rd2;\n",
      4 * count);
  for (int i = 0; i < count; ++i)
    text += fmt::format("st.global.b32 [%rd8+{}], %d{};\n", 4 * i, i);
  return text + "ret;\n}\n";
}

double DecodedSum(std::string_view sums, uint32_t word, bool odd) {
  if (sums == "f32") return std::bit_cast<float>(word);
  if (sums == "s32") return static_cast<int32_t>(word);
  const uint32_t half = odd ? word >> 16 : word & 0xffff;
  const int exponent = static_cast<int>(half >> 10 & 31);
  const double mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half >> 15) != 0 ? -magnitude : magnitude;
}

void ExpectRight(const Product& of) {
  SCOPED_TRACE(fmt::format("n{} {}.{}.{} a {}{} b {}{}", of.columns, of.sums, of.a.name, of.b.name,
                           of.layout_a.mode, of.layout_a.across ? " across" : "", of.layout_b.mode,
                           of.layout_b.across ? " across" : ""));
  const auto value_of = [](int i, int k, bool is_signed) {
    const int value = (i * 7 + k * 5 + i * k) % 5;
    return is_signed ? value - 2 : value;
  };
  const Placed a = Place(of.layout_a, kProductRows, of.a.bits / 8);
  const Placed b = Place(of.layout_b, of.columns, of.b.bits / 8);
  std::vector<uint8_t> image(kImageBytes, 0x7f);
  const auto put = [&](uint64_t at, uint32_t bits, int count) {
    for (int i = 0; i < count / 8; ++i)
      image[at + static_cast<uint64_t>(i)] = static_cast<uint8_t>(bits >> (8 * i));
  };
  for (int k = 0; k < of.depth(); ++k) {
    for (int row = 0; row < kProductRows; ++row)
      put(a.byte_of(row, k), Encoded(of.a, value_of(row, k, of.a.is_signed)), of.a.bits);
    for (int column = 0; column < of.columns; ++column)
      put(kStartOfB + b.byte_of(column, k), Encoded(of.b, value_of(column + 3, k, of.b.is_signed)),
          of.b.bits);
  }
  // Fragments as of mma: thread 4 g + t of a warp has elements of rows g and g + 8.
  std::vector<uint32_t> fragments(512);
  const int per_word = 32 / of.a.bits;
  for (int thread = 0; thread < 128; ++thread)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < per_word; ++j) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
        const int k = i / 2 * 4 * per_word + thread % 4 * per_word + j;
        fragments[static_cast<size_t>(4 * thread + i)] |=
            Encoded(of.a, value_of(row, k, of.a.is_signed)) << (of.a.bits * j);
      }

  Launcher launcher(KernelOf(of));
  const uint64_t out = launcher.AllocateBytes(static_cast<size_t>(128 * 4 * of.registers()));
  ExpectClean(launcher.Run("K", {.block = {128, 1, 1}}, launcher.Allocate(image),
                           launcher.Allocate(fragments), out, Descriptor(0, a, of.layout_a.mode),
                           Descriptor(kStartOfB, b, of.layout_b.mode)));
  const auto words = launcher.Read<uint32_t>(out, static_cast<size_t>(128 * of.registers()));
  const int halves = of.sums == "f16" ? 1 : 2;  // Registers of a row of 8 columns.
  for (int row = 0; row < kProductRows; ++row)
    for (int column = 0; column < of.columns; ++column) {
      int sum = 0;
      for (int k = 0; k < of.depth(); ++k)
        sum += value_of(row, k, of.a.is_signed) * value_of(column + 3, k, of.b.is_signed);
      sum = of.sign * sum + (of.adds ? 3 : 0);
      const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      const int index =
          column / 8 * 2 * halves + row % 16 / 8 * halves + (halves == 2 ? column % 2 : 0);
      const uint32_t word = words[static_cast<size_t>(thread * of.registers() + index)];
      ASSERT_EQ(DecodedSum(of.sums, word, column % 2 != 0), sum) << row << " " << column;
    }
}

TEST(WarpgroupMultiplyTest, AllTypes) {
  for (const ProductElement& type : {kF16, kBF16, kTF32}) {
    ExpectRight({.a = type, .b = type, .layout_a = {3}, .layout_b = {3}});
    ExpectRight({.a = type, .b = type, .layout_b = {2}, .fragments = true, .adds = false});
  }
  ExpectRight({.a = kF16, .b = kF16, .sums = "f16", .layout_a = {3}, .layout_b = {3}, .sign = -1});
  for (const ProductElement& a : {kE4M3, kE5M2})
    for (const ProductElement& b : {kE4M3, kE5M2})
      for (const char* const sums : {"f32", "f16"})
        ExpectRight({.a = a, .b = b, .sums = sums, .layout_a = {1}, .layout_b = {3}});
  for (const ProductElement& a : {kS8, kU8})
    for (const ProductElement& b : {kS8, kU8})
      ExpectRight({.a = a, .b = b, .sums = "s32", .layout_a = {2}, .layout_b = {1}});
}

TEST(WarpgroupMultiplyTest, AllLayouts) {
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b)
      ExpectRight(
          {.a = kBF16, .b = kBF16, .layout_a = {a % 4, a >= 4}, .layout_b = {b % 4, b >= 4}});
}

TEST(WarpgroupMultiplyTest, AllNumbersOfColumns) {
  for (int columns = 8; columns <= 256; columns += 8) {
    ExpectRight({.a = kF16, .b = kF16, .columns = columns, .layout_a = {3}, .layout_b = {3}});
    if (columns % 64 == 0)
      ExpectRight(
          {.a = kF16, .b = kF16, .columns = columns, .layout_a = {3}, .layout_b = {3, true}});
    if (columns <= 32 || columns % 16 == 0)
      ExpectRight({.a = kS8,
                   .b = kS8,
                   .sums = "s32",
                   .columns = columns,
                   .layout_a = {3},
                   .layout_b = {3}});
  }
}

// --- what is wrong

constexpr char kChecked[] = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry K(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .f32 %f<4>;
  .shared .align 1024 .b8 s[16384];
  mov.u32 %r1, %tid.x; mov.u32 %r2, s; ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3;
  st.shared.v4.u32 [%r4], {0, 0, 0, 0};
  st.shared.v4.u32 [%r4 + 2048], {0, 0, 0, 0};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.b64 %rd4, 0x0000001000080000;
  mov.b64 %rd5, 0x0000001000080080;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000;
  mov.f32 %f3, 0f00000000;
  setp.eq.u32 %p1, %r1, %r1;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
      {%f0, %f1, %f2, %f3}, %rd4, %rd5, %p1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  bar.sync 0;
  st.shared.u32 [%r4], 1;
  st.global.f32 [%rd3], %f0;
  ret;
}
)";

std::string ChangedProduct(std::string_view line, std::string_view other) {
  std::string text = kChecked;
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), other);
}

int LineOfProduct(std::string_view part) {
  const std::string_view text = kChecked;
  const size_t at = text.find(part);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
}

Outcome RunChecked(std::string text, uint64_t seed) {
  Launcher launcher(std::move(text));
  launcher.seed = seed;
  return launcher.Run("K", {.block = {128, 1, 1}}, launcher.AllocateBytes(512));
}

TEST(WarpgroupMultiplyTest, WhoWaitsAndFencesIsClean) {
  for (uint64_t seed = 1; seed <= 20; ++seed)
    ExpectClean(RunChecked(kChecked, seed));
}

TEST(WarpgroupMultiplyTest, WhatIsMissingIsFound) {
  struct {
    const char* line;
    const char* other;
    const char* found_at;
    const char* message;
  } constexpr kMutants[] = {
      {"wgmma.wait_group.sync.aligned 0;", "", "st.global.f32",
       "nothing has waited for that product"},
      {"wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", "st.global.f32",
       "nothing has waited for that product"},
      {"wgmma.commit_group.sync.aligned;", "", "st.global.f32",
       "nothing has waited for that product"},
      {"wgmma.fence.sync.aligned;", "", "wgmma.mma_async", "wgmma.fence"},
      {"fence.proxy.async.shared::cta;", "", "wgmma.mma_async", "no fence.proxy.async"},
      {"bar.sync 0;", "", "wgmma.mma_async", "nothing orders the two"},
      {"  wgmma.wait_group.sync.aligned 0;\n  bar.sync 0;", "", "st.shared.u32 [%r4], 1",
       "nothing orders the two"},
  };
  for (const auto& mutant : kMutants) {
    SCOPED_TRACE(mutant.line);
    bool found = false;
    for (uint64_t seed = 1; seed <= 20 && !found; ++seed) {
      for (const Finding& finding :
           RunChecked(ChangedProduct(mutant.line, mutant.other), seed).findings)
        found = found || finding.message.find(mutant.message) != std::string::npos;
    }
    EXPECT_TRUE(found);
  }
}

TEST(WarpgroupMultiplyTest, OperandsThatChangeUnderWayAreFound) {
  // A barrier orders the write behind the start of the product, and not behind its end.
  const std::string text =
      ChangedProduct("  wgmma.wait_group.sync.aligned 0;\n  bar.sync 0;\n  st.shared.u32 [%r4], 1;",
                     "  bar.sync 0;\n  st.shared.u32 [%r4], 1;\n  bar.sync 0;\n"
                     "  wgmma.wait_group.sync.aligned 0;");
  EXPECT_THAT(RunChecked(text, 1).findings,
              Contains(Field(&Finding::message, HasSubstr("was written before this wait"))));
}

TEST(WarpgroupMultiplyTest, ProductsOfOneAnothersRegistersAreFound) {
  // The second product has accumulators of the first as registers of A.
  const std::string text = ChangedProduct(
      "  wgmma.commit_group.sync.aligned;\n",
      "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, {%f0, %f1, %f2, "
      "%f3}, %rd5, %p1, 1, 1, 0;\n  wgmma.commit_group.sync.aligned;\n");
  std::string declared = text;
  declared.replace(declared.find(".reg .f32 %f<4>"), 15, ".reg .b32 %f<8>");
  declared.replace(declared.find("  wgmma.fence"), 0,
                   "  mov.b32 %f4, 0; mov.b32 %f5, 0; mov.b32 %f6, 0; mov.b32 %f7, 0;\n");
  EXPECT_THAT(
      RunChecked(declared, 1).findings,
      Contains(Field(&Finding::message,
                     HasSubstr("starts a product that uses registers of the product on line"))));
}

TEST(WarpgroupMultiplyTest, WhatNoDeviceMultipliesIsAFault) {
  Launcher few(ChangedProduct("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x;"));
  EXPECT_THAT(few.Run("K", {.block = {64, 1, 1}}, few.AllocateBytes(512)).fault->message,
              HasSubstr("fewer than 4 warps"));
  EXPECT_THAT(
      RunChecked(ChangedProduct("0x0000001000080080", "0x0000001000083ff8"), 1).fault->message,
      HasSubstr("in shared memory, but the block has only 16384 bytes"));
  EXPECT_THAT(
      RunChecked(ChangedProduct("setp.eq.u32 %p1, %r1, %r1;", "setp.eq.u32 %p1, %r1, 5;"), 1)
          .fault->message,
      HasSubstr("in some lanes of its warp"));
  EXPECT_EQ(RunChecked(ChangedProduct("setp.eq.u32 %p1, %r1, %r1;", "setp.eq.u32 %p1, %r1, 5;"), 1)
                .fault->line,
            LineOfProduct("wgmma.mma_async"));
}

}  // namespace
}  // namespace coppice::ptx
