// Goal: mma and wmma.mma give D = A B + C, with the elements where the figures of the PTX ISA have
// them; on both instruction sets.
// Method: every row against three loops in double or 64-bit integers. Where a lane has which
// element is written down here as the ISA's formulas have it. Factors are small enough that the
// order of the sums does not matter, but for one test, which bounds the error.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "tests/ptx/host_warp.h"
#include "tests/support/test_device.h"

namespace coppice::ptx {
namespace {

// An element type: its bits, and its values.
struct ElementType {
  int bits;
  int exponent_bits = 0;  // Of floats.
  bool is_signed = true;
};
const std::map<std::string, ElementType>& Types() {
  static const std::map<std::string, ElementType> types = {
      {"f16", {16, 5}},     {"bf16", {16, 8}}, {"tf32", {32, 8}},     {"e4m3", {8, 4}},
      {"e5m2", {8, 5}},     {"f32", {32, 8}},  {"f64", {64, 11}},     {"s32", {32}},
      {"s8", {8}},          {"s4", {4}},       {"u8", {8, 0, false}}, {"u4", {4, 0, false}},
      {"b1", {1, 0, false}}};
  return types;
}

double Value(const std::string& name, uint64_t bits) {
  const ElementType& type = Types().at(name);
  if (name == "f64") return std::bit_cast<double>(bits);
  if (name == "f32" || name == "tf32") return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (type.exponent_bits == 0) {
    const int shift = 64 - type.bits;
    return type.is_signed ? static_cast<double>(static_cast<int64_t>(bits << shift) >> shift)
                          : static_cast<double>(bits << shift >> shift);
  }
  const int mantissa_bits = type.bits - 1 - type.exponent_bits;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << type.exponent_bits) - 1);
  const double mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1));
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (bits >> (type.bits - 1) & 1) != 0 ? -magnitude : magnitude;
}

// The finite f16 that is nearest, ties to even.
uint16_t NearestHalf(double value) {
  // Of the bits that are the index; they ascend.
  static const std::vector<double> magnitudes = [] {
    std::vector<double> all;
    for (uint32_t bits = 0; bits < 0x7c00; ++bits)
      all.push_back(Value("f16", bits));
    return all;
  }();
  const double magnitude = std::abs(value);
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end() - 1, magnitude);
  auto bits = static_cast<uint32_t>(above - magnitudes.begin());
  if (bits > 0) {
    const double over = magnitudes[bits] - magnitude;
    const double under = magnitude - magnitudes[bits - 1];
    if (under < over || (under == over && bits % 2 == 1)) --bits;
  }
  return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

// What an opcode says.
struct Opcode {
  bool wmma = false;
  bool satfinite = false;
  int m = 0;
  int n = 0;
  int k = 0;
  std::string a, b, c, d;
  std::string bits;  // "xor" or "and".

  explicit Opcode(std::string_view name) {
    std::vector<std::string> types;
    for (size_t begin = 0; begin < name.size();) {
      const size_t end = std::min(name.find('.', begin), name.size());
      const std::string word(name.substr(begin, end - begin));
      if (word[0] == 'm' && word.size() > 1 && std::isdigit(word[1]) != 0)
        std::sscanf(word.c_str(), "m%dn%dk%d", &m, &n, &k);
      if (Types().contains(word)) types.push_back(word);
      wmma = wmma || word == "wmma";
      satfinite = satfinite || word == "satfinite";
      if (word == "xor" || word == "and") bits = word;
      begin = end + 1;
    }
    d = types.front();
    c = types.back();
    a = types.size() == 2 ? "f16" : types[1];
    b = types.size() == 2 ? "f16" : types[2];
  }
};

struct FragmentPlace {
  int row;
  int column;
};

