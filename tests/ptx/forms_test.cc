// Goal: every form that computes gives, in every lane that executes, what the PTX ISA says, and
// leaves all else as it was; on both instruction sets.
// Method: each row of each family against an oracle that derives from its name: all values of
// operands of 16 bits that are alone, edges and drawn values of others and of registers that are
// wider than their types, with all lanes and with some.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
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
#include "tests/ptx/exact.h"
#include "tests/ptx/one_form.h"
#include "tests/ptx/oracle.h"
#include "tests/support/test_device.h"
#include "tests/support/test_share.h"

namespace coppice::ptx {
namespace {

using Rows = std::span<const Form> (*)();

struct FamilyUnderTest {
  const char* name;
  Rows baseline;
  Rows avx2;
};

constexpr FamilyUnderTest kFamilies[] = {
    {"Approximate", baseline::ApproximateForms, avx2::ApproximateForms},
    {"BitField", baseline::BitFieldForms, avx2::BitFieldForms},
    {"Carry", baseline::CarryForms, avx2::CarryForms},
    {"Compare", baseline::CompareForms, avx2::CompareForms},
    {"Convert", baseline::ConvertForms, avx2::ConvertForms},
    {"Float", baseline::FloatForms, avx2::FloatForms},
    {"Half", baseline::HalfForms, avx2::HalfForms},
    {"Integer", baseline::IntegerForms, avx2::IntegerForms},
    {"Logic", baseline::LogicForms, avx2::LogicForms},
    {"Move", baseline::MoveForms, avx2::MoveForms},
    {"Narrow", baseline::NarrowForms, avx2::NarrowForms},
    {"Round", baseline::RoundForms, avx2::RoundForms},
    {"Select", baseline::SelectForms, avx2::SelectForms},
    {"Set", baseline::SetForms, avx2::SetForms},
    {"Sign", baseline::SignForms, avx2::SignForms},
};

// Numbers around which something changes, of a format: as bits.
std::vector<uint64_t> EdgesOf(const BinaryFormat& format) {
  const uint64_t one = static_cast<uint64_t>(format.bias()) << format.mantissa_bits;
  const uint64_t least = uint64_t{1} << format.mantissa_bits;
  std::vector<uint64_t> edges = {0,
                                 1,
                                 least - 1,
                                 least,
                                 least + 1,
                                 one - 1,
                                 one,
                                 one + 1,
                                 one + least / 2,
                                 one + least,
                                 format.largest() - 1,
                                 format.largest(),
                                 format.infinity(),
                                 format.infinity() + 1,
                                 format.infinity() + least / 2,
                                 format.nan()};
  const size_t count = edges.size();
  for (size_t i = 0; i < count; ++i)
    edges.push_back(edges[i] | format.sign());
  return edges;
}

// Powers of two and their neighbours, of an integer and of a float's exponent.
std::vector<uint64_t> EdgesOf(int bits) {
  std::vector<uint64_t> edges;
  if (bits == 16) edges = EdgesOf(kFormatF16);
  if (bits == 32) edges = EdgesOf(kFormatF32);
  if (bits == 64) edges = EdgesOf(kFormatF64);
  if (bits == 16) std::ranges::copy(EdgesOf(kFormatBF16), std::back_inserter(edges));
  for (const int power : {0, 1, 3, 7, 8, 15, 16, 23, 24, 31, 32, 33, 47, 52, 53, 62, 63}) {
    for (const int64_t offset : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << power) + static_cast<uint64_t>(offset);
      edges.insert(edges.end(), {value, ~value, 0 - value});
      // The number as a float.
      const auto number = static_cast<double>(value);
      if (bits == 32) edges.push_back(std::bit_cast<uint32_t>(static_cast<float>(number)));
      if (bits == 64) edges.push_back(std::bit_cast<uint64_t>(number));
      if (bits == 32) edges.push_back(std::bit_cast<uint32_t>(-static_cast<float>(number) - 0.5f));
      if (bits == 64) edges.push_back(std::bit_cast<uint64_t>(-number - 0.5));
    }
  }
  return edges;
}

class Values {
 public:
  explicit Values(uint64_t seed) : random_(seed) {}

