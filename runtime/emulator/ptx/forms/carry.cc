// Integer arithmetic with the carry flag: chains for numbers wider than registers.
//
// The flag is a predicate of the frame, the last slot of an instruction: a carry of additions, a
// borrow of subtractions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/table.h"
#include "runtime/emulator/ptx/forms/wide.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// What an instruction does with the flag: bits.
constexpr int kReadsCarry = 1;
constexpr int kWritesCarry = 2;

template <typename T>
struct Carried {
  T value;
  bool carry;
};

template <typename T>
Carried<T> AddCarry(T a, T b, bool carry) {
  const T sum = a + b;
  const T value = sum + T{carry};
  return {value, sum < a || value < sum};
}

template <typename T>
Carried<T> SubBorrow(T a, T b, bool borrow) {
  const T difference = a - b;
  return {difference - T{borrow}, a < b || difference < T{borrow}};
}

template <typename T>
T LowProduct(T a, T b) {
  return a * b;
}

// S is signed or not, T its unsigned twin.
template <typename S, typename T>
T HighProduct(T a, T b) {
  return static_cast<T>((Wide<S>{static_cast<S>(a)} * Wide<S>{static_cast<S>(b)}) >>
                        (8 * sizeof(T)));
}

template <typename T, int carries, typename Of>
[[gnu::always_inline]] inline void Chain(Warp& warp, Slot to, Slot flag, const Of& of) {
  T* const d = warp.To<T>(to);
  const uint32_t before = (carries & kReadsCarry) != 0 ? warp.Predicate(flag) : 0;
  const uint32_t mask = warp.mask();
  uint32_t after = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t bit = kLaneBits[static_cast<size_t>(lane)];
    const Carried<T> result = of(lane, (before & bit) != 0);
    after |= result.carry ? bit : 0;
    d[lane] = (mask & bit) != 0 ? result.value : d[lane];
  }
  if constexpr ((carries & kWritesCarry) != 0) warp.SetPredicate(flag, after);
}

template <typename T, int carries, Carried<T> (*of)(T, T, bool)>
Step Binary(Warp& warp, const Instr& instr) {
  const T* const a = warp.From<T>(instr.a);
  const T* const b = warp.From<T>(instr.b);
  Chain<T, carries>(warp, instr.d, instr.c,
                    [=](int i, bool carry) { return of(a[i], b[i], carry); });
  return Step::kNext;
}

template <typename T, int carries, T (*product)(T, T)>
Step MultiplyAdd(Warp& warp, const Instr& instr) {
  const T* const a = warp.From<T>(instr.a);
  const T* const b = warp.From<T>(instr.b);
  const T* const c = warp.From<T>(instr.c);
  Chain<T, carries>(warp, instr.d, warp.More(instr, 0), [=](int i, bool carry) {
    return AddCarry<T>(product(a[i], b[i]), c[i], carry);
  });
  return Step::kNext;
}

template <typename S, int carries>
void AddCarryRows(FormTable& table, const std::string& type) {
  using T = std::make_unsigned_t<S>;
  const std::string end = ((carries & kWritesCarry) != 0 ? ".cc." : ".") + type;
  const std::string c = (carries & kReadsCarry) != 0 ? "c" : "";
  const std::string two = sizeof(T) == 4 ? "Wwwk" : "Dddk";
  const std::string three = sizeof(T) == 4 ? "Wwwwk" : "Ddddk";
  table.Add("add" + c + end, two, Binary<T, carries, AddCarry<T>>);
  table.Add("sub" + c + end, two, Binary<T, carries, SubBorrow<T>>);
  table.Add("mad" + c + ".lo" + end, three, MultiplyAdd<T, carries, LowProduct<T>>);
  table.Add("mad" + c + ".hi" + end, three, MultiplyAdd<T, carries, HighProduct<S, T>>);
}

template <typename S>
void AddTypeRows(FormTable& table, const std::string& type) {
  AddCarryRows<S, kWritesCarry>(table, type);
  AddCarryRows<S, kReadsCarry>(table, type);
  AddCarryRows<S, kReadsCarry | kWritesCarry>(table, type);
}

FormTable MakeCarryTable() {
  FormTable table;
  AddTypeRows<uint32_t>(table, "u32");
  AddTypeRows<uint64_t>(table, "u64");
  AddTypeRows<int32_t>(table, "s32");
  AddTypeRows<int64_t>(table, "s64");
  return table;
}

}  // namespace

std::span<const Form> CarryForms() {
  static const FormTable table = MakeCarryTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
