// Integer arithmetic.

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/table.h"
#include "runtime/emulator/ptx/forms/wide.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// What wraps is computed on unsigned numbers of 32 bits at least, which neither overflow nor are
// promoted to int.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

template <typename T>
constexpr bool kSigned = std::is_signed_v<T>;

template <typename T>
T Add(T a, T b) {
  return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
}

template <typename T>
T Sub(T a, T b) {
  return static_cast<T>(Wrapping<T>(a) - Wrapping<T>(b));
}

template <typename T>
T MulLo(T a, T b) {
  return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
}

template <typename T>
T MulHi(T a, T b) {
  return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
}

template <typename T>
Wide<T> MulWide(T a, T b) {
  return Wide<T>(a) * Wide<T>(b);
}

template <typename T>
T MadLo(T a, T b, T c) {
  return Add(MulLo(a, b), c);
}

template <typename T>
T MadHi(T a, T b, T c) {
  return Add(MulHi(a, b), c);
}

template <typename T>
Wide<T> MadWide(T a, T b, Wide<T> c) {
  return Add(MulWide(a, b), c);
}

int32_t Saturate(int64_t value) {
  constexpr int64_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const int64_t above = value < kMin ? kMin : value;
  return static_cast<int32_t>(above > kMax ? kMax : above);
}

int32_t AddSat(int32_t a, int32_t b) {
  return Saturate(int64_t{a} + b);
}

int32_t SubSat(int32_t a, int32_t b) {
  return Saturate(int64_t{a} - b);
}

int32_t MadHiSat(int32_t a, int32_t b, int32_t c) {
  return Saturate(int64_t{MulHi(a, b)} + c);
}

// The low 24 bits, extended.
template <typename T>
int64_t Low24(T a) {
  if constexpr (kSigned<T>) return static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8;
  return a & 0xffffff;
}

template <typename T>
T Mul24Lo(T a, T b) {
  return static_cast<T>(Low24(a) * Low24(b));
}

// Bits 47 to 16 of the product of 48 bits.
template <typename T>
T Mul24Hi(T a, T b) {
  return static_cast<T>((Low24(a) * Low24(b)) >> 16);
}

template <typename T>
T Mad24Lo(T a, T b, T c) {
  return Add(Mul24Lo(a, b), c);
}

template <typename T>
T Mad24Hi(T a, T b, T c) {
  return Add(Mul24Hi(a, b), c);
}

int32_t Mad24HiSat(int32_t a, int32_t b, int32_t c) {
  return Saturate(int64_t{Mul24Hi(a, b)} + c);
}

template <typename T>
T Sad(T a, T b, T c) {
  return Add(c, a < b ? Sub(b, a) : Sub(a, b));
}

// What a division by zero gives is unspecified; all bits set, as GPUs do.
template <typename T>
T Div(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (kSigned<T> && b == static_cast<T>(-1)) return Sub<T>(0, a);
  return static_cast<T>(a / b);
}