// Element i of the fragment of a lane: "Matrix Fragments for mma" of the PTX ISA, whose formulas
// have groupID = lane >> 2 and threadID_in_group = lane % 4. Each figure is written out.
FragmentPlace PlaceOfA(const Opcode& op, int lane, int i) {
  const int group = lane >> 2;
  const int thread = lane % 4;
  if (op.m == 8) {
    // m8n8k4 .f64, m8n8k16 .s8, m8n8k32 .s4, m8n8k128 .b1: one row.
    const int each = op.k / 4;
    return {group, thread * each + i};
  }
  if (op.a == "tf32") {
    // k4: a0, a1; k8: a0 to a3.
    return {i == 0 || i == 2 ? group : group + 8, i < 2 ? thread : thread + 4};
  }
  if (Types().at(op.a).bits == 16) {
    const bool upper = (i >= 2 && i < 4) || i >= 6;
    return {upper ? group + 8 : group, thread * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
  }
  if (Types().at(op.a).bits == 8) {
    const bool upper = (i >= 4 && i < 8) || i >= 12;
    return {upper ? group + 8 : group, thread * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
  }
  if (Types().at(op.a).bits == 4) {
    const bool upper = (i >= 8 && i < 16) || i >= 24;
    return {upper ? group + 8 : group, thread * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
  }
  const bool upper = (i >= 32 && i < 64) || i >= 96;
  return {upper ? group + 8 : group, thread * 32 + (i & 31) + (i >= 64 ? 128 : 0)};
}

FragmentPlace PlaceOfB(const Opcode& op, int lane, int i) {
  const int group = lane >> 2;
  const int thread = lane % 4;
  switch (Types().at(op.b).bits) {
    case 64:
      return {thread, group};
    case 32:
      return {thread + 4 * i, group};
    case 16:
      return {thread * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
    case 8:
      return {thread * 4 + (i & 3) + (i >= 4 ? 16 : 0), group};
    case 4:
      return {thread * 8 + (i & 7) + (i >= 8 ? 32 : 0), group};
    default:
      return {thread * 32 + (i & 31) + (i >= 32 ? 128 : 0), group};
  }
}

FragmentPlace PlaceOfC(int lane, int i) {
  return {(lane >> 2) + (i >= 2 ? 8 : 0), (lane % 4) * 2 + (i & 1)};
}

// Registers of a fragment: names, and elements by lane and index.
class FragmentOfTest {
 public:
  FragmentOfTest(const std::string& type, int first, int elements) : type_(type), first_(first) {
    bits_ = Types().at(type).bits;
    registers_ = std::max(1, elements * bits_ / (bits_ == 64 ? 64 : 32));
  }
  std::string Text() const {
    std::string text;
    for (int i = 0; i < registers_; ++i)
      text += fmt::format("{}%{}{}", i == 0 ? "" : ", ", bits_ == 64 ? 'd' : 'r', first_ + i);
    return "{" + text + "}";
  }
  uint64_t Get(HostWarp& warp, int lane, int i) const {
    if (bits_ == 64) return warp.Lanes<uint64_t>(fmt::format("%d{}", first_ + i))[lane];
    return Word(warp, lane, i) >> (i * bits_ % 32) & Mask();
  }
  void Set(HostWarp& warp, int lane, int i, uint64_t bits) const {
    if (bits_ == 64) {
      warp.Lanes<uint64_t>(fmt::format("%d{}", first_ + i))[lane] = bits;
      return;
    }
    uint32_t& word = Word(warp, lane, i);
    const int shift = i * bits_ % 32;
    word = (word & ~(Mask() << shift)) | (static_cast<uint32_t>(bits) & Mask()) << shift;
  }

 private:
  uint32_t Mask() const { return ~uint32_t{0} >> (32 - bits_); }
  uint32_t& Word(HostWarp& warp, int lane, int i) const {
    return warp.Lanes<uint32_t>(fmt::format("%r{}", first_ + i * bits_ / 32))[lane];
  }

  std::string type_;
  int first_;
  int bits_;
  int registers_;
};

class MatrixMultiplyTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !HasAvx2()) GTEST_SKIP() << "no AVX2 here";
  }
  static std::span<const Form> Rows() {
    return GetParam() ? avx2::MultiplyForms() : baseline::MultiplyForms();
  }

  // Bits of a small value of the type: sums of products are exact.
  uint64_t Draw(const std::string& type) {
    const uint64_t drawn = random_();
    const int small = static_cast<int>(drawn % 17) - 8;
    if (type == "f64") return std::bit_cast<uint64_t>(small / 4.0);
    if (type == "f32") return std::bit_cast<uint32_t>(static_cast<float>(small) / 4);
    // The last bits of tf32 are not looked at.
    if (type == "tf32")
      return std::bit_cast<uint32_t>(static_cast<float>(small) / 4) | (drawn >> 32 & 0x1fff);
    if (type == "f16") return NearestHalf(small / 4.0);
    if (type == "bf16") return std::bit_cast<uint32_t>(static_cast<float>(small) / 4) >> 16;
    // A sign, an exponent near that of 1, any mantissa.
    if (type == "e4m3") return (drawn & 0x87) | (5 + drawn / 256 % 4) << 3;
    if (type == "e5m2") return (drawn & 0x83) | (13 + drawn / 256 % 4) << 2;
    return drawn;
  }

  // An element of C: near the limits if the sums saturate or wrap.
  uint64_t DrawSum(const std::string& type) {
    if (type != "s32") return Draw(type);
    const uint64_t drawn = random_();
    if (drawn % 3 == 0) return 0x7fffffff - drawn / 8 % 9;
    if (drawn % 3 == 1) return 0x80000000 + drawn / 8 % 9;
    return drawn % 100;
  }

  static int64_t Wrapped(int64_t sum, bool saturates) {
    constexpr int64_t kMin = std::numeric_limits<int32_t>::min();
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    return saturates ? std::clamp(sum, kMin, kMax) : static_cast<int32_t>(sum);
  }

  // The bits of an element of D.
  static uint64_t Result(const Opcode& op,
                         const std::vector<uint64_t>& a,
                         const std::vector<uint64_t>& b,
                         uint64_t c,
                         int row,
                         int column) {
    double sum = 0;
    for (int k = 0; k < op.k; ++k) {
      const uint64_t x = a[row * op.k + k];
      const uint64_t y = b[k * op.n + column];
      if (op.bits == "xor")
        sum += static_cast<double>(x ^ y);
      else if (op.bits == "and")
        sum += static_cast<double>(x & y);
      else
        sum += Factor(op.a, x) * Factor(op.b, y);
    }
    const double total = sum + Value(op.c, c);
    if (op.d == "f64") return std::bit_cast<uint64_t>(total);
    if (op.d == "f32") return std::bit_cast<uint32_t>(static_cast<float>(total));
    if (op.d == "f16") return NearestHalf(total);
    return static_cast<uint32_t>(Wrapped(static_cast<int64_t>(total), op.satfinite));
  }
  static double Factor(const std::string& type, uint64_t bits) {
    return Value(type, type == "tf32" ? bits & ~uint64_t{0x1fff} : bits);
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_P(MatrixMultiplyTest, EveryMmaDoesWhatItsOracleSays) {
  for (const Form& form : Rows()) {
    const std::string name = form.name;
    if (!name.starts_with("mma.")) continue;
    const Opcode op(name);
    SCOPED_TRACE(testing::Message() << name << " seed " << TestSeed());
    const int of_a = op.m * op.k / kLanes;
    const int of_b = op.k * op.n / kLanes;
    const int of_c = op.m * op.n / kLanes;
    const bool doubles = op.d == "f64";
    const FragmentOfTest fragment_d(op.d, 0, of_c);
    const FragmentOfTest fragment_a(op.a, doubles ? 2 : 10, of_a);
    const FragmentOfTest fragment_b(op.b, doubles ? 3 : 20, of_b);
    const FragmentOfTest fragment_c(op.c, doubles ? 4 : 30, of_c);
    HostWarp warp(fmt::format("{} {}, {}, {}, {};", name, fragment_d.Text(), fragment_a.Text(),
                              fragment_b.Text(), fragment_c.Text()));
    ASSERT_EQ(warp.error(), "");

    std::vector<uint64_t> a(op.m * op.k);
    std::vector<uint64_t> b(op.k * op.n);
    std::set<int> seen;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < of_a; ++i) {
        const FragmentPlace place = PlaceOfA(op, lane, i);
        seen.insert(place.row * op.k + place.column);
        const uint64_t bits = Draw(op.a);
        fragment_a.Set(warp, lane, i, bits);
        a.at(place.row * op.k + place.column) =
            Types().at(op.a).bits < 32 ? bits & ((1U << Types().at(op.a).bits) - 1) : bits;
      }
      for (int i = 0; i < of_b; ++i) {
        const FragmentPlace place = PlaceOfB(op, lane, i);
        const uint64_t bits = Draw(op.b);
        fragment_b.Set(warp, lane, i, bits);
        b.at(place.row * op.n + place.column) =
            Types().at(op.b).bits < 32 ? bits & ((1U << Types().at(op.b).bits) - 1) : bits;
      }
      for (int i = 0; i < of_c; ++i)
        fragment_c.Set(warp, lane, i, DrawSum(op.c));
    }
    EXPECT_EQ(seen.size(), a.size());  // The formulas cover the matrix.
    ASSERT_EQ(warp.Run(0, &form), Step::kNext);
    EXPECT_EQ(warp.gathered, std::vector<uint32_t>{kAllLanes});
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < of_c; ++i) {
        const FragmentPlace place = PlaceOfC(lane, i);
        const uint64_t expected =
            Result(op, a, b, fragment_c.Get(warp, lane, i), place.row, place.column);
        const uint64_t got = fragment_d.Get(warp, lane, i);
        const bool zeros = op.d != "s32" && Value(op.d, expected) == 0;
        EXPECT_TRUE(got == expected || (zeros && Value(op.d, got) == 0))
            << name << " lane " << lane << " element " << i << ": " << got << " " << expected;
      }
    }
  }
}

