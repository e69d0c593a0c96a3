// Goal: mov copies, packs elements into a register, the first lowest, and takes them out of it; of
// every width, on both instruction sets. Method: bytes of a pattern in registers, with some lanes
// that execute; what is expected is put together byte by byte.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "tests/ptx/host_warp.h"

namespace coppice::ptx {
namespace {

struct Wide128 {
  uint64_t low;
  uint64_t high;
};

// A register of a width, and how many bytes of it an element has.
struct Register {
  char prefix;  // Of its name: %h, %r, %d, %q.
  size_t bytes;
};

Register RegisterOf(size_t bytes) {
  if (bytes <= 2) return {'h', 2};
  if (bytes == 4) return {'r', 4};
  return bytes == 8 ? Register{'d', 8} : Register{'q', 16};
}

std::byte* Bytes(HostWarp& warp, const std::string& name, size_t bytes) {
  const auto as_bytes = [](auto* lanes) { return reinterpret_cast<std::byte*>(lanes); };
  if (bytes == 2) return as_bytes(warp.Lanes<uint16_t>(name));
  if (bytes == 4) return as_bytes(warp.Lanes<uint32_t>(name));
  if (bytes == 8) return as_bytes(warp.Lanes<uint64_t>(name));
  return as_bytes(warp.Lanes<Wide128>(name));
}

// Byte i of a lane of a register; no two in a row are equal.
std::byte RegisterPattern(size_t reg, int lane, size_t i) {
  return static_cast<std::byte>(reg * 91 + static_cast<size_t>(lane) * 37 + i * 29 + 5);
}

struct Shape {
  const char* type;
  size_t bytes;
  size_t elements;
};
constexpr Shape kMoveShapes[] = {
    {"b16", 2, 2}, {"b32", 4, 2},   {"b32", 4, 4},   {"b64", 8, 2},
    {"b64", 8, 4}, {"b128", 16, 2}, {"b128", 16, 4},
};

constexpr uint32_t kMask = 0xf0f3'35a1;

class MoveTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !HasAvx2()) GTEST_SKIP() << "no AVX2 here";
  }

  static const Form* RowOf(std::string_view name) {
    const std::span<const Form> rows = GetParam() ? avx2::MoveForms() : baseline::MoveForms();
    for (const Form& row : rows)
      if (row.name == name) return &row;
    return nullptr;
  }

  static void Fill(HostWarp& warp, const std::string& name, size_t bytes, size_t reg) {
    std::byte* const lanes = Bytes(warp, name, bytes);
    for (int lane = 0; lane < kLanes; ++lane)
      for (size_t i = 0; i < bytes; ++i)
        lanes[static_cast<size_t>(lane) * bytes + i] = RegisterPattern(reg, lane, i);
  }
};

TEST_P(MoveTest, PacksElementsTheFirstLowest) {
  for (const Shape& shape : kMoveShapes) {
    const size_t part = shape.bytes / shape.elements;
    const Register from = RegisterOf(part);
    const Register to = RegisterOf(shape.bytes);
    const std::string d = fmt::format("%{}8", to.prefix);
    std::string list;
    for (size_t k = 0; k < shape.elements; ++k)
      list += fmt::format("{}%{}{}", k == 0 ? "" : ", ", from.prefix, k);
    const std::string name = fmt::format("mov.{}", shape.type);
    SCOPED_TRACE(fmt::format("{} of {}", name, list));
    HostWarp warp(fmt::format("{} {}, {{{}}};", name, d, list));
    ASSERT_EQ(warp.error(), "");
    for (size_t k = 0; k < shape.elements; ++k)
      Fill(warp, fmt::format("%{}{}", from.prefix, k), from.bytes, k);
    Fill(warp, d, shape.bytes, 9);
    warp.Execute(kMask);
    warp.Run(0, RowOf(name));
    const std::byte* const lanes = Bytes(warp, d, shape.bytes);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (size_t i = 0; i < shape.bytes; ++i) {
        const bool executes = (kMask >> lane & 1) != 0;
        const std::byte expected =
            executes ? RegisterPattern(i / part, lane, i % part) : RegisterPattern(9, lane, i);
        ASSERT_EQ(lanes[static_cast<size_t>(lane) * shape.bytes + i], expected) << lane;
      }
    }
  }
}