  uint64_t Draw(const FormOperand& place) {
    const int bits = place.bits();
    if (bits == 1) return random_() & 1;
    const std::vector<uint64_t>& edges = EdgesFor(bits);
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return Cut(edges[random_() % edges.size()], bits);
      case 3:
        return Cut(random_() % 80, bits);
      case 4:
        if (bits == 32) {  // Two halves.
          const std::vector<uint64_t>& halves = EdgesFor(16);
          return Cut(halves[random_() % halves.size()], 16) << 16 |
                 Cut(halves[random_() % halves.size()], 16);
        }
        [[fallthrough]];
      case 5: {  // A float that is not far from 1, often with few bits, so that ties happen.
        const BinaryFormat& format = bits == 16 ? kFormatF16 : bits == 32 ? kFormatF32 : kFormatF64;
        const int range = std::min(format.bias() - 2, 40);
        const auto field = static_cast<uint64_t>(
            format.bias() - range + static_cast<int>(random_() % static_cast<uint64_t>(2 * range)));
        uint64_t mantissa = random_() & ((uint64_t{1} << format.mantissa_bits) - 1);
        if (random_() % 2 == 0) mantissa &= ~uint64_t{0} << (random_() % 52);
        return Cut(random_() << 63 >> (64 - bits) | field << format.mantissa_bits | mantissa, bits);
      }
      default:
        return Cut(random_(), bits);
    }
  }

  // Next to another operand: the same, one apart, its opposite.
  uint64_t Near(uint64_t other, int bits) {
    switch (random_() % 4) {
      case 0:
        return other;
      case 1:
        return Cut(other + 1, bits);
      case 2:
        return Cut(other - 1, bits);
      default:
        return other ^ (uint64_t{1} << (bits - 1));
    }
  }

  uint32_t Mask() { return static_cast<uint32_t>(random_()) | 1; }
  uint64_t operator()() { return random_(); }

 private:
  static uint64_t Cut(uint64_t value, int bits) {
    return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
  }

  const std::vector<uint64_t>& EdgesFor(int bits) {
    std::vector<uint64_t>& edges = edges_[bits];
    if (edges.empty()) edges = EdgesOf(bits);
    return edges;
  }

  std::mt19937_64 random_;
  std::map<int, std::vector<uint64_t>> edges_;
};

// The bits of a float as a number that counts the floats below it.
int64_t Rank(const BinaryFormat& format, uint64_t bits) {
  const auto magnitude = static_cast<int64_t>(bits & (format.sign() - 1));
  return (bits & format.sign()) != 0 ? -magnitude : magnitude;
}

bool Agrees(const Oracle& oracle, uint64_t actual, uint64_t expected) {
  if (actual == expected) return true;
  if (!oracle.format.has_value()) return false;
  const BinaryFormat& format = *oracle.format;
  for (int half = 0; half < oracle.halves; ++half) {
    const uint64_t all = format.bits() == 64 ? ~uint64_t{0} : (uint64_t{1} << format.bits()) - 1;
    const uint64_t x = actual >> (half * format.bits()) & all;
    const uint64_t y = expected >> (half * format.bits()) & all;
    if (x == y) continue;
    const bool nan = FromFormat(format, x).is_nan();
    if (nan != FromFormat(format, y).is_nan()) return false;
    if (nan && format.bits() == 64) continue;
    if (nan || std::abs(Rank(format, x) - Rank(format, y)) > oracle.ulps) return false;
    if ((x ^ y) >> (format.bits() - 1) != 0) return false;
  }
  return true;
}

// The operands of a row without letters, as wide as its types. None of registers of 128 bits, which
// OneForm does not have: move_test.cc.
std::vector<std::string> LettersOf(const Form& row) {
  if (row.operands[0] != '\0') return {row.operands};
  const Opcode opcode(row.name);
  if (row.name == std::string_view("mov.b128")) return {};
  if (opcode.base() == "mov")
    return {opcode.type() == "b16" ? "Hh" : opcode.type() == "b32" ? "Ww" : "Dd"};
  const auto widths = [](const std::string& type) -> std::string {
    if (type == "f16") return "h";
    if (type == "f32") return "w";
    if (type == "f64") return "d";
    const int bits = IntegerTypeOf(type)->bits;
    return bits <= 16 ? "hwd" : bits == 32 ? "wd" : "d";
  };
  std::vector<std::string> all;
  for (const char to : widths(opcode.before_type())) {
    for (const char from : widths(opcode.type()))
      all.push_back({static_cast<char>(to - 'a' + 'A'), from});
  }
  return all;
}

// What a wider register shows of an integer.
uint64_t Extended(const Opcode& opcode, const FormOperand& place, uint64_t value) {
  if (opcode.base() != "cvt" || opcode.Has("pack")) return value;
  const std::optional<IntegerType> type = IntegerTypeOf(opcode.before_type());
  if (!type.has_value()) return value;
  return Wrapped(Value(*type, value), place.bits());
}

// One row with operands of some letters.
class RowTest {
 public:
  RowTest(const Form& row, const std::string& letters, const Oracle& oracle, Values& values)
      : row_(row),
        opcode_(row.name),
        immediate_(values() & 0xff),
        form_(row.name, letters, immediate_),
        oracle_(oracle),
        values_(values) {}

