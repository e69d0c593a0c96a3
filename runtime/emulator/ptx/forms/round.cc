// cvt between integers and floats, and between floats of 32 and 64 bits.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/narrow_format.h"
#include "runtime/emulator/ptx/forms/resize.h"
#include "runtime/emulator/ptx/forms/rounding.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// To an integral value: .rni, .rzi, .rmi, .rpi.
struct ToNearest {
  static constexpr const char* kName = ".rni";
  static auto Of(auto a) { return std::nearbyint(a); }
};
struct ToZero {
  static constexpr const char* kName = ".rzi";
  static auto Of(auto a) { return std::trunc(a); }
};
struct ToBelow {
  static constexpr const char* kName = ".rmi";
  static auto Of(auto a) { return std::floor(a); }
};
struct ToAbove {
  static constexpr const char* kName = ".rpi";
  static auto Of(auto a) { return std::ceil(a); }
};
struct AsItIs {
  static constexpr const char* kName = "";
  static auto Of(auto a) { return a; }
};

template <bool ftz, bool sat>
std::string CvtModifiers() {
  return std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "");
}

// --- floats to integers

// What a NaN becomes: 0, or what the host gives for 64 bits too.
template <typename D, typename F>
constexpr D kOfNaN = sizeof(D) == 8 || sizeof(F) == 8
                         ? static_cast<D>(std::make_unsigned_t<D>{1} << (8 * sizeof(D) - 1))
                         : D{0};

// The integer of an integral value; the nearest that there is of what is too large.
template <typename D, typename F>
D ToInteger(F value) {
  using Limits = std::numeric_limits<D>;
  using Via = std::conditional_t<(sizeof(D) < 4), int32_t, D>;
  constexpr F kLeast = static_cast<F>(Limits::min());
  constexpr F kTooLarge = static_cast<F>(uint64_t{1} << (Limits::digits - 1)) * 2;
  const bool fits = value >= kLeast && value < kTooLarge;
  D result = static_cast<D>(static_cast<Via>(fits ? value : 0));
  result = value < kLeast ? Limits::min() : result;
  result = value >= kTooLarge ? Limits::max() : result;
  return value != value ? kOfNaN<D, F> : result;
}

template <typename D, typename F, typename Integral, bool ftz>
D CvtToInteger(F a) {
  return ToInteger<D>(Integral::Of(FlushIf<ftz>(a)));
}

template <typename Format, typename D, typename Integral>
D CvtHalfToInteger(uint16_t a) {
  return ToInteger<D>(Integral::Of(Widen<Format>(a)));
}

// --- integers to floats

template <typename F, typename S, bool sat>
F CvtFromInteger(S a) {
  return Finish<false, sat>(static_cast<F>(a));
}
template <typename F, typename S>
F CvtSatFromInteger(S a) {
  return Saturate(static_cast<F>(a));
}

// Above 2^20 all are too large for f16; up to there they are exact in 32 bits.
template <typename S, NarrowRounding rounding, bool sat>
uint16_t CvtF16FromInteger(S a) {
  constexpr int32_t kBound = 1 << 20;
  int32_t bounded = std::cmp_greater(a, kBound) ? kBound : static_cast<int32_t>(a);
  if (std::cmp_less(a, -kBound)) bounded = -kBound;
  const auto value = static_cast<float>(bounded);
  return static_cast<uint16_t>(Narrow<F16, rounding>(sat ? Saturate(value) : value));
}

// Of the magnitude 24 bits are kept, the last of them set if any below is: a second rounding to
// fewer bits is then as of the number itself.
template <typename S, NarrowRounding rounding>
uint16_t CvtBF16FromInteger(S a) {
  const bool negative = std::cmp_less(a, 0);
  const uint64_t bits = static_cast<uint64_t>(a);
  const uint64_t magnitude = negative ? ~bits + 1 : bits;
  const int drop = std::max(0, 40 - std::countl_zero(magnitude | 1));
  const uint64_t kept = magnitude >> drop;
  const bool lost = kept << drop != magnitude;
  const float scale = FromBits<float>(static_cast<uint32_t>(127 + drop) << 23);
  const float value = static_cast<float>(static_cast<int32_t>(kept | (lost ? 1 : 0))) * scale;
  return static_cast<uint16_t>(Narrow<BF16, rounding>(negative ? -value : value));
}

// --- floats to floats

template <bool ftz, bool sat>
float CvtF32OfF64(double a) {
  return Finish<ftz, sat>(static_cast<float>(a));
}

template <bool ftz, bool sat>
double CvtF64OfF32(float a) {
  const auto value = static_cast<double>(FlushIf<ftz>(a));
  return sat ? Saturate(value) : value;
}

// A mere copy keeps the bits of a NaN.
template <typename Integral, bool ftz, bool sat>
float CvtF32(float a) {
  const float value = Integral::Of(FlushIf<ftz>(a));
  if constexpr (sat) return Saturate(value);
  if constexpr (std::is_same_v<Integral, AsItIs>) return value;
  return Canonical(value);
}

template <typename Integral, bool sat>
double CvtF64(double a) {
  const double value = Integral::Of(a);
  return sat ? Saturate(value) : value;
}

template <typename Integral, bool sat>
uint16_t CvtF16(uint16_t a) {
  const float value = Integral::Of(Widen<F16>(a));
  return static_cast<uint16_t>(Narrow<F16>(sat ? Saturate(value) : value));
}