TEST_P(MoveTest, UnpacksWhatItPacked) {
  for (const Shape& shape : kMoveShapes) {
    const size_t part = shape.bytes / shape.elements;
    const Register to = RegisterOf(part);
    const Register from = RegisterOf(shape.bytes);
    const std::string a = fmt::format("%{}8", from.prefix);
    std::string list;
    for (size_t k = 0; k < shape.elements; ++k)
      list += fmt::format("{}%{}{}", k == 0 ? "" : ", ", to.prefix, k);
    const std::string name = fmt::format("mov.{}", shape.type);
    SCOPED_TRACE(fmt::format("{} to {}", name, list));
    HostWarp warp(fmt::format("{} {{{}}}, {};", name, list, a));
    ASSERT_EQ(warp.error(), "");
    for (size_t k = 0; k < shape.elements; ++k)
      Fill(warp, fmt::format("%{}{}", to.prefix, k), to.bytes, k);
    Fill(warp, a, shape.bytes, 9);
    warp.Execute(kMask);
    warp.Run(0, RowOf(name));
    for (size_t k = 0; k < shape.elements; ++k) {
      const std::byte* const lanes = Bytes(warp, fmt::format("%{}{}", to.prefix, k), to.bytes);
      for (int lane = 0; lane < kLanes; ++lane) {
        for (size_t i = 0; i < to.bytes; ++i) {
          const bool executes = (kMask >> lane & 1) != 0;
          // Bits of a register above its element are zeros.
          const std::byte taken = i < part ? RegisterPattern(9, lane, k * part + i) : std::byte{0};
          ASSERT_EQ(lanes[static_cast<size_t>(lane) * to.bytes + i],
                    executes ? taken : RegisterPattern(k, lane, i))
              << lane;
        }
      }
    }
  }
}

TEST_P(MoveTest, TakesBytesOutOfTheRegisterThatGetsThem) {
  HostWarp warp("mov.b16 {%h0, %h1}, %h0;");
  ASSERT_EQ(warp.error(), "");
  uint16_t* const low = warp.Lanes<uint16_t>("%h0");
  for (uint16_t lane = 0; lane < kLanes; ++lane)
    low[lane] = static_cast<uint16_t>(0x4100 + lane);
  warp.Run(0, RowOf("mov.b16"));
  for (uint16_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(low[lane], lane);
    EXPECT_EQ(warp.Lanes<uint16_t>("%h1")[lane], 0x41);
  }
}

TEST_P(MoveTest, CopiesRegistersOfEveryWidth) {
  for (const char* const type : {"b16", "b32", "b64", "b128"}) {
    const size_t bytes = std::stoul(type + 1) / 8;
    const Register reg = RegisterOf(bytes);
    const std::string name = fmt::format("mov.{}", type);
    const std::string d = fmt::format("%{}1", reg.prefix);
    HostWarp warp(fmt::format("{} {}, %{}0;", name, d, reg.prefix));
    ASSERT_EQ(warp.error(), "") << name;
    Fill(warp, fmt::format("%{}0", reg.prefix), bytes, 0);
    warp.Run(0, RowOf(name));
    std::vector<std::byte> expected;
    for (int lane = 0; lane < kLanes; ++lane)
      for (size_t i = 0; i < bytes; ++i)
        expected.push_back(RegisterPattern(0, lane, i));
    EXPECT_EQ(std::memcmp(Bytes(warp, d, bytes), expected.data(), expected.size()), 0) << name;
  }
}

TEST(MoveTextTest, ElementsFillTheRegister) {
  for (const char* const text :
       {"mov.b32 %r0, {%h0};", "mov.b64 %d0, {%r0, %r1, %r2};", "mov.b32 {%h0, %h1}, {%h2, %h3};",
        "mov.b128 %q0, {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7};", "mov.b16 %h0, {%r0, %r1};"})
    EXPECT_NE(HostWarp(text).error(), "") << text;
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, MoveTest, testing::Bool(), [](const auto& set) {
  return std::string(set.param ? "Avx2" : "Baseline");
});

}  // namespace
}  // namespace coppice::ptx