  void Run(bool may_be_all) {
    ASSERT_EQ(form_.error(), "") << row_.name;
    const auto reads = std::ranges::count_if(form_.places(), &FormOperand::read);
    const bool all = may_be_all && reads == 1 && form_.places().back().letter == 'h';
    const int64_t batches = all ? (1 << 16) / kLanes : 16;
    // Odd, so that lanes are masked in some.
    const int64_t step = all ? TestShare() | 1 : std::min<int64_t>(TestShare(), 3);
    for (int64_t i = 0; i < batches && !testing::Test::HasFailure(); i += step)
      Batch(all ? i * kLanes : -1, i % 2 == 0);
  }

 private:
  // Lanes of drawn values, or of those from `first` on.
  void Batch(int64_t first, bool all_lanes) {
    const uint32_t mask = all_lanes ? kAllLanes : values_.Mask();
    const std::vector<FormOperand>& places = form_.places();
    std::vector<std::array<uint64_t, kLanes>> before(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      const FormOperand& place = places[i];
      for (int lane = 0; lane < kLanes; ++lane) {
        uint64_t& value = before[i][static_cast<size_t>(lane)];
        value = place.letter == 'i' ? immediate_ : values_.Draw(place);
        if (first >= 0 && place.read) value = static_cast<uint64_t>(first + lane);
        if (first < 0 && i > 1 && place.bits() > 1 && place.letter == places[i - 1].letter &&
            values_() % 4 == 0)
          value = values_.Near(before[i - 1][static_cast<size_t>(lane)], place.bits());
        if (place.letter != 'i') form_.warp().Set(place, lane, value);
      }
    }
    form_.Run(row_, mask);
    for (int lane = 0; lane < kLanes && !testing::Test::HasFailure(); ++lane)
      Check(before, lane, (mask >> lane & 1) != 0);
  }

  void Check(const std::vector<std::array<uint64_t, kLanes>>& before, int lane, bool executes) {
    const std::vector<FormOperand>& places = form_.places();
    const auto at = static_cast<size_t>(lane);
    Inputs in = {};
    size_t read = 0;
    std::string shown;
    for (size_t i = 0; i < places.size(); ++i) {
      if (!places[i].read) continue;
      in[read++] = before[i][at];
      shown += fmt::format(" {:#x}", before[i][at]);
    }
    const Outputs expected = executes ? oracle_.of(in) : Outputs();
    size_t written = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].letter == 'i') continue;
      const uint64_t actual = form_.warp().Get(places[i], lane);
      uint64_t wanted = before[i][at];
      bool agrees = actual == wanted;
      if (executes && places[i].written) {
        wanted = Extended(opcode_, places[i], expected[written++]);
        agrees = Agrees(oracle_, actual, wanted);
      }
      ASSERT_TRUE(agrees) << row_.name << (executes ? "" : ", which does not execute,") << " of"
                          << shown
                          << fmt::format(": operand {} is {:#x}, not {:#x}", i, actual, wanted);
    }
  }

  const Form& row_;
  Opcode opcode_;
  uint64_t immediate_;
  OneForm form_;
  const Oracle& oracle_;
  Values& values_;
};

class FormsTest : public testing::TestWithParam<FamilyUnderTest> {
 protected:
  static void RunAll(std::span<const Form> rows) {
    Values values(TestSeed());
    int failures = 0;
    for (const Form& row : rows) {
      const std::optional<Oracle> oracle = FindOracle(row.name);
      ASSERT_TRUE(oracle.has_value()) << row.name;
      const std::vector<std::string> letters = LettersOf(row);
      for (size_t i = 0; i < letters.size(); ++i)
        RowTest(row, letters[i], *oracle, values).Run(i == 0);
      if (HasFailure() && ++failures > 0) return;
    }
  }
};

TEST_P(FormsTest, GivesWhatTheOracleGives) {
  RunAll(GetParam().baseline());
}

TEST_P(FormsTest, GivesWhatTheOracleGivesByAvx2) {
  if (!HasAvx2()) GTEST_SKIP() << "this machine has no AVX2";
  RunAll(GetParam().avx2());
}

TEST_P(FormsTest, HasTheSameRowsForEachInstructionSet) {
  if (!HasAvx2()) GTEST_SKIP() << "this machine has no AVX2";
  const std::span<const Form> baseline = GetParam().baseline();
  const std::span<const Form> avx2 = GetParam().avx2();
  ASSERT_EQ(baseline.size(), avx2.size());
  for (size_t i = 0; i < baseline.size(); ++i) {
    EXPECT_STREQ(baseline[i].name, avx2[i].name);
    EXPECT_STREQ(baseline[i].operands, avx2[i].operands);
    EXPECT_EQ(baseline[i].flags, avx2[i].flags);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FormsTest, testing::ValuesIn(kFamilies), [](const auto& family) {
  return std::string(family.param.name);
});

}  // namespace
}  // namespace coppice::ptx
