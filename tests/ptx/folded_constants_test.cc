// Goal: instructions give what ptxas computes of them when it compiles, as the GPU would. Method:
// the table that make_folded_constants.py wrote; an approximation may be as far away as the PTX ISA
// lets it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form_table.h"
#include "tests/ptx/fixtures.h"
#include "tests/ptx/one_form.h"

namespace coppice::ptx {
namespace {

// One result: the bits of what is read, in order, and of what is written.
struct FoldedConstant {
  std::vector<uint64_t> reads;
  uint64_t result = 0;
};
using FoldedForm = std::pair<std::string, std::string>;  // Opcode and letters.

std::map<FoldedForm, std::vector<FoldedConstant>> ReadTable() {
  std::map<FoldedForm, std::vector<FoldedConstant>> table;
  std::istringstream file(ReadFixture("folded_constants/folded_constants.tsv"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    FoldedForm form;
    fields >> form.first >> form.second;
    FoldedConstant constant;
    for (std::string bits; fields >> bits;)
      constant.reads.push_back(std::stoull(bits, nullptr, 16));
    constant.result = constant.reads.back();
    constant.reads.pop_back();
    table[form].push_back(std::move(constant));
  }
  return table;
}

// Units in the last place between two floats of 32 bits; of different signs, through zero.
int64_t UlpsBetween(uint64_t a, uint64_t b) {
  const auto rank = [](uint64_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & 0x7fffffff);
    return (bits >> 31 & 1) != 0 ? -magnitude : magnitude;
  };
  return std::abs(rank(a) - rank(b));
}

bool IsFolded(const std::string& opcode, uint64_t actual, uint64_t folded) {
  if (actual == folded) return true;
  if (opcode.find(".approx") == std::string::npos && opcode.find(".full") == std::string::npos)
    return false;
  return UlpsBetween(actual, folded) <= 2;
}

TEST(FoldedConstantsTest, AreWhatInstructionsGive) {
  const auto table = ReadTable();
  ASSERT_GT(table.size(), 100U);
  for (const auto& [form, constants] : table) {
    const auto& [opcode, letters] = form;
    const Form* const row = FindForm(opcode);
    if (row == nullptr) {
      ADD_FAILURE() << opcode << " is not executed";
      continue;
    }
    // A second predicate may be missing in a text, but not here.
    OneForm one(opcode,
                letters.starts_with('P') && opcode.starts_with("setp") ? "P|" + letters : letters);
    ASSERT_EQ(one.error(), "") << opcode;
    const std::vector<FormOperand>& places = one.places();
    ASSERT_LE(constants.size(), static_cast<size_t>(kLanes));
    for (size_t lane = 0; lane < constants.size(); ++lane) {
      const size_t first = places.size() - constants[lane].reads.size();
      for (size_t i = first; i < places.size(); ++i)
        one.warp().Set(places[i], static_cast<int>(lane), constants[lane].reads[i - first]);
    }
    one.Run(*row, kAllLanes);
    for (size_t lane = 0; lane < constants.size(); ++lane) {
      const uint64_t actual = one.warp().Get(places[0], static_cast<int>(lane));
      EXPECT_TRUE(IsFolded(opcode, actual, constants[lane].result))
          << fmt::format("{} of {:#x}: {:#x}, but ptxas has {:#x}", opcode,
                         fmt::join(constants[lane].reads, ", "), actual, constants[lane].result);
    }
  }
}

// Those that every version of ptxas folds; others come and go.
TEST(FoldedConstantsTest, CoverConversionsShiftsAndApproximations) {
  std::set<std::string> folded;
  for (const auto& [form, constants] : ReadTable())
    folded.insert(form.first);
  for (const char* const opcode : {"cvt.rni.f32.f32", "cvt.rn.f16.f32", "cvt.sat.f32.f32",
                                   "shf.l.wrap.b32", "rsqrt.approx.f32"})
    EXPECT_TRUE(folded.contains(opcode)) << opcode;
}

}  // namespace
}  // namespace coppice::ptx
