// Arithmetic of f16 and bf16, single and packed.
//
// It is done on wider floats and rounded once: sums and products of f16 by 32 bits, whose rounding
// cannot change that to 16 (24 bits are at least 2 * 11 + 2); what has no such room is rounded to
// odd in between.

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/elementary.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/minmax.h"
#include "runtime/emulator/ptx/forms/narrow_format.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

template <typename Format>
float FmaOf(float a, float b, float c) {
  if constexpr (std::is_same_v<Format, F16>) {
    return FmaToOdd(a, b, c);
  } else {
    return ToOddFloat(FmaToOdd<double>(a, b, c));
  }
}

template <typename Format>
float AddOf(float a, float b) {
  return a + b;
}

template <typename Format>
float SubOf(float a, float b) {
  return a - b;
}

// Products of bf16 may be subnormal floats, or below.
template <typename Format>
float MulOf(float a, float b) {
  if constexpr (std::is_same_v<Format, F16>) {
    return a * b;
  } else {
    return ToOddFloat(static_cast<double>(a) * static_cast<double>(b));
  }
}

template <typename Format>
float TanhOf(float a) {
  return std::tanh(a);
}

template <typename Format>
float Exp2Of(float a) {
  return Exp2(a);
}

template <bool larger, bool nan>
float HalfExtreme(float a, float b) {
  return Extreme<larger, nan>(a, b);
}

template <bool larger, bool nan>
float HalfMagnitude(float a, float b) {
  return ExtremeMagnitude<larger, nan>(a, b);
}

enum class After : uint8_t { kNothing, kSaturate, kRelu };

// A subnormal number of 16 bits, to be flushed.
template <typename Format>
uint32_t FlushHalf(uint32_t bits) {
  return (bits & Format::kInfinity) == 0 ? bits & Format::kSign : bits;
}

// One half: `of` computes on floats.
template <typename Format, auto of, bool ftz, After after>
struct Half;
template <typename Format, typename... S, float (*of)(S...), bool ftz, After after>
struct Half<Format, of, ftz, after> {
  static uint16_t Of(std::conditional_t<true, uint16_t, S>... from) {
    uint32_t result = Narrow<Format>(of(Widen<Format>(ftz ? FlushHalf<Format>(from) : from)...));
    if constexpr (ftz) result = FlushHalf<Format>(result);
    if constexpr (after == After::kSaturate)
      result = Narrow<Format>(Saturate(Widen<Format>(result)));
    if constexpr (after == After::kRelu)
      result = (result & Format::kSign) != 0 && result != Format::kNaN ? 0 : result;
    return static_cast<uint16_t>(result);
  }
};

// Both halves of a register.
template <auto of>
struct Packed;
template <typename... S, uint16_t (*of)(S...)>
struct Packed<of> {
  static uint32_t Of(std::conditional_t<true, uint32_t, S>... from) {
    const uint32_t low = of(static_cast<uint16_t>(from)...);
    const uint32_t high = of(static_cast<uint16_t>(from >> 16)...);
    return low | high << 16;
  }
};

template <typename Format, bool ftz>
uint16_t NegHalf(uint16_t a) {
  return static_cast<uint16_t>((ftz ? FlushHalf<Format>(a) : a) ^ Format::kSign);
}

template <typename Format, bool ftz>
uint16_t AbsHalf(uint16_t a) {
  return static_cast<uint16_t>((ftz ? FlushHalf<Format>(a) : a) & ~Format::kSign);
}

constexpr const char* kAfters[] = {"", ".sat", ".relu"};

// Rows for one half and for both: "add.f16", "add.f16x2".
template <auto of>
void AddHalf(FormTable& table, const std::string& name) {
  table.Each<of>(name);
  table.Each<Packed<of>::Of>(name + "x2");
}

template <typename Format, bool ftz, After after>
void AddArithmetic(FormTable& table, const std::string& type) {
  const std::string end =
      (ftz ? ".ftz" : "") + std::string(kAfters[static_cast<int>(after)]) + type;
  AddHalf<Half<Format, FmaOf<Format>, ftz, after>::Of>(table, "fma.rn" + end);
  if constexpr (after != After::kRelu) {
    for (const char* const mode : {"", ".rn"}) {
      AddHalf<Half<Format, AddOf<Format>, ftz, after>::Of>(table, "add" + (mode + end));
      AddHalf<Half<Format, SubOf<Format>, ftz, after>::Of>(table, "sub" + (mode + end));
      AddHalf<Half<Format, MulOf<Format>, ftz, after>::Of>(table, "mul" + (mode + end));
    }
  }
}

template <typename Format, auto of, bool ftz>
void AddPlain(FormTable& table, const std::string& name, const std::string& type) {
  AddHalf<Half<Format, of, ftz, After::kNothing>::Of>(table, name + type);
}

template <typename Format, bool ftz>
void AddOthers(FormTable& table, const std::string& type) {
  const std::string flush = ftz ? ".ftz" : "";
  AddHalf<NegHalf<Format, ftz>>(table, "neg" + flush + type);
  AddHalf<AbsHalf<Format, ftz>>(table, "abs" + flush + type);
  AddPlain<Format, HalfExtreme<false, false>, ftz>(table, "min" + flush, type);
  AddPlain<Format, HalfExtreme<true, false>, ftz>(table, "max" + flush, type);
  AddPlain<Format, HalfExtreme<false, true>, ftz>(table, "min" + flush + ".NaN", type);
  AddPlain<Format, HalfExtreme<true, true>, ftz>(table, "max" + flush + ".NaN", type);
  AddPlain<Format, HalfMagnitude<false, false>, ftz>(table, "min" + flush + ".xorsign.abs", type);
  AddPlain<Format, HalfMagnitude<true, false>, ftz>(table, "max" + flush + ".xorsign.abs", type);
  AddPlain<Format, HalfMagnitude<false, true>, ftz>(table, "min" + flush + ".NaN.xorsign.abs",
                                                    type);
  AddPlain<Format, HalfMagnitude<true, true>, ftz>(table, "max" + flush + ".NaN.xorsign.abs", type);
}

FormTable MakeHalfTable() {
  FormTable table;
  AddArithmetic<F16, false, After::kNothing>(table, ".f16");
  AddArithmetic<F16, false, After::kSaturate>(table, ".f16");
  AddArithmetic<F16, false, After::kRelu>(table, ".f16");
  AddArithmetic<F16, true, After::kNothing>(table, ".f16");
  AddArithmetic<F16, true, After::kSaturate>(table, ".f16");
  AddArithmetic<F16, true, After::kRelu>(table, ".f16");
  AddArithmetic<BF16, false, After::kNothing>(table, ".bf16");
  AddArithmetic<BF16, false, After::kRelu>(table, ".bf16");
  AddOthers<F16, false>(table, ".f16");
  AddOthers<F16, true>(table, ".f16");
  AddOthers<BF16, false>(table, ".bf16");
  AddPlain<F16, Exp2Of<F16>, false>(table, "ex2.approx", ".f16");
  AddPlain<BF16, Exp2Of<BF16>, true>(table, "ex2.approx.ftz", ".bf16");
  AddPlain<F16, TanhOf<F16>, false>(table, "tanh.approx", ".f16");
  AddPlain<BF16, TanhOf<BF16>, false>(table, "tanh.approx", ".bf16");
  return table;
}

}  // namespace

std::span<const Form> HalfForms() {
  static const FormTable table = MakeHalfTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