// Sums of factors of all sizes are near those in double, whatever their order.
TEST_P(MatrixMultiplyTest, SumsAreInFloat) {
  for (const Form& form : Rows()) {
    const std::string name = form.name;
    if (!name.ends_with("m16n8k16.row.col.f32.f16.f16.f32")) continue;
    HostWarp warp(name +
                  " {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, {%r20, %r21}, "
                  "{%f0, %f1, %f2, %f3};");
    ASSERT_EQ(warp.error(), "");
    const Opcode op(name);
    const FragmentOfTest fragment_a("f16", 10, 8);
    const FragmentOfTest fragment_b("f16", 20, 4);
    std::vector<double> a(256);
    std::vector<double> b(128);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const FragmentPlace place = PlaceOfA(op, lane, i);
        const uint64_t bits = random_() % 0x7c00;  // Finite, denormals too.
        fragment_a.Set(warp, lane, i, bits);
        a[place.row * 16 + place.column] = Value("f16", bits);
      }
      for (int i = 0; i < 4; ++i) {
        const FragmentPlace place = PlaceOfB(op, lane, i);
        const uint64_t bits = random_() % 0x7c00;
        fragment_b.Set(warp, lane, i, bits);
        b[place.row * 8 + place.column] = Value("f16", bits);
      }
    }
    ASSERT_EQ(warp.Run(0, &form), Step::kNext);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const FragmentPlace place = PlaceOfC(lane, i);
        double sum = 0;
        for (int k = 0; k < 16; ++k)
          sum += a[place.row * 16 + k] * b[k * 8 + place.column];
        EXPECT_NEAR(warp.Lanes<float>(fmt::format("%f{}", i))[lane], sum, sum * 16 * 0x1p-24);
      }
    }
  }
}

