// setp: comparisons that give predicates.

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/emulator/ptx/forms/comparison.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// Both results are combined with the predicate, if there is one.
void SetBoth(Warp& warp, const Instr& instr, uint32_t p, uint32_t q) {
  if ((instr.flags & 3) != 0) {
    const uint32_t with = warp.Predicate(warp.More(instr, 0));
    p = Combined(instr, p, with);
    q = Combined(instr, q, with);
  }
  warp.SetPredicate(instr.d, p);
  warp.SetPredicate(instr.a, q);
}

// p|q: q is the opposite.
template <typename Operand, typename Op>
Step Setp(Warp& warp, const Instr& instr) {
  const uint32_t p = Compare<Operand, Op>(warp, instr.b, instr.c);
  SetBoth(warp, instr, p, ~p);
  return Step::kNext;
}

// p|q: of the lower and of the upper halves.
template <typename Low, typename High, typename Op>
Step SetpPacked(Warp& warp, const Instr& instr) {
  const uint32_t p = Compare<Low, Op>(warp, instr.b, instr.c);
  SetBoth(warp, instr, p, Compare<High, Op>(warp, instr.b, instr.c));
  return Step::kNext;
}

struct SetpRows {
  template <typename Operand, typename Op>
  void Add(const Compared& what) {
    AddRows(Op::kName, what, Setp<Operand, Op>);
  }
  template <typename Low, typename High, typename Op>
  void AddPacked(const Compared& what) {
    AddRows(Op::kName, what, SetpPacked<Low, High, Op>);
  }

  void AddRows(const std::string& compare, const Compared& what, Handler handler) {
    for (size_t i = 0; i < kCombines.size(); ++i) {
      const std::string letters = std::string("P|P") + what.letters + (i > 0 ? "p" : "");
      table.Add("setp" + compare + kCombines[i] + what.flush + what.type, letters, handler,
                static_cast<uint8_t>(i));
    }
  }

  FormTable table;
};

FormTable MakeCompareTable() {
  SetpRows rows;
  Comparisons(rows).AddAll();
  return std::move(rows.table);
}

}  // namespace

std::span<const Form> CompareForms() {
  static const FormTable table = MakeCompareTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