template <typename T>
T Rem(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (kSigned<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

template <typename T>
T Min(T a, T b) {
  return a < b ? a : b;
}

template <typename T>
T Max(T a, T b) {
  return a > b ? a : b;
}

template <typename T>
T Neg(T a) {
  return Sub<T>(0, a);
}

template <typename T>
T Abs(T a) {
  return a < 0 ? Neg(a) : a;
}

// What is below 0 becomes 0 (.relu).
template <auto of, typename T>
T Relu(T a, T b) {
  return std::max(of(a, b), T{0});
}

// Of both halves of a word.
template <auto of, typename T>
uint32_t InHalves(uint32_t a, uint32_t b) {
  const auto half = [=](int shift) {
    return static_cast<uint32_t>(
        static_cast<uint16_t>(of(static_cast<T>(a >> shift), static_cast<T>(b >> shift))));
  };
  return half(0) | half(16) << 16;
}

// Byte or half i of a word as an A, for dot products.
template <typename A>
int32_t Part(uint32_t word, int i) {
  return static_cast<A>(word >> (8 * static_cast<int>(sizeof(A)) * i));
}

template <typename A, typename B>
uint32_t Dp4a(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sum = c;
  for (int i = 0; i < 4; ++i)
    sum += static_cast<uint32_t>(Part<A>(a, i) * Part<B>(b, i));
  return sum;
}

// `first` is the byte of b that meets the low half of a.
template <typename A, typename B, int first>
uint32_t Dp2a(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sum = c;
  for (int i = 0; i < 2; ++i)
    sum += static_cast<uint32_t>(Part<A>(a, i)) * static_cast<uint32_t>(Part<B>(b, first + i));
  return sum;
}

template <typename T>
void AddRows(FormTable& table, const std::string& type) {
  table.Each<Add<T>>("add." + type);
  table.Each<Sub<T>>("sub." + type);
  table.Each<MulLo<T>>("mul.lo." + type);
  table.Each<MulHi<T>>("mul.hi." + type);
  table.Each<MadLo<T>>("mad.lo." + type);
  table.Each<MadHi<T>>("mad.hi." + type);
  table.Each<Sad<T>>("sad." + type);
  table.Each<Div<T>>("div." + type);
  table.Each<Rem<T>>("rem." + type);
  table.Each<Min<T>>("min." + type);
  table.Each<Max<T>>("max." + type);
  if constexpr (kSigned<T>) {
    table.Each<Abs<T>>("abs." + type);
    table.Each<Neg<T>>("neg." + type);
  }
  if constexpr (sizeof(T) < 8) {
    table.Each<MulWide<T>>("mul.wide." + type);
    table.Each<MadWide<T>>("mad.wide." + type);
  }
  if constexpr (sizeof(T) == 4) {
    table.Each<Mul24Lo<T>>("mul24.lo." + type);
    table.Each<Mul24Hi<T>>("mul24.hi." + type);
    table.Each<Mad24Lo<T>>("mad24.lo." + type);
    table.Each<Mad24Hi<T>>("mad24.hi." + type);
  }
}

template <typename T>
void AddRowsOfPairs(FormTable& table, const std::string& type) {
  table.Each<InHalves<Add<T>, T>>("add." + type);
  table.Each<InHalves<Min<T>, T>>("min." + type);
  table.Each<InHalves<Max<T>, T>>("max." + type);
}

template <typename A, typename HalfOfA, typename B>
void AddDotRows(FormTable& table, const std::string& types) {
  table.Each<Dp4a<A, B>>("dp4a" + types);
  table.Each<Dp2a<HalfOfA, B, 0>>("dp2a.lo" + types);
  table.Each<Dp2a<HalfOfA, B, 2>>("dp2a.hi" + types);
}

FormTable MakeTable() {
  FormTable table;
  AddRows<uint16_t>(table, "u16");
  AddRows<uint32_t>(table, "u32");
  AddRows<uint64_t>(table, "u64");
  AddRows<int16_t>(table, "s16");
  AddRows<int32_t>(table, "s32");
  AddRows<int64_t>(table, "s64");
  AddRowsOfPairs<uint16_t>(table, "u16x2");
  AddRowsOfPairs<int16_t>(table, "s16x2");
  table.Each<InHalves<Relu<Min<int16_t>, int16_t>, int16_t>>("min.relu.s16x2");
  table.Each<InHalves<Relu<Max<int16_t>, int16_t>, int16_t>>("max.relu.s16x2");
  table.Each<Relu<Min<int32_t>, int32_t>>("min.relu.s32");
  table.Each<Relu<Max<int32_t>, int32_t>>("max.relu.s32");
  table.Each<AddSat>("add.sat.s32");
  table.Each<SubSat>("sub.sat.s32");
  table.Each<MadHiSat>("mad.hi.sat.s32");
  table.Each<Mad24HiSat>("mad24.hi.sat.s32");
  AddDotRows<uint8_t, uint16_t, uint8_t>(table, ".u32.u32");
  AddDotRows<uint8_t, uint16_t, int8_t>(table, ".u32.s32");
  AddDotRows<int8_t, int16_t, uint8_t>(table, ".s32.u32");
  AddDotRows<int8_t, int16_t, int8_t>(table, ".s32.s32");
  return table;
}

}  // namespace

std::span<const Form> IntegerForms() {
  static const FormTable table = MakeTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