TEST_P(MatrixMultiplyTest, InfinitiesAndNaNsComeThrough) {
  for (const Form& form : Rows()) {
    const std::string_view name = form.name;
    const bool halves = name.ends_with("m16n8k16.row.col.f32.f16.f16.f32");
    const bool fp8 = name.ends_with("m16n8k32.row.col.f32.e4m3.e4m3.f32");
    if (!halves && !fp8) continue;
    HostWarp warp(
        fmt::format("{} {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}}, "
                    "{{%r20, %r21}}, {{%f4, %f5, %f6, %f7}};",
                    name));
    ASSERT_EQ(warp.error(), "");
    for (int lane = 0; lane < kLanes; ++lane) {
      warp.Lanes<uint32_t>("%r10")[lane] = lane == 0 ? (halves ? 0x7c00 : 0x7f) : 0;
      for (const char* b : {"%r20", "%r21"})
        warp.Lanes<uint32_t>(b)[lane] = halves ? 0x3c003c00 : 0x38383838;
    }
    ASSERT_EQ(warp.Run(0, &form), Step::kNext);
    // Row 0 has it in all columns; e4m3 has no infinity.
    for (int lane = 0; lane < kLanes; ++lane) {
      const float d = warp.Lanes<float>("%f0")[lane];
      EXPECT_TRUE(lane >= 4 ? d == 0 : halves ? std::isinf(d) : std::isnan(d)) << lane << " " << d;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets,
                         MatrixMultiplyTest,
                         testing::Bool(),
                         [](const auto& param) { return param.param ? "Avx2" : "Baseline"; });

TEST(MatrixMultiplyFormsTest, WaitsForTheWholeWarp) {
  HostWarp warp(
      "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0, %r1}, {%r2}, {%r3}, "
      "{%r4, %r5};");
  ASSERT_EQ(warp.error(), "");
  warp.Execute(0xffff);
  EXPECT_EQ(warp.Run(), Step::kChoose);
  warp.arriving = 0xffff0000;
  EXPECT_EQ(warp.Run(), Step::kNext);
}

TEST(MatrixMultiplyFormsTest, WhatHasNoRowIsRefused) {
  for (const char* text :
       {"tcgen05.wait::ld.sync.aligned;",
        "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%d0, %d1, %d2, %d3}, {%d4, %d5}, "
        "{%d6}, {%d7, %d8, %d9, %d10};",
        "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4, %r5}, "
        "{%r6, %r7}, %r8, 0;"}) {
    EXPECT_NE(HostWarp(text).error(), "") << text;
  }
}

}  // namespace
}  // namespace coppice::ptx