// --- rows

template <typename T>
struct CvtInteger {
  const char* name;
};

template <typename D, typename Integral>
void AddToInteger(FormTable& table, const std::string& type) {
  for (const char* const sat : {"", ".sat"}) {  // Floats always saturate.
    const std::string head = std::string("cvt") + Integral::kName;
    AddResized<CvtToInteger<D, float, Integral, false>>(table, head + sat + type + ".f32");
    AddResized<CvtToInteger<D, float, Integral, true>>(table, head + ".ftz" + sat + type + ".f32");
    AddResized<CvtToInteger<D, double, Integral, false>>(table, head + sat + type + ".f64");
    AddResized<CvtHalfToInteger<F16, D, Integral>>(table, head + sat + type + ".f16");
  }
  if constexpr (sizeof(D) > 1) {
    AddResized<CvtHalfToInteger<BF16, D, Integral>>(
        table, std::string("cvt") + Integral::kName + type + ".bf16");
  }
}

template <typename S, NarrowRounding rounding>
void AddHalfFromInteger(FormTable& table, const NamedRounding& mode, const std::string& type) {
  const std::string head = std::string("cvt") + mode.name;
  AddResized<CvtF16FromInteger<S, rounding, false>>(table, head + ".f16" + type);
  AddResized<CvtF16FromInteger<S, rounding, true>>(table, head + ".sat.f16" + type);
  if constexpr (sizeof(S) > 1)
    AddResized<CvtBF16FromInteger<S, rounding>>(table, head + ".bf16" + type);
}

template <typename S>
void AddFromInteger(FormTable& table, const std::string& type) {
  for (const NamedRounding& mode : kRoundings) {
    const std::string head = std::string("cvt") + mode.name;
    AddResized<CvtFromInteger<float, S, false>>(table, head + ".f32" + type, mode.rounding);
    AddResized<CvtSatFromInteger<float, S>>(table, head + ".sat.f32" + type, mode.rounding);
    AddResized<CvtFromInteger<double, S, false>>(table, head + ".f64" + type, mode.rounding);
    AddResized<CvtSatFromInteger<double, S>>(table, head + ".sat.f64" + type, mode.rounding);
  }
  AddHalfFromInteger<S, NarrowRounding::kNearest>(table, kRoundings[0], type);
  AddHalfFromInteger<S, NarrowRounding::kTowardZero>(table, kRoundings[1], type);
  AddHalfFromInteger<S, NarrowRounding::kDown>(table, kRoundings[2], type);
  AddHalfFromInteger<S, NarrowRounding::kUp>(table, kRoundings[3], type);
}

template <typename... T>
void AddIntegers(FormTable& table, CvtInteger<T>... types) {
  (AddToInteger<T, ToNearest>(table, types.name), ...);
  (AddToInteger<T, ToZero>(table, types.name), ...);
  (AddToInteger<T, ToBelow>(table, types.name), ...);
  (AddToInteger<T, ToAbove>(table, types.name), ...);
  (AddFromInteger<T>(table, types.name), ...);
}

template <bool ftz, bool sat>
void AddFloats(FormTable& table) {
  const std::string modifiers = CvtModifiers<ftz, sat>();
  AddRounded<CvtF32OfF64<ftz, sat>>(table, "cvt", modifiers + ".f32.f64");
  table.Each<CvtF64OfF32<ftz, sat>>("cvt" + modifiers + ".f64.f32");
}

template <typename... Integral>
void AddIntegral(FormTable& table) {
  const std::string cvt = "cvt";
  (table.Each<CvtF32<Integral, false, false>>(cvt + Integral::kName + ".f32.f32"), ...);
  (table.Each<CvtF32<Integral, false, true>>(cvt + Integral::kName + ".sat.f32.f32"), ...);
  (table.Each<CvtF32<Integral, true, false>>(cvt + Integral::kName + ".ftz.f32.f32"), ...);
  (table.Each<CvtF32<Integral, true, true>>(cvt + Integral::kName + ".ftz.sat.f32.f32"), ...);
  (table.Each<CvtF64<Integral, false>>(cvt + Integral::kName + ".f64.f64"), ...);
  (table.Each<CvtF64<Integral, true>>(cvt + Integral::kName + ".sat.f64.f64"), ...);
  (table.Each<CvtF16<Integral, false>>(cvt + Integral::kName + ".f16.f16"), ...);
  (table.Each<CvtF16<Integral, true>>(cvt + Integral::kName + ".sat.f16.f16"), ...);
}

FormTable MakeRoundTable() {
  FormTable table;
  AddIntegers(table, CvtInteger<uint8_t>{".u8"}, CvtInteger<uint16_t>{".u16"},
              CvtInteger<uint32_t>{".u32"}, CvtInteger<uint64_t>{".u64"}, CvtInteger<int8_t>{".s8"},
              CvtInteger<int16_t>{".s16"}, CvtInteger<int32_t>{".s32"},
              CvtInteger<int64_t>{".s64"});
  AddFloats<false, false>(table);
  AddFloats<false, true>(table);
  AddFloats<true, false>(table);
  AddFloats<true, true>(table);
  AddIntegral<AsItIs, ToNearest, ToZero, ToBelow, ToAbove>(table);
  return table;
}

}  // namespace

std::span<const Form> RoundForms() {
  static const FormTable table = MakeRoundTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
