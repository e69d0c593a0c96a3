// Goal: atom and red change memory as the PTX ISA says, lane after lane, and give what was there.
// Method: every row against an oracle on integers and doubles; lanes that hit few places, so that
// they see each other; all lanes and some; both widths of addresses.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/memory.h"
#include "tests/ptx/host_warp.h"
#include "tests/support/test_device.h"

namespace coppice::ptx {
namespace {

// Bits of up to 128.
struct Wide {
  uint64_t low;
  uint64_t high;
  bool operator==(const Wide&) const = default;
};

// What an operation writes, of what was there and its operands.
using AtomicOracle = std::function<Wide(Wide old, Wide b, Wide c)>;

struct AtomicCase {
  int bytes;
  char letter;  // Of its registers.
  AtomicOracle of;
};

template <typename T>
T As(Wide bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <typename T>
Wide From(T value) {
  Wide bits = {};
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
AtomicOracle On(T (*of)(T, T)) {
  return [of](Wide old, Wide b, Wide) { return From<T>(of(As<T>(old), As<T>(b))); };
}

// A float of few bits, from its fields.
double FloatOf(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = bits & ((1U << mantissa_bits) - 1);
  const double sign = (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  const double one = std::ldexp(1.0, mantissa_bits);
  return sign * std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
}

// The finite one that is nearest, with an even mantissa if two are: found by trying them all.
uint32_t Nearest(double value, int exponent_bits, int mantissa_bits) {
  uint32_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  const uint32_t infinity = ((1U << exponent_bits) - 1) << mantissa_bits;
  const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    const double distance = std::abs(std::abs(value) - FloatOf(bits, exponent_bits, mantissa_bits));
    if (distance < least || (distance == least && bits % 2 == 0)) {
      least = distance;
      best = bits;
    }
  }
  return best | sign;
}

AtomicOracle Halves(int count, int exponent_bits) {
  return [=](Wide old, Wide b, Wide) {
    Wide sum = {};
    for (int i = 0; i < count; ++i) {
      const auto half = [&](Wide of) { return static_cast<uint32_t>(of.low >> 16 * i) & 0xffff; };
      const double exact = FloatOf(half(old), exponent_bits, 15 - exponent_bits) +
                           FloatOf(half(b), exponent_bits, 15 - exponent_bits);
      sum.low |= uint64_t{Nearest(exact, exponent_bits, 15 - exponent_bits)} << 16 * i;
    }
    return sum;
  };
}

float FlushedSum(float a, float b) {
  const auto flush = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
  };
  return flush(flush(a) + flush(b));
}

template <typename T>
T Plus(T a, T b) {
  return static_cast<T>(a + b);
}
template <typename T>
T Lesser(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
T Greater(T a, T b) {
  return a > b ? a : b;
}

Wide Second(Wide, Wide b, Wide) {
  return b;
}
Wide Swapped(Wide old, Wide b, Wide c) {
  return old == b ? c : old;
}

AtomicOracle Bitwise(uint64_t (*of)(uint64_t, uint64_t)) {
  return [of](Wide old, Wide b, Wide) { return Wide{of(old.low, b.low), 0}; };
}

const std::map<std::string, AtomicCase>& AtomicCases() {
  static const std::map<std::string, AtomicCase> cases = {
      {"add.u32", {4, 'r', On(Plus<uint32_t>)}},
      {"add.s32", {4, 'r', On(Plus<uint32_t>)}},
      {"add.u64", {8, 'd', On(Plus<uint64_t>)}},
      {"add.f32", {4, 'f', On(Plus<float>)}},
      {"add.f64", {8, 'd', On(Plus<double>)}},
      {"add.noftz.f16", {2, 'h', Halves(1, 5)}},
      {"add.noftz.f16x2", {4, 'r', Halves(2, 5)}},
      {"add.noftz.bf16", {2, 'h', Halves(1, 8)}},
      {"add.noftz.bf16x2", {4, 'r', Halves(2, 8)}},
      {"min.u32", {4, 'r', On(Lesser<uint32_t>)}},
      {"min.s32", {4, 'r', On(Lesser<int32_t>)}},
      {"min.u64", {8, 'd', On(Lesser<uint64_t>)}},
      {"min.s64", {8, 'd', On(Lesser<int64_t>)}},
      {"max.u32", {4, 'r', On(Greater<uint32_t>)}},
      {"max.s32", {4, 'r', On(Greater<int32_t>)}},
      {"max.u64", {8, 'd', On(Greater<uint64_t>)}},
      {"max.s64", {8, 'd', On(Greater<int64_t>)}},
      {"inc.u32",
       {4, 'r', On<uint32_t>([](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; })}},
      {"dec.u32",
       {4, 'r', On<uint32_t>([](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; })}},
      {"and.b32", {4, 'r', Bitwise([](uint64_t a, uint64_t b) { return a & b; })}},
      {"and.b64", {8, 'd', Bitwise([](uint64_t a, uint64_t b) { return a & b; })}},
      {"or.b32", {4, 'r', Bitwise([](uint64_t a, uint64_t b) { return a | b; })}},
      {"or.b64", {8, 'd', Bitwise([](uint64_t a, uint64_t b) { return a | b; })}},
      {"xor.b32", {4, 'r', Bitwise([](uint64_t a, uint64_t b) { return a ^ b; })}},
      {"xor.b64", {8, 'd', Bitwise([](uint64_t a, uint64_t b) { return a ^ b; })}},
      {"exch.b32", {4, 'r', Second}},
      {"exch.b64", {8, 'd', Second}},
      {"exch.b128", {16, 'q', Second}},
      {"cas.b16", {2, 'h', Swapped}},
      {"cas.b32", {4, 'r', Swapped}},
      {"cas.b64", {8, 'd', Swapped}},
      {"cas.b128", {16, 'q', Swapped}},
  };
  return cases;
}

// "atom", ".shared" or so, and the rest.
struct Name {
  std::string base;
  std::string space;
  std::string operation;
};
Name Split(std::string_view opcode) {
  Name name;
  name.base = opcode.substr(0, opcode.find('.'));
  opcode.remove_prefix(name.base.size());
  for (const std::string_view space : {".global", ".shared"}) {
    if (opcode.starts_with(space)) name.space = space;
  }
  name.operation = opcode.substr(name.space.size() + 1);
  return name;
}

class AtomicTest : public testing::Test {
 protected:
  // Small numbers of each format, so that floats are finite, sums exact or close to ties, and
  // comparisons meet equals.
  Wide Draw(const std::string& operation) {
    const uint64_t drawn = random_();
    if (operation.find("f16") != std::string::npos) {
      const uint64_t one = operation.find("bf16") != std::string::npos ? 0x3f80 : 0x3c00;
      const uint64_t high = (one + (drawn >> 32) % 0x300) | (drawn >> 20 & 0x8000);
      return {(one - 0x180 + drawn % 0x300) | (drawn >> 40 & 0x8000) | high << 16, 0};
    }
    if (operation.ends_with("f32"))
      return From(static_cast<float>(static_cast<int64_t>(drawn % 4001) - 2000) / 7);
    if (operation.ends_with("f64"))
      return From(static_cast<double>(static_cast<int64_t>(drawn % 4001) - 2000) / 7);
    const uint64_t few = drawn >> 32 & 1 ? drawn % 4 : drawn;
    return {few, few};
  }

  void RunRow(std::string_view opcode, uint32_t mask) {
    SCOPED_TRACE(testing::Message() << opcode << " mask " << mask << " seed " << TestSeed());
    const Name name = Split(opcode);
    const AtomicCase& test = AtomicCases().at(name.operation);
    const bool returns = name.base == "atom";
    const bool swaps = name.operation.starts_with("cas");
    const bool narrow = name.space == ".shared";
    const std::string l(1, test.letter);
    HostWarp warp(fmt::format("{} {}[{} + 32], %{}1{};", opcode, returns ? "%" + l + "0, " : "",
                              narrow ? "%r9" : "%d9", l, swaps ? ", %" + l + "2" : ""));
    ASSERT_EQ(warp.error(), "");
    warp.Execute(mask);

    // Five places, at 32 and on.
    alignas(16) std::byte global[256];
    std::byte* const memory = name.space == ".global" ? global : warp.shared.data();
    Wide expected[5];
    for (int i = 0; i < 5; ++i) {
      expected[i] = Draw(name.operation);
      std::memcpy(memory + 32 + 16 * i, &expected[i], 16);
    }
    const auto slot = [&](int number) { return fmt::format("%{}{}", l, number); };
    std::byte* const lanes_d = Raw(warp, slot(0), test.bytes);
    std::byte* const lanes_b = Raw(warp, slot(1), test.bytes);
    std::byte* const lanes_c = Raw(warp, slot(2), test.bytes);
    Wide gives[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t offset = 16 * (random_() % 5);
      if (narrow)
        warp.Lanes<uint32_t>("%r9")[lane] = static_cast<uint32_t>(offset);
      else if (name.space == ".global")
        warp.Lanes<uint64_t>("%d9")[lane] = std::bit_cast<uint64_t>(memory) + offset;
      else
        warp.Lanes<uint64_t>("%d9")[lane] = kSharedWindow + offset;
      Wide b = Draw(name.operation);
      const Wide c = Draw(name.operation);
      Wide& place = expected[offset / 16];
      if (swaps && random_() % 2 == 0) b = place;
      std::memcpy(lanes_b + test.bytes * lane, &b, test.bytes);
      std::memcpy(lanes_c + test.bytes * lane, &c, test.bytes);
      std::memset(lanes_d + test.bytes * lane, 0x5a, test.bytes);
      gives[lane] = Cut({0x5a5a5a5a5a5a5a5a, 0x5a5a5a5a5a5a5a5a}, test.bytes);
      if ((mask >> lane & 1) == 0) continue;
      const Wide old = Cut(place, test.bytes);
      if (returns) gives[lane] = old;
      const Wide value = test.of(old, Cut(b, test.bytes), Cut(c, test.bytes));
      std::memcpy(&place, &value, test.bytes);
    }
    ASSERT_EQ(warp.Run(), Step::kNext);
    EXPECT_EQ(std::memcmp(memory + 32, expected, sizeof(expected)), 0);
    for (int lane = 0; lane < kLanes; ++lane)
      EXPECT_EQ(std::memcmp(lanes_d + test.bytes * lane, &gives[lane], test.bytes), 0) << lane;
    for (const HostWarp::Access& access : warp.accesses) {
      EXPECT_EQ(access.kind, AccessKind::kAtomic);
      EXPECT_EQ(access.bytes, test.bytes);
    }
    EXPECT_EQ(warp.accesses.size(), static_cast<size_t>(std::popcount(mask)));
  }

  static Wide Cut(Wide bits, int bytes) {
    Wide cut = {};
    std::memcpy(&cut, &bits, bytes);
    return cut;
  }

  static std::byte* Raw(HostWarp& warp, const std::string& name, int bytes) {
    if (bytes == 2) return reinterpret_cast<std::byte*>(warp.Lanes<uint16_t>(name));
    if (bytes == 4) return reinterpret_cast<std::byte*>(warp.Lanes<uint32_t>(name));
    if (bytes == 8) return reinterpret_cast<std::byte*>(warp.Lanes<uint64_t>(name));
    return reinterpret_cast<std::byte*>(warp.Lanes<Wide>(name));
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_F(AtomicTest, EveryRowDoesWhatItsOracleSays) {
  for (const Form& form : AtomicForms()) {
    ASSERT_TRUE(AtomicCases().contains(Split(form.name).operation))
        << form.name << " has no oracle";
    for (const uint32_t mask : {kAllLanes, 0x80000001U, static_cast<uint32_t>(random_()) | 1})
      RunRow(form.name, mask);
  }
}

TEST_F(AtomicTest, OrdersScopesAndHintsDoNotMatter) {
  for (const char* text :
       {"atom.global.acq_rel.gpu.cas.b32 %r0, [%d9], %r1, %r2;",
        "atom.relaxed.sys.shared.add.u32 %r0, [%r9], %r1;",
        "atom.global.gpu.acq_rel.add.noftz.f16 %h0, [%d9], %h1;",
        "atom.add.release.gpu.u32 %r0, [%d9], 1;",
        "atom.global.add.L2::cache_hint.u32 %r0, [%d9], %r1, %d3;",
        "red.relaxed.gpu.global.add.s32 [%d9], 1;", "atom.shared::cta.inc.u32 _, [sm + 4], 7;"}) {
    EXPECT_EQ(HostWarp(text).error(), "") << text;
  }
}

TEST_F(AtomicTest, WhatHasNoRowIsRefused) {
  for (const char* text : {"red.async.relaxed.cluster.global.add.u32 [%d9], %r1;",
                           "atom.global.add.s64 %d0, [%d9], %d1;",
                           "atom.global.v2.f32.add {%f0, %f1}, [%d9], {%f2, %f3};"}) {
    EXPECT_NE(HostWarp(text).error(), "") << text;
  }
}

TEST_F(AtomicTest, GlobalFloatSumsFlushDenormalsAndSharedOnesKeepThem) {
  const float tiny = 0x1p-130F;
  float global = tiny;
  HostWarp in_global("red.global.add.f32 [%d9], %f1;");
  HostWarp in_shared("red.shared.add.f32 [%r9], %f1;");
  in_global.Execute(1);
  in_shared.Execute(1);
  in_global.Lanes<uint64_t>("%d9")[0] = std::bit_cast<uint64_t>(&global);
  in_global.Lanes<float>("%f1")[0] = tiny;
  in_shared.Lanes<float>("%f1")[0] = tiny;
  std::memcpy(in_shared.shared.data(), &tiny, 4);
  EXPECT_EQ(in_global.Run(), Step::kNext);
  EXPECT_EQ(in_shared.Run(), Step::kNext);
  EXPECT_EQ(global, FlushedSum(tiny, tiny));
  float sum;
  std::memcpy(&sum, in_shared.shared.data(), 4);
  EXPECT_EQ(sum, 2 * tiny);
}

TEST_F(AtomicTest, ALaneThatMayNotEndsIt) {
  HostWarp warp("atom.global.add.u32 %r0, [%d9], 1;");
  uint32_t place = 5;
  for (int lane = 0; lane < kLanes; ++lane)
    warp.Lanes<uint64_t>("%d9")[lane] = lane == 3 ? 0 : std::bit_cast<uint64_t>(&place);
  EXPECT_EQ(warp.Run(), Step::kStop);
  EXPECT_EQ(place, 8);
}

}  // namespace
}  // namespace coppice::ptx
