// set: comparisons whose result a register shows.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/emulator/ptx/forms/comparison.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// What a true lane shows, as the flags number it.
constexpr std::array<uint32_t, 5> kTrue = {0xffffffff, 0x3f800000, 0xffff, 0x3c00, 0x3f80};

struct ResultType {
  const char* name;
  uint8_t shown;       // An index of kTrue.
  const char* letter;  // Of the register.
};
constexpr ResultType kWords[] = {
    {".u32", 0, "W"}, {".s32", 0, "W"}, {".f32", 1, "W"}, {".f16", 3, "H"}};
constexpr ResultType kOfF16[] = {
    {".u32", 0, "W"}, {".s32", 0, "W"}, {".u16", 2, "H"}, {".s16", 2, "H"}, {".f16", 3, "H"}};
constexpr ResultType kOfBF16[] = {
    {".u32", 0, "W"}, {".s32", 0, "W"}, {".u16", 2, "H"}, {".s16", 2, "H"}, {".bf16", 4, "H"}};
// Packed: half a register each.
constexpr ResultType kOfF16x2[] = {{".f16x2", 3, "W"}, {".u32", 2, "W"}, {".s32", 2, "W"}};
constexpr ResultType kOfBF16x2[] = {{".bf16x2", 4, "W"}, {".u32", 2, "W"}, {".s32", 2, "W"}};

std::span<const ResultType> ResultsOf(std::string_view type) {
  if (type == ".f16") return kOfF16;
  if (type == ".bf16") return kOfBF16;
  if (type == ".f16x2") return kOfF16x2;
  if (type == ".bf16x2") return kOfBF16x2;
  return kWords;
}

uint32_t Shown(const Instr& instr) {
  return kTrue[instr.flags >> 2 & 7];
}

uint32_t CombinedSet(const Warp& warp, const Instr& instr, uint32_t bits) {
  return (instr.flags & 3) != 0 ? Combined(instr, bits, warp.Predicate(instr.c)) : bits;
}

template <typename D>
void ShowAs(Warp& warp, const Instr& instr, uint32_t bits) {
  const auto shown = static_cast<D>(Shown(instr));
  KeepLanes(warp.mask(), warp.To<D>(instr.d), [=](int i) {
    return static_cast<D>((bits & kLaneBits[static_cast<size_t>(i)]) != 0 ? shown : 0);
  });
}

// Once for all comparisons, whose code is long enough without.
[[gnu::noinline]] void Show(Warp& warp, const Instr& instr, uint32_t compared) {
  const uint32_t bits = CombinedSet(warp, instr, compared);
  if (Shown(instr) > 0xffff) {
    ShowAs<uint32_t>(warp, instr, bits);
  } else {
    ShowAs<uint16_t>(warp, instr, bits);
  }
}

[[gnu::noinline]] void ShowPacked(Warp& warp,
                                  const Instr& instr,
                                  uint32_t compared_low,
                                  uint32_t compared_high) {
  const uint32_t low = CombinedSet(warp, instr, compared_low);
  const uint32_t high = CombinedSet(warp, instr, compared_high);
  const uint32_t shown = Shown(instr);
  KeepLanes(warp.mask(), warp.To<uint32_t>(instr.d), [=](int i) {
    const uint32_t bit = kLaneBits[static_cast<size_t>(i)];
    return ((low & bit) != 0 ? shown : 0) | ((high & bit) != 0 ? shown << 16 : 0);
  });
}

template <typename Operand, typename Op>
Step Set(Warp& warp, const Instr& instr) {
  Show(warp, instr, Compare<Operand, Op>(warp, instr.a, instr.b));
  return Step::kNext;
}

template <typename Low, typename High, typename Op>
Step SetPacked(Warp& warp, const Instr& instr) {
  ShowPacked(warp, instr, Compare<Low, Op>(warp, instr.a, instr.b),
             Compare<High, Op>(warp, instr.a, instr.b));
  return Step::kNext;
}

struct SetRows {
  template <typename Operand, typename Op>
  void Add(const Compared& what) {
    AddRows(Op::kName, what, Set<Operand, Op>);
  }
  template <typename Low, typename High, typename Op>
  void AddPacked(const Compared& what) {
    AddRows(Op::kName, what, SetPacked<Low, High, Op>);
  }

  void AddRows(const std::string& compare, const Compared& what, Handler handler) {
    for (const ResultType& result : ResultsOf(what.type)) {
      for (size_t i = 0; i < kCombines.size(); ++i) {
        const std::string letters = std::string(result.letter) + what.letters + (i > 0 ? "p" : "");
        table.Add("set" + compare + kCombines[i] + what.flush + result.name + what.type, letters,
                  handler, static_cast<uint8_t>(i | static_cast<size_t>(result.shown) << 2));
      }
    }
  }

  FormTable table;
};

FormTable MakeSetTable() {
  SetRows rows;
  Comparisons(rows).AddAll();
  return std::move(rows.table);
}

}  // namespace

std::span<const Form> SetForms() {
  static const FormTable table = MakeSetTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
