// Comparisons of setp and set.
//
// All combinations of one comparison share a handler; its flags say which one it is:
//
//   bits 0-1   Combine: what the result is combined with a predicate by
//   bits 2-4   of set: what a register shows for true
//   bit  7     the predicate is negated
//
// Threads: pure functions.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/narrow_format.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx {

enum class Combine : uint8_t { kNone, kAnd, kOr, kXor };
inline constexpr std::array<const char*, 4> kCombines = {"", ".and", ".or", ".xor"};

// What is compared: the register, and the value of a lane.
template <typename T>
struct Plain {
  using Register = T;
  using Value = T;
  static T Of(T value) { return value; }
};
struct FlushedFloat {
  using Register = float;
  using Value = float;
  static float Of(float value) { return Flush(value); }
};
// A half at `shift` of its register.
template <typename Format, typename R, int shift, bool ftz>
struct HalfAt {
  using Register = R;
  using Value = float;
  static float Of(R bits) {
    const uint32_t half = static_cast<uint32_t>(bits) >> shift & 0xffff;
    const bool flush = ftz && (half & Format::kInfinity) == 0;
    return Widen<Format>(flush ? half & Format::kSign : half);
  }
};

struct Eq {
  static constexpr const char* kName = ".eq";
  static bool Of(auto a, auto b) { return a == b; }
};
struct Ne {  // Ordered: neither is a NaN.
  static constexpr const char* kName = ".ne";
  template <typename T>
  static bool Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return (a < b) | (a > b);
    return a != b;
  }
};
struct Lt {
  static constexpr const char* kName = ".lt";
  static bool Of(auto a, auto b) { return a < b; }
};
struct Le {
  static constexpr const char* kName = ".le";
  static bool Of(auto a, auto b) { return a <= b; }
};
struct Gt {
  static constexpr const char* kName = ".gt";
  static bool Of(auto a, auto b) { return a > b; }
};
struct Ge {
  static constexpr const char* kName = ".ge";
  static bool Of(auto a, auto b) { return a >= b; }
};
// Lower, and so on: the names for unsigned numbers.
struct Lo : Lt {
  static constexpr const char* kName = ".lo";
};
struct Ls : Le {
  static constexpr const char* kName = ".ls";
};
struct Hi : Gt {
  static constexpr const char* kName = ".hi";
};
struct Hs : Ge {
  static constexpr const char* kName = ".hs";
};
// Unordered: true if either is a NaN.
template <typename Ordered>
struct OrUnordered {
  static bool Of(auto a, auto b) { return Ordered::Of(a, b) | (a != a) | (b != b); }
};
struct Equ : OrUnordered<Eq> {
  static constexpr const char* kName = ".equ";
};
struct Neu : OrUnordered<Ne> {
  static constexpr const char* kName = ".neu";
};
struct Ltu : OrUnordered<Lt> {
  static constexpr const char* kName = ".ltu";
};
struct Leu : OrUnordered<Le> {
  static constexpr const char* kName = ".leu";
};
struct Gtu : OrUnordered<Gt> {
  static constexpr const char* kName = ".gtu";
};
struct Geu : OrUnordered<Ge> {
  static constexpr const char* kName = ".geu";
};
struct Num {
  static constexpr const char* kName = ".num";
  static bool Of(auto a, auto b) { return (a == a) & (b == b); }
};
struct NaN {
  static constexpr const char* kName = ".nan";
  static bool Of(auto a, auto b) { return (a != a) | (b != b); }
};

template <typename Operand, typename Op>
[[gnu::always_inline]] inline uint32_t Compare(const Warp& warp, Slot a, Slot b) {
  using Register = typename Operand::Register;
  const auto* const x = warp.From<Register>(a);
  const auto* const y = warp.From<Register>(b);
  return LanesThat([=](int i) __attribute__((always_inline)) {
    return Op::Of(Operand::Of(x[i]), Operand::Of(y[i]));
  });
}

// The lanes' results, combined with the predicate that the flags ask for.
inline uint32_t Combined(const Instr& instr, uint32_t bits, uint32_t with) {
  const uint32_t other = with ^ ((instr.flags & Instr::kNegated) != 0 ? kAllLanes : 0);
  switch (static_cast<Combine>(instr.flags & 3)) {
    case Combine::kAnd:
      return bits & other;
    case Combine::kOr:
      return bits | other;
    case Combine::kXor:
      return bits ^ other;
    case Combine::kNone:
      break;
  }
  return bits;
}

// What is compared: its name, with .ftz, and the letters of two operands.
struct Compared {
  const char* flush = "";
  const char* type = "";
  const char* letters = "";
};

// Calls `rows.template Add<Operand, Op>(what)` for each comparison that there is of each type, and
// AddPacked<Low, High, Op>(what) for packed types.
template <typename Rows>
class Comparisons {
 public:
  explicit Comparisons(Rows& rows) : rows_(rows) {}

  void AddAll() {
    AddIntegers<uint16_t>({"", ".b16", "hh"}, {"", ".u16", "hh"}, {"", ".s16", "hh"});
    AddIntegers<uint32_t>({"", ".b32", "ww"}, {"", ".u32", "ww"}, {"", ".s32", "ww"});
    AddIntegers<uint64_t>({"", ".b64", "dd"}, {"", ".u64", "dd"}, {"", ".s64", "dd"});
    AddFloats<Plain<float>>({"", ".f32", "ww"});
    AddFloats<FlushedFloat>({".ftz", ".f32", "ww"});
    AddFloats<Plain<double>>({"", ".f64", "dd"});
    AddFloats<HalfAt<F16, uint16_t, 0, false>>({"", ".f16", "hh"});
    AddFloats<HalfAt<F16, uint16_t, 0, true>>({".ftz", ".f16", "hh"});
    AddFloats<HalfAt<BF16, uint16_t, 0, false>>({"", ".bf16", "hh"});
    AddPackedOf<F16, false>({"", ".f16x2", "ww"});
    AddPackedOf<F16, true>({".ftz", ".f16x2", "ww"});
    AddPackedOf<BF16, false>({"", ".bf16x2", "ww"});
  }

 private:
  template <typename U>
  void AddIntegers(const Compared& bits, const Compared& plain, const Compared& with_sign) {
    Add<Plain<U>, Eq, Ne>(bits);
    Add<Plain<U>, Eq, Ne, Lt, Le, Gt, Ge, Lo, Ls, Hi, Hs>(plain);
    Add<Plain<std::make_signed_t<U>>, Eq, Ne, Lt, Le, Gt, Ge>(with_sign);
  }

  template <typename Operand>
  void AddFloats(const Compared& what) {
    Add<Operand, Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, NaN>(what);
  }

  template <typename Format, bool ftz>
  void AddPackedOf(const Compared& what) {
    AddPacked<HalfAt<Format, uint32_t, 0, ftz>, HalfAt<Format, uint32_t, 16, ftz>, Eq, Ne, Lt, Le,
              Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, NaN>(what);
  }

  template <typename Operand, typename... Op>
  void Add(const Compared& what) {
    (rows_.template Add<Operand, Op>(what), ...);
  }

  template <typename Low, typename High, typename... Op>
  void AddPacked(const Compared& what) {
    (rows_.template AddPacked<Low, High, Op>(what), ...);
  }

  Rows& rows_;
};

}  // namespace coppice::ptx
