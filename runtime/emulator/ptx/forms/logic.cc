// Logic and shifts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

template <typename T>
T And(T a, T b) {
  return a & b;
}

template <typename T>
T Or(T a, T b) {
  return a | b;
}

template <typename T>
T Xor(T a, T b) {
  return a ^ b;
}

template <typename T>
T Not(T a) {
  return static_cast<T>(~a);
}

template <typename T>
T Cnot(T a) {
  return a == 0 ? 1 : 0;
}

// Amounts above the width shift everything out.
template <typename T>
T Shl(T a, uint32_t amount) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const T shifted = static_cast<T>(a << (amount & (kBits - 1)));
  return amount < kBits ? shifted : 0;
}

template <typename T>
T Shr(T a, uint32_t amount) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(a >> (amount < kBits ? amount : kBits - 1));
  } else {
    const T shifted = static_cast<T>(a >> (amount & (kBits - 1)));
    return amount < kBits ? shifted : 0;
  }
}

// The amounts of funnel shifts.
uint32_t Wrap(uint32_t amount) {
  return amount & 31;
}

uint32_t Clamp(uint32_t amount) {
  return amount < 32 ? amount : 32;
}

// [b:a] shifted left: its upper word.
template <uint32_t (*bounded)(uint32_t)>
uint32_t ShfLeft(uint32_t a, uint32_t b, uint32_t amount) {
  const uint64_t both = uint64_t{b} << 32 | a;
  return static_cast<uint32_t>(both << bounded(amount) >> 32);
}

// [b:a] shifted right: its lower word.
template <uint32_t (*bounded)(uint32_t)>
uint32_t ShfRight(uint32_t a, uint32_t b, uint32_t amount) {
  const uint64_t both = uint64_t{b} << 32 | a;
  return static_cast<uint32_t>(both >> bounded(amount));
}

// Bit 4a + 2b + c of the table is the result for bits a, b and c: a sum of minterms, each of which
// is kept by a word of ones.
struct Minterms {
  explicit Minterms(uint64_t table) {
    for (size_t i = 0; i < 8; ++i)
      keep[i] = (table >> i & 1) != 0 ? ~uint32_t{0} : 0;
  }
  [[gnu::always_inline]] uint32_t Of(uint32_t a, uint32_t b, uint32_t c) const {
    const uint32_t without_a =
        (~b & ((~c & keep[0]) | (c & keep[1]))) | (b & ((~c & keep[2]) | (c & keep[3])));
    const uint32_t with_a =
        (~b & ((~c & keep[4]) | (c & keep[5]))) | (b & ((~c & keep[6]) | (c & keep[7])));
    return (~a & without_a) | (a & with_a);
  }

  uint32_t keep[8];
};

Step Lop3(Warp& warp, const Instr& instr) {
  const Minterms minterms(instr.immediate);
  const uint32_t* const a = warp.From<uint32_t>(instr.a);
  const uint32_t* const b = warp.From<uint32_t>(instr.b);
  const uint32_t* const c = warp.From<uint32_t>(instr.c);
  KeepLanes(warp.mask(), warp.To<uint32_t>(instr.d),
            [=](int i) { return minterms.Of(a[i], b[i], c[i]); });
  return Step::kNext;
}

// The predicate behind d is whether d is not 0, and or or a predicate that is read.
template <uint32_t (*of)(uint32_t, uint32_t)>
Step Lop3Test(Warp& warp, const Instr& instr) {
  const Minterms minterms(instr.immediate);
  const uint32_t* const a = warp.From<uint32_t>(instr.b);
  const uint32_t* const b = warp.From<uint32_t>(instr.c);
  const uint32_t* const c = warp.From<uint32_t>(warp.More(instr, 0));
  const Source<bool> read(warp, instr, warp.More(instr, 1));
  std::array<uint32_t, kLanes> results;
  for (size_t i = 0; i < kLanes; ++i)
    results[i] = minterms.Of(a[i], b[i], c[i]);
  const auto result = [&](int i) { return results[static_cast<size_t>(i)]; };
  KeepLanes(warp.mask(), warp.To<uint32_t>(instr.d), result);
  const uint32_t tests = LanesThat([&](int i) { return result(i) != 0; });
  warp.SetPredicate(instr.a, of(tests, LanesThat([&](int i) { return read[i]; })));
  return Step::kNext;
}

// Predicates: all lanes at once.
template <uint32_t (*of)(uint32_t, uint32_t)>
Step PredicateForm(Warp& warp, const Instr& instr) {
  warp.SetPredicate(instr.d, of(warp.Predicate(instr.a), warp.Predicate(instr.b)));
  return Step::kNext;
}

Step PredicateNot(Warp& warp, const Instr& instr) {
  warp.SetPredicate(instr.d, ~warp.Predicate(instr.a));
  return Step::kNext;
}

template <typename T>
void AddLogicRows(FormTable& table, const std::string& bits) {
  table.Each<And<T>>("and.b" + bits);
  table.Each<Or<T>>("or.b" + bits);
  table.Each<Xor<T>>("xor.b" + bits);
  table.Each<Not<T>>("not.b" + bits);
  table.Each<Cnot<T>>("cnot.b" + bits);
  table.Each<Shl<T>>("shl.b" + bits);
  table.Each<Shr<T>>("shr.b" + bits);
  table.Each<Shr<T>>("shr.u" + bits);
  table.Each<Shr<std::make_signed_t<T>>>("shr.s" + bits);
}

FormTable MakeLogicTable() {
  FormTable table;
  AddLogicRows<uint16_t>(table, "16");
  AddLogicRows<uint32_t>(table, "32");
  AddLogicRows<uint64_t>(table, "64");
  table.Add("and.pred", "Ppp", PredicateForm<And<uint32_t>>);
  table.Add("or.pred", "Ppp", PredicateForm<Or<uint32_t>>);
  table.Add("xor.pred", "Ppp", PredicateForm<Xor<uint32_t>>);
  table.Add("not.pred", "Pp", PredicateNot);
  table.Add("lop3.b32", "Wwwwi", Lop3);
  table.Add("lop3.and.b32", "W|Pwwwip", Lop3Test<And<uint32_t>>);
  table.Add("lop3.or.b32", "W|Pwwwip", Lop3Test<Or<uint32_t>>);
  table.Each<ShfLeft<Wrap>>("shf.l.wrap.b32");
  table.Each<ShfLeft<Clamp>>("shf.l.clamp.b32");
  table.Each<ShfRight<Wrap>>("shf.r.wrap.b32");
  table.Each<ShfRight<Clamp>>("shf.r.clamp.b32");
  return table;
}

}  // namespace

std::span<const Form> LogicForms() {
  static const FormTable table = MakeLogicTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
